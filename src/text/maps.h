/* SPDX-License-Identifier: Apache-2.0 */
/* Memory maps that a text contains: which file lies at an address of a process, and how far from the start of its
 * image. Maps may stand before or after the addresses. */
#ifndef TEXT_MAPS_H
#define TEXT_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map64.h"
#include "text/reader.h"

enum { TEXT_MAPPINGS_MAX = 65536 }; /* in all; the map of a process whose lines do not fit is not used */

enum text_map_kind {
	MAP_FILES,  /* with offsets in files: /proc/PID/maps and the like */
	MAP_CODE,   /* where .text of each file is: gdb's info sharedlibrary */
	MAP_STARTS, /* where each image begins: lldb's image list, eu-unstrip -n */
	MAP_EXEC,   /* where the mapping of a file's code begins: Envoy's */
	MAP_KINDS,
};

struct text_mapping {
	uint64_t start, end; /* MAP_STARTS: end is start + 1 where the text does not tell it */
	uint64_t offset;     /* MAP_FILES: in the file */
	struct str path;
	const struct text_module *told; /* what the text says of it beside it; NULL: no id */
	uint32_t process;               /* 0: the one that the text is about now */
	uint8_t kind;                   /* enum text_map_kind */
	bool executable;                /* or it is not told */
	bool only_addresses;            /* its path is not that of modules that have its name */
	bool disputed;                  /* two lines of one process do not agree about it */
	bool ambiguous[2];              /* another path ends in the same name: of any process, of this one */
};

struct text_maps {
	struct arena arena;
	struct text_mapping *items;
	uint32_t count, cap;
	uint32_t process;     /* of the lines that are read now, from 1; who goes back to one sets it */
	uint32_t processes;   /* so many were begun */
	uint32_t overflowed;  /* the lowest process whose lines did not fit; 0: none */
	bool sorted;          /* and checked */
	struct map64 by_name; /* the first mapping of each file: index + 1, by its name, alone and with its process */
	uint64_t seed;
};

void text_maps_init(struct text_maps *m);
void text_maps_release(struct text_maps *m);
void text_maps_forget(struct text_maps *m);
/* Whether half of the room is used. */
bool text_maps_crowded(const struct text_maps *m);
/* Bytes in use. */
size_t text_maps_memory(const struct text_maps *m);
/* From here on the text is about another process, or may be. */
void text_maps_begin_process(struct text_maps *m);
/* False if out of memory. What names no file is ignored. */
bool text_maps_add(struct text_maps *m, const struct text_mapping *mapping);

/* The file at an address, and what its base is; NULL if none is known, or not for certain. */
struct text_location {
	struct str path;
	const struct text_module *told;
	uint64_t start; /* address - start is the offset */
	enum text_base base;
};
bool text_maps_find(struct text_maps *m, uint32_t process, uint64_t address, struct text_location *out);
/* Whether maps say of this process what is at each address, or of the libraries there. */
bool text_maps_cover(struct text_maps *m, uint32_t process, uint64_t address);
/* The only path that ends in this name, in the maps of this process, or in all if those have none; empty: there is
 * none, or more than one. */
struct str text_maps_path(struct text_maps *m, uint32_t process, struct str name);

#endif
