/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a symbol file: where each symbol and each definition is in its text, noted in one pass as the text
 * arrives. The caller keeps the text; pages are made from it later. docs/offset-map.md says how. */
#ifndef SYM_INDEX_H
#define SYM_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "map/offmap.h"

/* A well-formed FUNC or PUBLIC line. Places are bytes from the start of the text. */
struct symindex_symbol {
	uint64_t addr, size;                /* clipped to the address space; size of a PUBLIC: 0 */
	uint64_t place : 63, is_public : 1; /* where its line starts; gives the order of the file */
	uint64_t end;                       /* after the last line that may be one of its records */
};

/* Bytes of the symbol's text: its line and its records. */
static inline uint64_t symindex_text_of(const struct symindex_symbol *s)
{
	return s->end - s->place;
}

/* A FILE or INLINE_ORIGIN. Its text is unescaped; that of an INLINE_ORIGIN may be empty. */
struct symindex_definition {
	uint64_t id;
	union {
		uint32_t at;     /* offset in `texts` */
		uint32_t string; /* if external: its id in the string pages */
	};
	uint8_t len;   /* of the text, unless external */
	bool external; /* the text is longer than OFFMAP_SHORT_STRING */
};

struct symindex_definitions {
	struct symindex_definition *all; /* in the file's order; after finishing, by id if there is no `dense` */
	uint32_t *dense;                 /* by id: 1 + index into all, 0: none; NULL if ids are far apart */
	uint32_t count, cap, dense_count;
	uint64_t highest; /* id */
};

/* A text that goes into a string page. */
struct symindex_string {
	uint64_t place;
	uint32_t len; /* bytes, unescaped */
};

/* Read-only for users. */
struct symindex {
	struct symindex_symbol *symbols; /* after finishing: by address, then in the order of the file */
	uint32_t symbol_count, symbol_cap;
	struct symindex_definitions files, origins;
	char *texts; /* of short definitions, unescaped */
	uint32_t texts_len, texts_cap;
	struct symindex_string *strings; /* ids count from 1, in the order of the file */
	uint32_t string_count, string_cap;
	uint32_t *string_first; /* after finishing: id of the first string of each string page */
	uint32_t string_page_count;
	char *code_file; /* from INFO CODE_ID, unescaped; NULL: none */
	size_t code_file_len;
	char code_id[OFFMAP_CODE_ID_SIZE]; /* from the same line, or from one that names no file; empty if there is
	                                      none, or none that fits */
	uint64_t funcs, publics;
	uint64_t damaged; /* damaged lines outside functions' records; those within are counted when pages are made */
	uint64_t text_bytes, generation;
	struct symindex_state *state; /* private, during the pass */
};

/* The text must have the debug id `id` (in either case); an empty id accepts any. NULL if out of memory. */
struct symindex *symindex_new(struct str id);
void symindex_free(struct symindex *x); /* NULL is fine */

/* Takes the next bytes of the text. ERR_CORRUPT, as early as possible, if this is no symbol file or has another id;
 * ERR_NO_MEMORY. */
enum err symindex_feed(struct symindex *x, const uint8_t *data, size_t len, struct error *e);
/* While the text arrives: whether text at this place or later, of what was fed, may belong to a symbol or a definition.
 * Most of what does not are STACK records. */
bool symindex_needs(const struct symindex *x, uint64_t from);
/* Ends the text. ERR_CORRUPT also if there was no symbol. */
enum err symindex_finish(struct symindex *x, struct error *e);

/* The definition of an id, or NULL. Call after finishing. */
const struct symindex_definition *symindex_find(const struct symindex_definitions *d, uint64_t id);

/* Bytes of memory that the index takes, also while it is fed: at most 6 per byte of text, plus 1 MiB. */
uint64_t symindex_bytes(const struct symindex *x);

#endif
