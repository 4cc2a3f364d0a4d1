/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a symbol file in memory, for the makers of pages: raw, or compressed if raw text takes too much. */
#ifndef FORMAT_SYMSTORE_H
#define FORMAT_SYMSTORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/block_pool.h"
#include "format/symtext.h"

/* Shared by several stores. */
struct symstore_budget {
	/* bytes of raw text, for all stores and for one: a full block beyond these is compressed */
	uint64_t limit, one;
	_Atomic uint64_t used;   /* bytes of blocks with raw text */
	atomic_uint idle_makers; /* for symmap.c */
};

struct symstore;

/* Pool and budget must outlive it. NULL if out of memory. */
struct symstore *symstore_new(struct block_pool *pool, struct symstore_budget *budget);
/* Its readers must be freed before. NULL is fine. */
void symstore_free(struct symstore *s);

/* Space for the next bytes of the text, and how many fit: at least one. The same space until bytes are committed. NULL
 * if out of memory. */
uint8_t *symstore_space(struct symstore *s, size_t *room);
/* Takes n bytes written there; the space must not be used again. Waits if compression has fallen behind. False if out
 * of memory; then the store can only be freed. */
bool symstore_commit(struct symstore *s, size_t n);
/* Takes a block of the pool with the next n bytes of the text, even if it fails. All blocks before must be full. Helps
 * if compression has fallen behind. False as above. */
bool symstore_append(struct symstore *s, uint8_t *block, size_t n);
/* Ends the text, which may then be read. False as above. */
bool symstore_end(struct symstore *s);
/* Frees these BLOCK_SIZE bytes of text; reading them fails from then on. Call it while nobody reads. */
void symstore_let_go(struct symstore *s, uint32_t block);

/* Bytes of memory that it takes. May be called on any thread. */
uint64_t symstore_bytes(const struct symstore *s);

/* A reader of a complete text, for one thread. NULL if out of memory. */
struct symstore_reader *symstore_reader_new(const struct symstore *s);
void symstore_reader_free(struct symstore_reader *r); /* NULL is fine */
/* Valid as long as the reader. */
const struct symtext *symstore_reader_text(const struct symstore_reader *r);
uint64_t symstore_reader_bytes(const struct symstore_reader *r);

#endif
