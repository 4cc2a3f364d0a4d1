/* SPDX-License-Identifier: Apache-2.0 */
/* The symbol files for modules that a text names: found by path or build id, read once, kept while they are used. */
#ifndef SYMBTOOL_LOCAL_SYMBOLS_H
#define SYMBTOOL_LOCAL_SYMBOLS_H

#include "base/reason.h"
#include "extract/extract.h"
#include "extract/ids.h"
#include "map/offmap.h"
#include "text/reader.h"

enum local_why {
	LOCAL_FOUND,
	LOCAL_NOWHERE,     /* no such file */
	LOCAL_OTHER_BUILD, /* a file of this name, but of another build */
};

struct local_symbols;

/* files: "NAME=PATH", which take precedence over paths in the text. Both must outlive it. NULL if out of memory. */
struct local_symbols *local_symbols_new(
        const struct extract_options *extract, const char *const *files, size_t file_count);
void local_symbols_free(struct local_symbols *s);

/* The path of a module's file. A path from the text must be an ELF file, and the build that the text names. A library
 * without a path is looked for where the dynamic loader does. */
enum local_why local_symbols_find(const struct local_symbols *s, const struct text_module *m, char path[PATH_MAX]);

/* The map of files, as local_map_new takes them, valid until local_symbols_settle. NULL if they have none: *why says
 * the reason, which has been reported, but of frames of texts at most 20. asked: only these addresses are asked for,
 * which of a large executable need only a small part; NULL: any. When more come later, all of it is read. The array is
 * sorted. ERR_NO_MEMORY. */
enum err local_symbols_open(struct local_symbols *s, char *const *paths, size_t count, uint64_t *asked,
        size_t asked_count, const struct offmap **map, enum reason *why, struct error *e);

enum { LOCAL_SEGMENTS_MAX = 32 };

/* Where a file's code is, in the file and in memory. */
struct local_place {
	struct load_segments
	        file;         /* if there are any, an offset in it (TEXT_FILE) leads to an address; else it is one */
	struct code_segment { /* in memory */
		uint64_t address, size;
	} segments[LOCAL_SEGMENTS_MAX];
	size_t segment_count;
	struct build_id found_by; /* its build id, or what stands for it */
	uint64_t image_base;
	uint64_t code; /* the address of .text */
	uint64_t exec; /* if there is a segment: where the mapping of the first segment with code begins */
	bool fixed;    /* it is loaded where it was linked */
	char debug_id[DEBUG_ID_LEN + 1]; /* that Breakpad's tools give the file; empty: none */
};
/* NULL if out of memory. For files that are not ELF it leaves addresses as they are. The caller frees it. */
struct local_place *local_place_read(const char *path);
/* Whether the file says where this base is; for TEXT_FIXED, that it has code at this address. */
bool local_place_knows(const struct local_place *p, uint64_t address, enum text_base base);
/* The file's own address for an address in the text. */
uint64_t local_place_address(const struct local_place *p, uint64_t address, enum text_base base);
/* Call between batches: if more than a few files are open, closes those that were not used since the last call. */
void local_symbols_settle(struct local_symbols *s);

#endif
