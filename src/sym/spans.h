/* SPDX-License-Identifier: Apache-2.0 */
/* Which symbol of an index answers for which addresses, and where the map's code pages begin. */
#ifndef SYM_SPANS_H
#define SYM_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "sym/cuts.h"
#include "sym/index.h"
#include "sym/records.h"

/* Bytes of text for a page, except in tests. */
enum { SYMSPANS_PAGE_TEXT = 20 << 10 };

/* A flag in a span's symbol index: this is the symbol's first span. */
#define SYMSPAN_FIRST UINT32_C(0x80000000)

/* A FUNC that answers in several spans, because others interrupt it. */
struct symspan_interrupted {
	uint64_t symbol, spans;
};

/* Immutable. Spans ascend. Each ends where the next one starts or its FUNC ends; if the last one is a PUBLIC, it
 * extends to the end of the address space. With `nearest`, FUNCs also answer past their ends. */
struct symspans {
	bool nearest;
	uint64_t *starts;
	uint32_t *symbols; /* index into the symindex's symbols, with the flag SYMSPAN_FIRST */
	uint32_t count, starts_cap, symbols_cap;
	struct symspan_interrupted *interrupted; /* ascending by symbol */
	uint32_t interrupted_count, interrupted_cap;
	/* Each page begins at the start of a span or, in a large symbol, within one. */
	uint64_t *page_first;
	uint32_t *page_span;
	uint32_t page_count, page_first_cap, page_span_cap;
};

/* Makes the spans of a finished index. Of the text it reads only functions that share their address with others and, in
 * parts, large ones. page_text: bytes of text per page; pass 0 except in tests, since the bytes of pages depend on it.
 * known: cuts of large FUNCs, or NULL. grow, unless NULL, is told how many bytes it will hold before it touches them,
 * and stops it by false. NULL if out of memory, or if the text is not available. Time and memory are linear in the
 * text. */
struct symspans *symspans_new(const struct symindex *x, const struct symtext *text, bool nearest, uint32_t page_text,
        const struct known_cuts *known, bool (*grow)(void *arg, uint64_t bytes), void *arg);
void symspans_free(struct symspans *s); /* NULL is fine */
/* How many spans a FUNC has; a few count as one. */
uint64_t symspans_of(const struct symspans *s, uint32_t symbol);
uint64_t symspans_bytes(const struct symspans *s);

/* A FUNC of size 0 covers nothing: it answers only with lookup = nearest. */
static inline bool symspan_may_answer(const struct symindex_symbol *s, bool nearest)
{
	return s->is_public || s->size > 0 || nearest;
}

#endif
