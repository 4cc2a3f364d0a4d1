/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a symbol file in memory, for the makers of pages. What came as gzip stays as it came; other text is raw,
 * or compressed if it takes too much. */
#ifndef SYM_TEXT_STORE_H
#define SYM_TEXT_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/block_pool.h"
#include "base/packed_text.h"
#include "sym/records.h"

/* Shared by several stores. */
struct text_store_budget {
	/* bytes of raw text, for all stores and for one: a full block beyond these is compressed */
	uint64_t limit, one;
	_Atomic uint64_t used;   /* bytes of blocks with raw text */
	atomic_uint idle_makers; /* for symmap.c */
};

enum {
	TEXT_STORE_STRETCHES = 4,      /* of PACKED_STRETCH bytes, that a reader keeps inflated */
	TEXT_STORE_RECENT = 768 << 10, /* bytes that came last and are always raw; see text_store_recent */
};

struct text_store;

/* Pool and budget must outlive it. NULL if out of memory. */
struct text_store *text_store_new(struct block_pool *pool, struct text_store_budget *budget);
/* Its readers must be freed before. NULL is fine. */
void text_store_free(struct text_store *s);

/* What keeps the text as it comes, if it comes as gzip: to be filled before the same bytes are given to the store. */
struct packed_text *text_store_packed(struct text_store *s);

/* Space for the next bytes of the text, and how many fit: at least one. The same space until bytes are committed. NULL
 * if out of memory. */
uint8_t *text_store_space(struct text_store *s, size_t *room);
/* Takes n bytes written there; the space must not be used again. Waits if compression has fallen behind. False if out
 * of memory; then the store can only be freed. needed: whether anybody will read from the BLOCK_SIZE bytes that these
 * are in; asked when they are full. */
bool text_store_commit(struct text_store *s, size_t n, bool needed);
/* Takes a block of the pool with the next n bytes of the text, even if it fails. All blocks before must be full. Helps
 * if compression has fallen behind. False as above. */
bool text_store_append(struct text_store *s, uint8_t *block, size_t n, bool needed);
/* For the writer, while the text arrives: what came last, at least TEXT_STORE_RECENT bytes, unless the text is being
 * compressed. */
struct symtext text_store_recent(struct text_store *s);
/* Ends the text, which may then be read; its last bytes take a block of the pool no longer. False as above. */
bool text_store_end(struct text_store *s);
/* After the end: inflates what was kept as gzip, for reads in no order: those inflate PACKED_STRETCH bytes each. What
 * is too much as raw text is compressed. False as above. */
bool text_store_unpack(struct text_store *s);
/* Frees these BLOCK_SIZE bytes of text, unless they were kept as gzip; they must not be read again. Call it while
 * nobody reads. */
void text_store_let_go(struct text_store *s, uint32_t block);

/* Bytes of memory that it takes. May be called on any thread. */
uint64_t text_store_bytes(const struct text_store *s);

/* A reader of a complete text, for one thread. NULL if out of memory. */
struct text_store_reader *text_store_reader_new(const struct text_store *s);
void text_store_reader_free(struct text_store_reader *r); /* NULL is fine */
/* Valid as long as the reader. */
const struct symtext *text_store_reader_text(const struct text_store_reader *r);
uint64_t text_store_reader_bytes(const struct text_store_reader *r);

#endif
