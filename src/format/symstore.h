/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a symbol file in memory, for those who make pages of it: as it came, or compressed where raw text takes
 * too much. */
#ifndef FORMAT_SYMSTORE_H
#define FORMAT_SYMSTORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/block_pool.h"
#include "format/symtext.h"

/* Of all stores that share it. */
struct symstore_budget {
	/* bytes of raw text, of all and of one: a block that is full while there is more is compressed */
	uint64_t limit, one;
	_Atomic uint64_t used;   /* by the blocks that hold raw text */
	atomic_uint idle_makers; /* of symmap.c */
};

struct symstore;

/* Pool and budget must outlive it. NULL if out of memory. */
struct symstore *symstore_new(struct block_pool *pool, struct symstore_budget *budget);
/* Its readers are gone. NULL is fine. */
void symstore_free(struct symstore *s);

/* Where the next bytes of the text go, and how many at most: one at least. The same until they are committed. NULL: no
 * memory. */
uint8_t *symstore_space(struct symstore *s, size_t *room);
/* That many were written there; they may be gone from there. Waits while compressing falls behind. false if out of
 * memory, and the store is only to be freed. */
bool symstore_commit(struct symstore *s, size_t n);
/* The text is complete, and may be read. false as above. */
bool symstore_end(struct symstore *s);
/* Nobody reads these BLOCK_SIZE bytes of the text any more: who tries cannot have them. While nobody reads anything. */
void symstore_let_go(struct symstore *s, uint32_t block);

/* Bytes of memory that it takes. From any thread. */
uint64_t symstore_bytes(const struct symstore *s);

/* Reads a store that has ended, for one thread. NULL if out of memory. */
struct symstore_reader *symstore_reader_new(const struct symstore *s);
void symstore_reader_free(struct symstore_reader *r); /* NULL is fine */
/* Stays as long as the reader. */
const struct symtext *symstore_reader_text(const struct symstore_reader *r);
uint64_t symstore_reader_bytes(const struct symstore_reader *r);

#endif
