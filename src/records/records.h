/* SPDX-License-Identifier: Apache-2.0 */
/* What symbols say, in little memory: functions and public symbols, the lines and inlined calls of each, and the
 * strings. A reader of a format fills it, symbol by symbol; after that it is read-only, and pages are made from it.
 * docs/offset-map.md says how. */
#ifndef RECORDS_RECORDS_H
#define RECORDS_RECORDS_H

#include "base/str.h"
#include "base/varint.h"
#include "map/flat.h"
#include "map/offmap.h"
#include "records/name_store.h"

enum {
	RECORDS_PAGE_TEXT = 20 << 10, /* bytes of text for a page, except in tests */
	/* Where a function is cut: of its text, the first record after each so large part of a page's is marked; with
	 * more than this many pages, all are looked at. */
	RECORDS_STRIDE_PART = 40,
	RECORDS_EXACT_PAGES = 50,
};

/* A function or public symbol; or a part of a function whose lines and inlined calls are flat already. */
#define RECORD_TEXT_MAX ((UINT64_C(1) << 22) - 1)
struct record_symbol {
	uint64_t addr, size; /* clipped to the address space; size of a public symbol: 0 */
	uint64_t at : 39;    /* where its records begin; ascends in the order of the file */
	uint64_t text : 22;  /* bytes of text for it, at most RECORD_TEXT_MAX */
	uint64_t is_public : 1, has_lines : 1, is_part : 1;
};

/* Where a name is. */
struct record_name {
	uint64_t place; /* in names */
	uint32_t len;
	uint32_t string; /* if a string page has it: its id; else 0 */
	uint32_t file;   /* only of a part: if not 0, the name is this definition's */
};

/* The text of an id: a file, or the name of an inlined function. It is unescaped; a name may be empty. */
struct record_definition {
	uint64_t id;
	union {
		uint32_t at;     /* offset in `texts` */
		uint32_t string; /* if external: its id in the string pages */
	};
	uint8_t len;   /* of the text, unless external */
	bool external; /* the text is longer than OFFMAP_SHORT_STRING */
};

struct record_definitions {
	struct record_definition *all; /* in the file's order; after finishing, by id if there is no `dense` */
	uint32_t *dense;               /* by id: 1 + index into all, 0: none; NULL if ids are far apart */
	uint32_t count, cap, dense_count;
	uint64_t highest; /* id */
};

/* A string that goes into a string page. */
struct record_string {
	uint64_t place; /* in names */
	uint32_t len;   /* bytes, unescaped */
};

/* Where pages may begin within a function that has more text than a page may have. */
struct record_cuts {
	uint64_t at; /* of the function, ascending */
	uint32_t first, count;
};

/* Read-only for users, but for grow. */
struct records {
	struct record_symbol *symbols; /* after finishing: by address, then the better one first */
	uint32_t symbol_count, symbol_cap;
	uint8_t *bytes; /* varints; see records.c */
	uint32_t len, cap;
	struct name_store names; /* of symbols, and the strings */
	struct record_definitions files, origins;
	struct record_definitions origin_files; /* `string` is a file's id, if `external`; else no file is known */
	char *texts;                            /* of short definitions, unescaped */
	uint32_t texts_len, texts_cap;
	struct record_string *strings; /* ids count from 1, in the order of the file */
	uint32_t string_count, string_cap;
	uint32_t *string_first; /* after finishing: id of the first string of each string page */
	uint32_t string_page_count;
	struct record_cuts *cut_funcs;
	uint32_t cut_func_count, cut_func_cap;
	uint64_t *cuts; /* addresses within functions, of one after the other; ascending in each */
	uint32_t cut_count, cut_cap;
	uint32_t page_text;
	uint64_t funcs, publics, lines, inlines;
	uint64_t text, largest_text; /* of all symbols; of the one that has the most */
	/* told, before it is touched, of memory that the text does not announce; false: no more. NULL: it may */
	bool (*grow)(void *arg, uint64_t bytes);
	void *grow_arg;
	struct records_state *state; /* private, while it is filled */
};

/* page_text: bytes of text for each page; pass 0 except in tests. NULL if out of memory. */
struct records *records_new(uint32_t page_text);
void records_free(struct records *r); /* NULL is fine */
/* Bytes of memory that it takes, also while it is filled. */
uint64_t records_bytes(const struct records *r);
/* Announces memory that the text does not; false: there is none. */
bool records_may_take(const struct records *r, uint64_t bytes);
/* After filling has failed: whether memory was not short, but places do not fit into 32 bits. */
bool records_full(const struct records *r);

/* ---- filling; each returns false if out of memory ---- */

struct record_line {
	uint64_t addr, size, line, file;
};

struct record_call {
	uint32_t depth, call_line, call_file, origin;
	bool has_call_file;
};

/* A symbol begins. Of several functions at one address the best comes first: those with lines, then the first of these
 * calls. */
bool records_begin(struct records *r, bool is_public, uint64_t addr, uint64_t size, struct str name);
/* Its lines. mark: a page may begin at the edges of these. */
bool records_lines(struct records *r, const struct record_line *lines, uint32_t n, bool mark);
/* An inlined call, whose ranges are pairs of address and size; they are changed. */
bool records_call(struct records *r, const struct record_call *c, uint64_t *ranges, uint32_t range_count, bool mark);
/* The symbol ends, which had so many bytes of text. */
bool records_end(struct records *r, uint64_t text);
bool records_define(struct records *r, bool is_origin, uint64_t id, struct str text);
/* The file that has an inlined function, NULL: none is known. Calls without a call file are in that of their caller. */
bool records_define_origin_file(struct records *r, uint64_t origin, const uint32_t *file);
/* A name for records_part. It may be used any number of times. `external`: in a string page. */
bool records_add_name(struct records *r, struct str text, bool external, struct record_name *name);
/* A part of a function, from f's first segment on: `size` bytes, which no other symbol covers. Parts come in ascending
 * order. Slots in f are ids of files, 0 for none; its name is not used. */
bool records_part(struct records *r, uint64_t size, const struct record_name *name, const struct flat *f);
/* Nothing follows. */
bool records_finish(struct records *r);

/* ---- reading, after finishing ---- */

/* The definition of an id, or NULL. */
const struct record_definition *records_find(const struct record_definitions *d, uint64_t id);
/* The cuts of a function; NULL: it has none. */
const struct record_cuts *records_cuts_of(const struct records *r, const struct record_symbol *s);

enum record_kind { RECORD_NONE, RECORD_LINE, RECORD_CALL };

/* Reads the records of one symbol. Addresses are relative to it, and clipped to it. */
struct record_reader {
	struct reader in;
	struct record_name name;
	/* the record read last */
	uint64_t start, end, file; /* for a line */
	uint32_t line;
	struct record_call call; /* for an inlined call */
	uint64_t ranges;         /* that have not been read */
	uint64_t range_start, range_end;
};

void record_reader_begin(struct record_reader *r, const struct records *from, const struct record_symbol *s);
enum record_kind record_reader_next(struct record_reader *r);
/* Reads the next range of a call, into range_start and range_end; to be called `ranges` times. */
void record_reader_range(struct record_reader *r);
/* Reads a part's function into f, but for its name: after record_reader_begin, instead of the records. False if out of
 * memory. */
bool record_reader_part(struct record_reader *r, const struct record_symbol *s, struct flat *f);

#endif
