/* SPDX-License-Identifier: Apache-2.0 */
/* A symbol file's text with its index and spans: everything that pages are made from. It is filled as the text arrives;
 * after that it never changes, and any thread that misses a page makes it. */
#ifndef SYM_SYMMAP_H
#define SYM_SYMMAP_H

#include "map/memory.h"
#include "sym/pages.h"
#include "sym/text_store.h"

struct symmap;

/* pool and budget: as for text_store_new. id: as for symindex_new. Of the options, nearest, memory_max and charge are
 * used: text, index and makers of pages count against memory_max. NULL if out of memory. */
struct symmap *symmap_new(
        const struct offmap_options *options, struct block_pool *pool, struct text_store_budget *budget, struct str id);
void symmap_ref(struct symmap *m);
void symmap_unref(struct symmap *m); /* NULL is fine */

/* What may keep the text packed while it arrives: see text_store_packed. */
struct packed_text *symmap_packed(struct symmap *m);
/* Takes the next bytes of the text. ERR_CORRUPT: no symbol file, or one of another id; ERR_TOO_LARGE: more than
 * memory_max would be held; ERR_NO_MEMORY. After an error the map can only be released. */
enum err symmap_feed(struct symmap *m, const uint8_t *data, size_t len, struct error *e);
/* The same for bytes in a block of the pool, which is the map's from then on, also after an error. All bytes before
 * must fill whole blocks. */
enum err symmap_append(struct symmap *m, uint8_t *block, size_t n, struct error *e);
/* Ends the text. Errors as above. */
enum err symmap_finish(struct symmap *m, struct error *e);
/* After finishing: the code file that the text names, and its code id; false if it names none. */
bool symmap_code(const struct symmap *m, struct str *file, struct str *id);
/* After finishing: the map without its pages (see sympages_map), or with all of them. NULL if out of memory. */
struct offmap *symmap_map(const struct symmap *m);
struct offmap *symmap_all(const struct symmap *m);

/* Makes pages, for one thread. */
struct symmap_maker {
	struct text_store_reader *reader;
	struct sympages *pages;
	uint64_t bytes; /* charged for it */
	bool more;
};
/* If there are as many makers as cores, or as memory_max allows, waits until one is given back. With `more` it never
 * waits, and nobody waits for it. False if out of memory. */
bool symmap_take(struct symmap *m, bool more, struct symmap_maker *maker);
/* As sympages_code or sympages_strings; counts apply to code pages. */
struct page *symmap_make(
        struct symmap_maker *maker, enum page_kind kind, uint32_t number, struct sympages_counts *counts);
/* The numbers of the code pages in the order that frees text soonest. Valid as long as the map. */
const uint32_t *symmap_order(const struct symmap *m);
/* Says that a page is now available elsewhere; call it once per page, while holding a maker. Text that no other page
 * needs is freed when nobody else holds a maker. So after symmap_take, look whether the page exists by now. */
void symmap_made(struct symmap *m, enum page_kind kind, uint32_t number);
/* Charges the maker's growth. */
void symmap_charge(struct symmap *m, struct symmap_maker *maker);
void symmap_give(struct symmap *m, struct symmap_maker *maker);

#endif
