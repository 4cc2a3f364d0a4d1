/* SPDX-License-Identifier: Apache-2.0 */
/* What symbfiles say, in any order, between reading and the sweep. Private to symbfile_map. */
#ifndef SYMBFILE_RECORDS_H
#define SYMBFILE_RECORDS_H

#include "base/arena.h"
#include "symbfile/map.h"

#define PARENTS_FILE UINT32_MAX /* a call_file that is that of the record around */

enum {
	CHAIN_MAX = 10000, /* most frames at an address; deeper ones are left out */
	CHAIN_SHORT = 8,   /* the same, once ranges that do not nest have cost too much */
	NODES_PER_RANGE = 4,
	NODES_FREE = 4096, /* too much means more than this many nodes for each range, plus this many */
};

/* A range, or one more piece of it. Strings are slots of the map, 0: none. */
struct range_record {
	uint64_t va, length; /* length > 0; va + length is at most 2^64 */
	uint64_t lines;      /* offset of the next line in the blob */
	uint32_t lines_left;
	uint32_t offset, line; /* the line at the sweep's position; 0 before the first */
	uint32_t depth;        /* as in the file; once sorted, its rank among the depths that occur */
	uint32_t func, file, call_file, call_line;
	union {
		uint32_t arrival; /* until sorted: order of arrival */
		uint32_t below;   /* in the sweep: the record of this depth that it hides, + 1; 0: none */
	};
	uint32_t symbol; /* for a function: index + 1 */
};

struct pad_record {
	uint64_t va;
	uint64_t frames; /* offset in the blob, which is in order of arrival: count, then function, file and line of
	                    each */
};

/* A function: pieces that adjoin or overlap. */
struct range_symbol {
	uint64_t start, size;
	uint32_t file; /* of the piece that ends last */
};

struct map_string {
	char *text; /* in the arena */
	uint32_t len;
	bool defined; /* in the records, as a file */
	uint64_t hash;
};

struct symbfile_map {
	struct offmap_options options;
	struct map_string *slots;
	uint32_t slot_count, slot_cap;
	uint32_t *table; /* slots by hash, 0: free; not map64, which takes 16 bytes a slot instead of 4 */
	uint32_t table_size;
	uint64_t salt; /* so that nobody can choose strings with equal hashes */
	struct arena texts;
	uint64_t strings, string_bytes; /* received */
	struct range_record *ranges;
	struct pad_record *pads;
	struct range_symbol *symbols;
	size_t range_count, pad_count, symbol_count;
	uint32_t range_cap, pad_cap, symbol_cap;
	uint8_t *blob; /* varints */
	uint64_t blob_len, blob_cap;
	uint32_t depths; /* how many there are */
	uint64_t funcs, inlines, lines;
	uint64_t charged;
	bool failed, too_large;
	struct records *out; /* while the sweep makes them */
	uint64_t tables;     /* bytes that the sweep takes besides */
};

static inline position range_end(const struct range_record *r)
{
	return (position)r->va + r->length;
}

/* Charges the memory held, plus `more`. False if that is above memory_max, or the account has no room. */
bool symbfile_map_count(struct symbfile_map *m, uint64_t more);
/* Writes what the ranges, which must be sorted and have their symbols, and pads say to m->out. False if out of memory.
 */
bool symbfile_sweep(struct symbfile_map *m);

#endif
