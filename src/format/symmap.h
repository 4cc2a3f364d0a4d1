/* SPDX-License-Identifier: Apache-2.0 */
/* A symbol file's text with its index and spans: all that pages are made of. It is filled as the text arrives; after
 * that it never changes, and whoever misses a page makes it. */
#ifndef FORMAT_SYMMAP_H
#define FORMAT_SYMMAP_H

#include "format/offmap_memory.h"
#include "format/sympages.h"
#include "format/symstore.h"

struct symmap;

/* pool and budget: as for symstore_new. Of the options nearest, memory_max and charge count: text, index and what makes
 * pages are held against them. id: as for symindex_new. NULL if out of memory. */
struct symmap *symmap_new(
        const struct offmap_options *options, struct block_pool *pool, struct symstore_budget *budget, struct str id);
void symmap_ref(struct symmap *m);
void symmap_unref(struct symmap *m); /* NULL is fine */

/* Where the next bytes of the text go, at least one. NULL if out of memory. */
uint8_t *symmap_space(struct symmap *m, size_t *room);
/* So many were put there. ERR_CORRUPT: no symbol file, or of another id; ERR_TOO_LARGE: more than memory_max would be
 * held; ERR_NO_MEMORY. An error ends it. */
enum err symmap_commit(struct symmap *m, size_t n, struct error *e);
/* The same of bytes that lie elsewhere. */
enum err symmap_feed(struct symmap *m, const uint8_t *data, size_t len, struct error *e);
/* The text ends here. Errors as above. */
enum err symmap_finish(struct symmap *m, struct error *e);
/* The map without its pages, as sympages_map, or with all of them, once finished. NULL: no memory. */
struct offmap *symmap_map(const struct symmap *m);
struct offmap *symmap_all(const struct symmap *m);

/* Who makes pages, for one thread. */
struct symmap_maker {
	struct symstore_reader *reader;
	struct sympages *pages;
	uint64_t bytes; /* that are charged for it */
};
/* When there are as many as cores already it waits until one is given back, but not with `more`. false if out of
 * memory. */
bool symmap_take(struct symmap *m, bool more, struct symmap_maker *maker);
/* As sympages_code and sympages_strings; counts are of code pages. */
struct page *symmap_make(
        struct symmap_maker *maker, enum page_kind kind, uint32_t number, struct sympages_counts *counts);
/* The code pages in the order in which text can be let go soonest. Stays as long as the map. */
const uint32_t *symmap_order(const struct symmap *m);
/* By one who has a maker, once a page: whoever misses it from now on finds it elsewhere. Text that only such pages need
 * is let go when nobody else has a maker. So who has taken one looks first whether the page is there by now. */
void symmap_made(struct symmap *m, enum page_kind kind, uint32_t number);
/* Charges what it has come to hold. */
void symmap_charge(struct symmap *m, struct symmap_maker *maker);
void symmap_give(struct symmap *m, struct symmap_maker *maker);

#endif
