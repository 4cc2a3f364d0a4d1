/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a symbol file: where each symbol and each definition is in its text, noted in one pass as the text
 * arrives. The text itself is the caller's: pages are made of it later. docs/offset-map.md says how. */
#ifndef FORMAT_SYMINDEX_H
#define FORMAT_SYMINDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* A FUNC or PUBLIC line that could be read. Places are bytes from the start of the text. */
struct symindex_symbol {
	uint64_t addr, size;                /* as far as the address space goes; size of a PUBLIC: 0 */
	uint64_t place : 63, is_public : 1; /* where its line starts: the order of the file */
	uint64_t end;                       /* behind the last line that may be one of its records */
};

/* Bytes of its text. */
static inline uint64_t symindex_text_of(const struct symindex_symbol *s)
{
	return s->end - s->place;
}

/* A FILE or INLINE_ORIGIN. Its text as in the file; that of an INLINE_ORIGIN may be empty. */
struct symindex_definition {
	uint64_t id;
	uint32_t at;   /* where it is in `texts`; an external one's number in the string pages */
	uint8_t len;   /* of one that is not external */
	bool external; /* the text is longer than OFFMAP_SHORT_STRING */
};

struct symindex_definitions {
	struct symindex_definition *all; /* in the order of the file; once finished, without `dense`, by id */
	uint32_t *dense;                 /* by id: 1 + index into all, 0: none; NULL when ids are far apart */
	uint32_t count, cap, dense_count;
	uint64_t highest; /* id */
};

/* A text that is in a string page. */
struct symindex_string {
	uint64_t place;
	uint32_t len; /* as in the file */
};

/* To be read only. */
struct symindex {
	struct symindex_symbol *symbols; /* once finished by address, then as in the file */
	uint32_t symbol_count, symbol_cap;
	struct symindex_definitions files, origins;
	char *texts; /* of short definitions, as in the file */
	uint32_t texts_len, texts_cap;
	struct symindex_string *strings; /* their numbers count from 1, in the order of the file */
	uint32_t string_count, string_cap;
	uint32_t *string_first; /* number of the first string of each string page, once finished */
	uint32_t string_page_count;
	char *code_file; /* of INFO CODE_ID, as in the file; NULL: none */
	size_t code_file_len;
	uint64_t funcs, publics;
	uint64_t damaged; /* lines that are in no function's records; those are counted with the pages */
	uint64_t text_bytes, generation;
	struct symindex_state *state; /* of the pass */
};

/* The text must say that it is of debug id `id` (letters of any case); an empty id takes any. NULL: no memory. */
struct symindex *symindex_new(struct str id);
void symindex_free(struct symindex *x); /* NULL is fine */

/* The next bytes of the text, as many as there are. ERR_CORRUPT as soon as it is known that this is no symbol file, or
 * not the one asked for; ERR_NO_MEMORY. */
enum err symindex_feed(struct symindex *x, const uint8_t *data, size_t len, struct error *e);
/* The text has ended. ERR_CORRUPT also when there was no symbol. */
enum err symindex_finish(struct symindex *x, struct error *e);

/* What an id stands for; NULL: nobody defined it. Once finished. */
const struct symindex_definition *symindex_find(const struct symindex_definitions *d, uint64_t id);

/* Bytes of memory that the index takes, also while it is fed: at most 6 for each byte of text, and 1 MiB. */
uint64_t symindex_bytes(const struct symindex *x);

#endif
