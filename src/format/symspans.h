/* SPDX-License-Identifier: Apache-2.0 */
/* Which symbol of an index answers for which addresses, and where the map's code pages begin. */
#ifndef FORMAT_SYMSPANS_H
#define FORMAT_SYMSPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/symindex.h"
#include "format/symtext.h"

/* In the index of a span's symbol: no span before has it. */
#define SYMSPAN_FIRST UINT32_C(0x80000000)

/* Immutable. Spans ascend; each goes up to where the next one starts or its FUNC ends, the last one of a PUBLIC to the
 * end of the address space. With `nearest` FUNCs answer behind their ends, too. */
struct symspans {
	bool nearest;
	uint64_t *starts;
	uint32_t *symbols; /* index into those of the symindex, and SYMSPAN_FIRST */
	uint32_t count, starts_cap, symbols_cap;
	/* A page begins at an address of a span: its start, or within it where the symbol is large. */
	uint64_t *page_first;
	uint32_t *page_span;
	uint32_t page_count, page_first_cap, page_span_cap;
};

/* From a finished index and its text, of which it reads only functions that share their address with others, and large
 * ones, in parts. page_text: bytes of text for a page; 0 but in tests, for the bytes of pages depend on it. NULL: no
 * memory, or the text cannot be had. Time and memory are linear in the text. */
struct symspans *symspans_new(const struct symindex *x, const struct symtext *text, bool nearest, uint32_t page_text);
void symspans_free(struct symspans *s); /* NULL is fine */
uint64_t symspans_bytes(const struct symspans *s);

#endif
