/* SPDX-License-Identifier: Apache-2.0 */
/* A function between parsing and encoding: its lines and inlined calls as flat segments. Private to the makers of
 * pages. */
#ifndef MAP_FLAT_H
#define MAP_FLAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/map64.h"

/* An address, or the end of the address space, which does not fit into a uint64_t. */
typedef unsigned __int128 position;
#define ADDRESS_END ((position)1 << 64)

/* Strings are slots (0: none), because their text may be defined later in the file. */
struct flat_node {
	uint32_t parent; /* 0: the function itself; nodes count from 1, parents first */
	uint32_t depth;  /* 1 below the function */
	uint32_t origin, call_file, call_line;
};

/* Reaches from start (relative to the function) to the next segment's start or the function's end. */
struct flat_segment {
	uint64_t start;
	uint32_t node, line, file;
};

/* A function or a public symbol. A public symbol has segments only if it stands for a return pad without a function. */
struct flat {
	uint64_t addr, size;
	bool is_public;
	bool has_lines;
	char *name; /* escaped */
	uint32_t name_len, name_cap;
	uint32_t name_external;         /* id in the string pages, if too long for a code page; 0: none assigned yet */
	uint32_t name_page, name_local; /* where it was last written: page number + 1, index there */
	uint32_t name_slot;             /* if not 0, the name is this string's, which other functions may share */
	struct flat_node *nodes;        /* nodes[0] is unused */
	uint32_t node_count, node_cap;  /* count without nodes[0] */
	struct flat_segment *segments;
	uint32_t segment_count, segment_cap;
	uint32_t next_segment; /* index of the segment to encode next */
};

/* Records of one FUNC in the order of the file, clipped to it; addresses are relative to it. */
struct line_record {
	uint64_t start, end;
	uint32_t line, file;
};

struct inline_record {
	uint32_t depth, call_line, call_file, origin;
};

struct inline_range {
	uint64_t start, end;
	uint32_t record; /* its number, in the order of the file */
	uint32_t depth;  /* nesting depth of the record */
};

struct func_records {
	struct line_record *lines;
	struct inline_record *inlines;
	struct inline_range *ranges;
	uint32_t line_count, line_cap;
	uint32_t inline_count, inline_cap;
	uint32_t range_count, range_cap;
	uint32_t deepest;  /* largest depth of the INLINEs */
	bool lines_sorted; /* lines ascend, do not overlap, and none is empty */
};

/* Clips [addr, addr + size) to a function and makes it relative. False if it lies outside. */
static inline bool clip_to_function(
        uint64_t func_addr, uint64_t func_size, uint64_t addr, uint64_t size, uint64_t *start, uint64_t *end)
{
	uint64_t from = addr - func_addr;
	if (from < func_size && size <= func_size - from) {
		*start = from;
		*end = from + size;
		return true;
	}
	position low = addr, high = low + size, base = func_addr, top = base + func_size;
	if (low < base)
		low = base;
	if (high > top)
		high = top;
	if (addr < func_addr ? high <= low : low >= top)
		return false;
	*start = (uint64_t)(low - base);
	*end = high > low ? (uint64_t)(high - base) : *start;
	return true;
}

void func_records_release(struct func_records *r);
uint64_t func_records_bytes(const struct func_records *r);

struct active_range {
	uint64_t end;
	uint32_t record;
};

struct flat_link {
	uint64_t end; /* the lowest end in the chain up to here */
	uint32_t node;
};

/* The first node made for a record. */
struct first_node {
	uint32_t parent, node; /* 0: none yet */
};

/* Buffers, kept from one function to the next. Zero it before first use. */
struct flattener {
	struct active_range *active;
	struct flat_link *chain;
	uint32_t depth_cap, chain_cap;
	uint64_t *keys, *keys_spare; /* start << 32 | index of a range */
	uint32_t keys_cap, spare_cap;
	struct line_record *breaks; /* disjoint lines */
	uint32_t breaks_cap;
	struct inline_range *lined, *pieces; /* lines as ranges; ranges, disjoint within each depth */
	uint32_t lined_cap, pieces_cap;
	uint32_t *heap;
	uint32_t heap_cap;
	struct first_node *first; /* by record */
	uint32_t first_cap;
	struct map64 memo; /* record << 32 | parent -> node, for this function's records' further nodes */
};

void flattener_release(struct flattener *f);
uint64_t flattener_bytes(const struct flattener *f);
/* Fills nodes and segments of out, whose size must be set. May reorder the records. False if out of memory. */
bool flatten(struct flattener *f, struct func_records *records, struct flat *out);

void flat_free(struct flat *f);
/* Bytes of its memory, with malloc's overhead. */
uint64_t flat_bytes(const struct flat *f);
bool flat_set_name(struct flat *f, const char *name, uint32_t len);

/* Returns the new node; 0 if out of memory. */
static inline uint32_t flat_add_node(
        struct flat *f, uint32_t parent, uint32_t origin, uint32_t call_file, uint32_t call_line)
{
	if (!array_reserve(&f->nodes, &f->node_cap, f->node_count + 2, sizeof *f->nodes))
		return 0;
	f->nodes[++f->node_count] =
	        (struct flat_node){parent, parent ? f->nodes[parent].depth + 1 : 1, origin, call_file, call_line};
	return f->node_count;
}

static inline bool flat_add_segment(struct flat *f, uint64_t start, uint32_t node, uint32_t line, uint32_t file)
{
	if (!array_reserve(&f->segments, &f->segment_cap, f->segment_count + 1, sizeof *f->segments))
		return false;
	f->segments[f->segment_count++] = (struct flat_segment){start, node, line, file};
	return true;
}

#endif
