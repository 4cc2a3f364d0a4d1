/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks of a symbol file's text are still needed to make pages, so that the others can be freed. */
#ifndef SYM_NEEDS_H
#define SYM_NEEDS_H

#include "sym/index.h"
#include "sym/spans.h"

struct symneeds {
	uint32_t *pages; /* by block of BLOCK_SIZE: how often pages still to be made need it */
	uint32_t block_count;
	uint32_t *idle; /* blocks that no page needs any more; the owner takes them out */
	uint32_t idle_count;
	uint32_t *order; /* code pages in the file's order of their functions: this order frees blocks soonest */
	uint32_t code_count;
};

/* False if out of memory; then too it must be released. Blocks needed only by functions that answer nowhere are idle
 * from the start. */
bool symneeds_init(struct symneeds *n, const struct symindex *x, const struct symspans *s);
void symneeds_release(struct symneeds *n); /* also zeroed */
uint64_t symneeds_bytes(const struct symneeds *n);

/* Says that a page has been made. Call it once per page. */
void symneeds_made(struct symneeds *n, const struct symindex *x, const struct symspans *s, bool is_code, uint32_t page);

#endif
