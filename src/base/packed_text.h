/* SPDX-License-Identifier: Apache-2.0 */
/* What is behind some place of a gzip text, kept as it came, with places from which it can be inflated again:
 *
 *   text    |   (before)   |  stretch N  |  stretch N+1  |
 *   place                  ^ an inflater ^ another, as it was there
 *   gzip                   [ in blocks of the pool, as it came ]
 */
#ifndef BASE_PACKED_TEXT_H
#define BASE_PACKED_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/block_pool.h"
#include "base/gzip.h"

/* Bytes of text that are inflated together. A place takes some 54 KB. */
enum { PACKED_STRETCH_BLOCKS = 2, PACKED_STRETCH = PACKED_STRETCH_BLOCKS * BLOCK_SIZE };

struct packed_text;
/* start: bytes of text before those that are kept. The pool must outlive it. NULL if out of memory. */
struct packed_text *packed_text_new(struct block_pool *pool, uint64_t start);
void packed_text_free(struct packed_text *p); /* NULL is fine */

/* While the text is inflated for the first time, in this order. */

/* The text begins. */
void packed_text_begin(struct packed_text *p);
/* So much text has been made by `from`. To be called at least at each multiple of PACKED_STRETCH, before the inflater
 * goes on. False if out of memory; then it can only be freed. */
bool packed_text_pass(struct packed_text *p, uint64_t text, const struct gunzip *from);
/* The inflater has consumed these bytes. False as above. */
bool packed_text_add(struct packed_text *p, const uint8_t *data, size_t len);
/* It cannot be kept after all: what was inflated is packed again. */
void packed_text_drop(struct packed_text *p);

/* Whether the stretch will be there when the text is complete. On another thread: for a stretch whose text that one was
 * handed. */
bool packed_text_has(const struct packed_text *p, uint64_t stretch);
/* Of memory that it takes. May be called on any thread. */
uint64_t packed_text_bytes(const struct packed_text *p);

/* Inflates a stretch of a complete text into PACKED_STRETCH_BLOCKS blocks. Several threads may do so, each with an
 * inflater of its own. False if out of memory. */
bool packed_text_read(const struct packed_text *p, struct gunzip *with, uint64_t stretch, uint8_t *const *blocks);

#endif
