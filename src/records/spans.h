/* SPDX-License-Identifier: Apache-2.0 */
/* Which symbol of the records answers for which addresses, and where the map's code pages begin. */
#ifndef RECORDS_SPANS_H
#define RECORDS_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "records/records.h"

/* A FUNC that answers in several spans, because others interrupt it. */
struct symspan_interrupted {
	uint64_t symbol, spans;
};

/* Immutable. Spans ascend. Each ends where the next one starts or its FUNC ends; if the last one is a PUBLIC, it
 * extends to the end of the address space. With `nearest`, FUNCs also answer past their ends. */
struct symspans {
	bool nearest;
	uint64_t *starts;
	uint32_t *symbols; /* index into the records' symbols */
	uint32_t count, starts_cap, symbols_cap;
	struct symspan_interrupted *interrupted; /* ascending by symbol */
	uint32_t interrupted_count, interrupted_cap;
	/* Each page begins at the start of a span or, in a large symbol, within one. */
	uint64_t *page_first;
	uint32_t *page_span;
	uint32_t page_count, page_first_cap, page_span_cap;
};

/* Makes the spans of finished records, whose `grow` is told how many bytes these hold. NULL if out of memory. Time and
 * memory are linear in the number of symbols and cuts. */
struct symspans *symspans_new(const struct records *x, bool nearest);
void symspans_free(struct symspans *s); /* NULL is fine */
/* How many spans a FUNC has; a few count as one. */
uint64_t symspans_of(const struct symspans *s, uint32_t symbol);
uint64_t symspans_bytes(const struct symspans *s);

/* A FUNC of size 0 covers nothing: it answers only with lookup = nearest. */
static inline bool symspan_may_answer(const struct record_symbol *s, bool nearest)
{
	return s->is_public || s->size > 0 || nearest;
}

#endif
