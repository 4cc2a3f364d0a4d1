/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of an offset map, each made from the text alone: whoever misses one makes it, in any order, on any thread,
 * and it has the same bytes. */
#ifndef FORMAT_SYMPAGES_H
#define FORMAT_SYMPAGES_H

#include "format/offmap.h"
#include "format/symindex.h"
#include "format/symspans.h"
#include "format/symtext.h"

/* Records of functions; each is counted once over all code pages and sympages_count_rest. */
struct sympages_counts {
	uint64_t lines, inlines, damaged;
};

/* Makes pages, one thread at a time; each thread has one of its own. Index, spans and text are shared and must stay. */
struct sympages;
struct sympages *sympages_new(const struct symindex *x, const struct symspans *s, const struct symtext *text);
void sympages_free(struct sympages *m); /* NULL is fine */
/* Bytes that it holds between pages: some 8 MB, and functions that answer again later, up to 64 MiB and a quarter of
 * the text. */
uint64_t sympages_bytes(const struct sympages *m);
/* The most that it takes besides while it makes a page: 24 bytes for each byte of the largest symbol's text, whose
 * records it reads at once. */
uint64_t sympages_page_bytes_max(const struct symindex *x);

/* A page with one reference, or NULL: no memory, or the text cannot be had. Adds to counts, which may be NULL. */
struct page *sympages_code(struct sympages *m, uint32_t number, struct sympages_counts *counts);
struct page *sympages_strings(struct sympages *m, uint32_t number);
/* Counts the records of functions that answer nowhere, so are in no page. false: as NULL above. */
bool sympages_count_rest(struct sympages *m, struct sympages_counts *counts);

/* The map without its pages. Its marker, lines, inlines and raw_bytes are 0, damaged is that of the index: the caller's
 * to complete. NULL: no memory. */
struct offmap *sympages_map(const struct symindex *x, const struct symspans *s);
/* That map, with all pages and counts. */
struct offmap *sympages_all(const struct symindex *x, const struct symspans *s, const struct symtext *text);

#endif
