/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the pages of an offset map, each from the text alone: in any order and on any thread, with the same bytes. */
#ifndef SYM_PAGES_H
#define SYM_PAGES_H

#include "map/offmap.h"
#include "sym/index.h"
#include "sym/records.h"
#include "sym/spans.h"

/* Counts of functions' records. All code pages and sympages_count_rest together count each record once. */
struct sympages_counts {
	uint64_t lines, inlines, damaged;
};

/* Makes pages, on one thread at a time; each thread has its own. Index, spans and text are shared and must outlive it.
 */
struct sympages;
struct sympages *sympages_new(const struct symindex *x, const struct symspans *s, const struct symtext *text);
void sympages_free(struct sympages *m); /* NULL is fine */
/* Bytes that it holds between pages: some 8 MB, and functions that may answer again: the largest, and others of up to
 * 64 MiB plus a quarter of the text. */
uint64_t sympages_bytes(const struct sympages *m);
/* The most that this may be, without the largest function. */
uint64_t sympages_kept_bytes_max(const struct symindex *x);
/* The most that it takes in addition while it makes a page: 24 bytes for each byte of the largest symbol's text, whose
 * records it reads all at once. */
uint64_t sympages_page_bytes_max(const struct symindex *x);

/* Makes a page with one reference; NULL, and nothing is counted, if out of memory, or if the text is not available.
 * Adds to counts, which may be NULL. */
struct page *sympages_code(struct sympages *m, uint32_t number, struct sympages_counts *counts);
struct page *sympages_strings(struct sympages *m, uint32_t number);
/* Counts the records of functions that answer nowhere, so are in no page. False in the same cases. */
bool sympages_count_rest(struct sympages *m, struct sympages_counts *counts);

/* The map without its pages. marker, lines, inlines and raw_bytes are 0, and damaged is the index's: the caller
 * completes them. NULL if out of memory. */
struct offmap *sympages_map(const struct symindex *x, const struct symspans *s);
/* The same map with all pages and counts. */
struct offmap *sympages_all(const struct symindex *x, const struct symspans *s, const struct symtext *text);

#endif
