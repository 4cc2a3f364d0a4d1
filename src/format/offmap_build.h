/* SPDX-License-Identifier: Apache-2.0 */
/* Building an offset map from the records of a symbol file, in the order of the file, whatever that order is. */
#ifndef FORMAT_OFFMAP_BUILD_H
#define FORMAT_OFFMAP_BUILD_H

#include "format/offmap.h"

struct offmap_builder;

struct offmap_options {
	bool nearest;          /* lookup = nearest: the symbol at or below answers, whatever its size */
	uint64_t raw_budget;   /* pages above so many bytes wait compressed; UINT64_MAX: never */
	enum page_codec codec; /* with this */
	bool threaded;         /* symbols in order are flattened and encoded on a thread of their own: the same pages */
	uint64_t memory_max;   /* bytes that may be held while the map is built, or ERR_TOO_LARGE; 0: no bound */
	/* Told how what is held changes, in steps of a megabyte and until it is 0; from any thread. NULL: nobody. */
	void (*charge)(void *arg, int64_t bytes);
	void *charge_arg;
};

struct offmap_builder *offmap_builder_new(const struct offmap_options *options);
void offmap_builder_free(struct offmap_builder *b);

/* What is wanted of the records of the function added last. */
enum offmap_want {
	OFFMAP_WANT_ALL,
	OFFMAP_WANT_LINE,    /* one line record, if there is any */
	OFFMAP_WANT_NOTHING, /* neither line nor INLINE records */
};

/* To be called before any record. The map will answer for these module offsets only, which ascend (equal ones are
 * allowed) and are copied: for them exactly as the map of all, for others anything. Its counts of lines and inlines are
 * those of records that were wanted. Held until the end: the text of all files and origins as it is in the file, 32
 * bytes and a few for each of their ids, the functions that cover an offset, and two symbols an offset. false: no
 * memory. */
bool offmap_builder_ask(struct offmap_builder *b, const uint64_t *offsets, size_t count);
/* Changes with each function, public, and after a line where one was wanted. */
enum offmap_want offmap_builder_want(const struct offmap_builder *b);

/* Sets options.threaded, at any time: what is added from then on has the thread. */
void offmap_builder_use_threads(struct offmap_builder *b);

/* Records. Names are as in the file, not yet escaped. After an allocation failed, or more than memory_max would be
 * held, all do nothing, and finish says so. Addresses that overflow are clipped, ranges and lines outside their
 * function are left out. */
void offmap_add_file(struct offmap_builder *b, uint64_t id, struct str name);
void offmap_add_origin(struct offmap_builder *b, uint64_t id, struct str name);
/* The last one holds. */
void offmap_set_code_file(struct offmap_builder *b, struct str name);
void offmap_add_func(struct offmap_builder *b, uint64_t addr, uint64_t size, struct str name);
void offmap_add_public(struct offmap_builder *b, uint64_t addr, struct str name);
/* Of the function added last. */
void offmap_add_line(struct offmap_builder *b, uint64_t addr, uint64_t size, uint32_t line, uint64_t file);
/* An inlined call of the function added last, then its ranges. No call file (the form of 2021): has_call_file false. */
void offmap_add_inline(struct offmap_builder *b, uint32_t depth, uint32_t call_line, bool has_call_file,
        uint32_t call_file, uint32_t origin);
/* The next INLINE may name this origin: has it at hand. */
void offmap_expect_origin(const struct offmap_builder *b, uint32_t origin);
void offmap_add_inline_range(struct offmap_builder *b, uint64_t addr, uint64_t size);
/* The function added last has all its records. Done by itself by the next func, public, and finish. */
void offmap_end_func(struct offmap_builder *b);

/* The map, whose generation, damaged and text_bytes are the caller's to fill. ERR_NO_MEMORY, ERR_TOO_LARGE; ERR_CORRUPT
 * when there was no symbol. */
enum err offmap_builder_finish(struct offmap_builder *b, struct offmap **out);

/* More than memory_max would be held: there will be no map. */
bool offmap_builder_too_large(const struct offmap_builder *b);

#endif
