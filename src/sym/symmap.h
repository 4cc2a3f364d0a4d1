/* SPDX-License-Identifier: Apache-2.0 */
/* What a module's symbols say, and who answers where: everything that pages are made from. Of a symbol file it is
 * filled as the text arrives; after that it never changes, and any thread that misses a page makes it. */
#ifndef SYM_SYMMAP_H
#define SYM_SYMMAP_H

#include <stdatomic.h>

#include "map/memory.h"
#include "records/pages.h"

struct symmap;

/* idle_makers: shared by several; 0 at first. id: as for symreader_new. Of the options, nearest, memory_max and charge
 * are used: records, spans and makers of pages count against memory_max. NULL if out of memory. */
struct symmap *symmap_new(const struct offmap_options *options, atomic_uint *idle_makers, struct str id);
/* Of records that are finished, which it takes in any case; symmap_finish is next. Options as above. NULL if out of
 * memory. */
struct symmap *symmap_of(const struct offmap_options *options, atomic_uint *idle_makers, struct records *records);
void symmap_ref(struct symmap *m);
void symmap_unref(struct symmap *m); /* NULL is fine */

/* Takes the next bytes of the text. ERR_CORRUPT: no symbol file, or one of another id; ERR_TOO_LARGE: more than
 * memory_max would be held; ERR_NO_MEMORY. After an error the map can only be released. */
enum err symmap_feed(struct symmap *m, const uint8_t *data, size_t len, struct error *e);
/* Ends the text. Errors as above. */
enum err symmap_finish(struct symmap *m, struct error *e);
/* After finishing: the code file that the text names, and its code id; false if it names none. */
bool symmap_code(const struct symmap *m, struct str *file, struct str *id);
/* After finishing: the map without its pages, or with all of them. marker is 0, and without pages raw_bytes; not of a
 * symbol file, text_bytes and generation too. NULL if out of memory. */
struct offmap *symmap_map(const struct symmap *m);
struct offmap *symmap_all(const struct symmap *m);

/* Makes pages, for one thread. */
struct symmap_maker {
	struct sympages *pages;
	uint64_t bytes; /* charged for it */
	bool more;
};
/* If there are as many makers as cores, or as memory_max allows, waits until one is given back. With `more` it never
 * waits, and nobody waits for it. False if out of memory. */
bool symmap_take(struct symmap *m, bool more, struct symmap_maker *maker);
/* As sympages_code or sympages_strings. */
struct page *symmap_make(struct symmap_maker *maker, enum page_kind kind, uint32_t number);
/* Charges the maker's growth. */
void symmap_charge(struct symmap *m, struct symmap_maker *maker);
void symmap_give(struct symmap *m, struct symmap_maker *maker);

#endif
