/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page needs the text of the symbols in its spans, or of its strings. It counts in each block of that text until it
 * is made. Blocks of a function of more than PINNED bytes are kept for good: such a function may answer again in every
 * page, and visiting its blocks each time would not be linear.
 */
#include <config.h>

#include "sym/needs.h"

#include <stdlib.h>

#include "base/block_pool.h"

enum { PINNED = 1 << 20 };

struct place {
	uint64_t text; /* start of the text of its first function that is in no earlier page */
	uint32_t page;
};

/* Counts a need for [from, end) or, if `less` is negative, removes one. */
static void need(struct symneeds *n, uint64_t from, uint64_t end, int less)
{
	for (uint64_t block = from / BLOCK_SIZE; block * BLOCK_SIZE < end; block++) {
		n->pages[block] += (uint32_t)less;
		if (less < 0 && !n->pages[block])
			n->idle[n->idle_count++] = (uint32_t)block;
	}
}

/* Visits the symbols of a page. Returns where the text of those that are in no earlier page starts; UINT64_MAX if there
 * are none. */
static uint64_t need_code(
        struct symneeds *n, const struct symindex *x, const struct symspans *s, uint32_t page, int less)
{
	uint64_t first = UINT64_MAX;
	for (uint32_t i = s->page_span[page];
	        i < s->count && (page + 1 == s->page_count || s->starts[i] < s->page_first[page + 1]); i++) {
		const struct symindex_symbol *symbol = &x->symbols[s->symbols[i] & ~SYMSPAN_FIRST];
		bool is_new = s->symbols[i] & SYMSPAN_FIRST && s->starts[i] >= s->page_first[page];
		bool pinned = symindex_text_of(symbol) > PINNED;
		if (is_new && symbol->place < first)
			first = symbol->place;
		if (!pinned || (is_new && less > 0))
			need(n, symbol->place, symbol->end, less);
	}
	return first;
}

static void need_strings(struct symneeds *n, const struct symindex *x, uint32_t page, int less)
{
	uint32_t end = page + 1 < x->string_page_count ? x->string_first[page + 1] : x->string_count + 1;
	for (uint32_t i = x->string_first[page]; i < end; i++)
		need(n, x->strings[i - 1].place, x->strings[i - 1].place + x->strings[i - 1].len, less);
}

static int text_order(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->text != y->text)
		return x->text < y->text ? -1 : 1;
	return x->page < y->page ? -1 : 1;
}

static void need_all(struct symneeds *n, const struct symindex *x, const struct symspans *s, struct place *places)
{
	uint64_t text = 0; /* a page without new functions follows the page before it */
	for (uint32_t i = 0; i < x->string_page_count; i++)
		need_strings(n, x, i, 1);
	for (uint32_t i = 0; i < s->page_count; i++) {
		uint64_t first = need_code(n, x, s, i, 1);
		if (first != UINT64_MAX)
			text = first;
		places[i] = (struct place){text, i};
	}
	for (uint32_t i = 0; i < n->block_count; i++)
		if (!n->pages[i])
			n->idle[n->idle_count++] = i;
	if (s->page_count)
		qsort(places, s->page_count, sizeof *places, text_order);
	for (uint32_t i = 0; i < s->page_count; i++)
		n->order[i] = places[i].page;
}

bool symneeds_init(struct symneeds *n, const struct symindex *x, const struct symspans *s)
{
	struct place *places = malloc((s->page_count + (size_t)1) * sizeof *places);
	n->block_count = (uint32_t)((x->text_bytes + BLOCK_SIZE - 1) / BLOCK_SIZE);
	n->code_count = s->page_count;
	n->pages = calloc(n->block_count, sizeof *n->pages);
	n->idle = malloc(n->block_count * sizeof *n->idle);
	n->order = malloc((s->page_count + (size_t)1) * sizeof *n->order);
	bool ok = places && n->pages && n->idle && n->order;
	if (ok)
		need_all(n, x, s, places);
	free(places);
	return ok;
}

void symneeds_release(struct symneeds *n)
{
	free(n->pages);
	free(n->idle);
	free(n->order);
}

uint64_t symneeds_bytes(const struct symneeds *n)
{
	return n->block_count * (uint64_t)(sizeof *n->pages + sizeof *n->idle) +
	       n->code_count * (uint64_t)sizeof *n->order;
}

void symneeds_made(struct symneeds *n, const struct symindex *x, const struct symspans *s, bool is_code, uint32_t page)
{
	if (is_code)
		need_code(n, x, s, page, -1);
	else
		need_strings(n, x, page, -1);
}
