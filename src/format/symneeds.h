/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks of a symbol file's text the pages need that are still to be made, so that the others can be let go. */
#ifndef FORMAT_SYMNEEDS_H
#define FORMAT_SYMNEEDS_H

#include "format/symindex.h"
#include "format/symspans.h"

struct symneeds {
	uint32_t *pages; /* by block of BLOCK_SIZE: how often pages that are not made name it */
	uint32_t block_count;
	uint32_t *idle; /* blocks that no page needs any more, until the owner takes them out */
	uint32_t idle_count;
	uint32_t *order; /* code pages as their functions come in the file: made so, blocks go soonest */
	uint32_t code_count;
};

/* NULL: no memory. What only functions need that answer nowhere is idle from the start. */
struct symneeds *symneeds_new(const struct symindex *x, const struct symspans *s);
void symneeds_free(struct symneeds *n); /* NULL is fine */
uint64_t symneeds_bytes(const struct symneeds *n);

/* The page is made, and was not before. */
void symneeds_made(struct symneeds *n, const struct symindex *x, const struct symspans *s, bool is_code, uint32_t page);

#endif
