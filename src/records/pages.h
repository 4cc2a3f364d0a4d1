/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the pages of an offset map, each from the records alone: in any order and on any thread, with the same bytes.
 */
#ifndef RECORDS_PAGES_H
#define RECORDS_PAGES_H

#include "map/offmap.h"
#include "records/records.h"
#include "records/spans.h"

/* Makes pages, on one thread at a time; each thread has its own. Records and spans are shared and must outlive it. */
struct sympages;
struct sympages *sympages_new(const struct records *x, const struct symspans *s);
void sympages_free(struct sympages *m); /* NULL is fine */
/* Bytes that it holds between pages: some 8 MB, and functions that may answer again: the largest, and others of up to
 * 64 MiB plus a quarter of the text. */
uint64_t sympages_bytes(const struct sympages *m);
/* The most that this may be, without the largest function. */
uint64_t sympages_kept_bytes_max(const struct records *x);
/* The most that it takes in addition while it makes a page: 24 bytes for each byte of the largest symbol's text, whose
 * records it reads all at once. */
uint64_t sympages_page_bytes_max(const struct records *x);

/* Makes a page with one reference; NULL if out of memory. */
struct page *sympages_code(struct sympages *m, uint32_t number);
struct page *sympages_strings(struct sympages *m, uint32_t number);

/* The map without its pages, for a code file of so many bytes. marker, damaged, generation and raw_bytes are 0: the
 * caller completes them. NULL if out of memory. */
struct offmap *sympages_map(const struct records *x, const struct symspans *s, struct str code_file);
/* The same with all its pages, whose bytes are raw_bytes. */
struct offmap *sympages_all(const struct records *x, const struct symspans *s, struct str code_file);

#endif
