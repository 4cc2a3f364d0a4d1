/* SPDX-License-Identifier: Apache-2.0 */
/* Large blocks of memory, kept for reuse: faulting in a fresh page costs as much as reading a page of text. */
#ifndef BASE_BLOCK_POOL_H
#define BASE_BLOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum { BLOCK_SIZE = 256 << 10 };

struct block_pool;

/* Keeps at most this many bytes of unused blocks. NULL if out of memory. */
struct block_pool *block_pool_new(uint64_t keep);
/* All blocks must have been put back. */
void block_pool_free(struct block_pool *p);

/* BLOCK_SIZE bytes, or NULL if out of memory. From any thread. */
uint8_t *block_get(struct block_pool *p);
/* NULL is fine. */
void block_put(struct block_pool *p, uint8_t *block);
/* Bytes of the blocks that are in use. */
uint64_t block_pool_used(struct block_pool *p);
/* Frees the unused blocks: at once, or, if called now and then, when nobody has used the pool since the last call. */
void block_pool_trim(struct block_pool *p, bool at_once);

#endif
