/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flattening turns the line and INLINE records of one function into segments that do not overlap, each with a line, a
 * file and a node in a tree of inlined calls.
 *
 * INLINE ranges are swept by address. active[d] is the range of depth d that covers the position. The chain
 * is the longest run of depths from 0 that all cover it (docs: "at each depth from 0 the INLINE that covers, until none
 * does"), so a range whose parent has not started stays in active[] and joins the chain when the parent starts. A node
 * is one INLINE record under one parent node: the same record may be under several parents.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "map/flat.h"
#include "map/offmap.h"

enum { MEMO_LEAST = 64 };

/* Ranges ascending by start. */
struct ordered {
	const struct inline_range *ranges;
	const uint64_t *keys; /* their order; NULL: as stored */
	uint32_t count;
};

enum sweep_end { SWEEP_NO_MEMORY, SWEEP_DONE, SWEEP_OVERLAP, SWEEP_TOO_MUCH };

void flattener_release(struct flattener *f)
{
	free(f->active);
	free(f->chain);
	free(f->keys);
	free(f->keys_spare);
	free(f->breaks);
	free(f->lined);
	free(f->pieces);
	free(f->heap);
	free(f->first);
	map64_release(&f->memo);
	*f = (struct flattener){0};
}

uint64_t flattener_bytes(const struct flattener *f)
{
	return f->depth_cap * (uint64_t)sizeof *f->active + f->chain_cap * (uint64_t)sizeof *f->chain +
	       ((uint64_t)f->keys_cap + f->spare_cap) * sizeof *f->keys + f->breaks_cap * (uint64_t)sizeof *f->breaks +
	       ((uint64_t)f->lined_cap + f->pieces_cap) * sizeof *f->pieces + f->heap_cap * (uint64_t)sizeof *f->heap +
	       f->first_cap * (uint64_t)sizeof *f->first + f->memo.cap * sizeof *f->memo.slots;
}

void func_records_release(struct func_records *r)
{
	free(r->lines);
	free(r->inlines);
	free(r->ranges);
	*r = (struct func_records){0};
}

uint64_t func_records_bytes(const struct func_records *r)
{
	return (uint64_t)r->line_cap * sizeof *r->lines + (uint64_t)r->inline_cap * sizeof *r->inlines +
	       (uint64_t)r->range_cap * sizeof *r->ranges;
}

void flat_free(struct flat *f)
{
	if (!f)
		return;
	free(f->name);
	free(f->nodes);
	free(f->segments);
	free(f);
}

uint64_t flat_bytes(const struct flat *f)
{
	enum { BESIDE = 64 };
	return sizeof *f + BESIDE + f->name_cap + (uint64_t)f->node_cap * sizeof *f->nodes +
	       (uint64_t)f->segment_cap * sizeof *f->segments;
}

bool flat_set_name(struct flat *f, const char *name, uint32_t len)
{
	if (len > f->name_cap || !f->name) {
		char *grown = realloc(f->name, (size_t)len + 1);
		if (!grown)
			return false;
		f->name = grown;
		f->name_cap = len;
	}
	if (len)
		memcpy(f->name, name, len);
	f->name_len = len;
	f->name_external = f->name_page = 0;
	return true;
}

/* ---- inline ranges ---- */

/* Sorts keys by their upper 32 bits, stably: few by insertion, many by a radix sort over the bits in use. */
static bool sort_keys(struct flattener *f, uint32_t n, uint64_t highest)
{
	uint64_t *keys = f->keys;
	if (n <= 48) {
		for (uint32_t i = 1; i < n; i++) {
			uint64_t k = keys[i];
			uint32_t j = i;
			for (; j && keys[j - 1] > k; j--)
				keys[j] = keys[j - 1];
			keys[j] = k;
		}
		return true;
	}
	if (!array_reserve(&f->keys_spare, &f->spare_cap, n, sizeof *f->keys_spare))
		return false;
	uint64_t *from = f->keys, *to = f->keys_spare;
	for (unsigned shift = 32; shift < 64 && highest >> shift; shift += 8) {
		uint32_t counts[256] = {0}, at = 0;
		for (uint32_t i = 0; i < n; i++)
			counts[from[i] >> shift & 255]++;
		for (unsigned i = 0; i < 256; i++) {
			uint32_t c = counts[i];
			counts[i] = at;
			at += c;
		}
		for (uint32_t i = 0; i < n; i++)
			to[counts[from[i] >> shift & 255]++] = from[i];
		uint64_t *swap = from;
		from = to;
		to = swap;
	}
	if (from != f->keys) {
		memcpy(f->keys, from, n * sizeof *from);
	}
	return true;
}

static int range_order(const void *a, const void *b)
{
	const struct inline_range *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->record > y->record) - (x->record < y->record);
}

static bool order_ranges(struct flattener *f, struct func_records *r, struct ordered *out)
{
	struct inline_range *ranges = r->ranges;
	uint64_t highest = 0;
	bool sorted = true;
	*out = (struct ordered){ranges, NULL, r->range_count};
	for (uint32_t i = 0; i < r->range_count; i++) {
		sorted = sorted && (!i || ranges[i].start >= ranges[i - 1].start);
		highest |= ranges[i].start;
	}
	if (sorted)
		return true;
	if (highest >> 32) {
		qsort(ranges, r->range_count, sizeof *ranges, range_order);
		return true;
	}
	if (!array_reserve(&f->keys, &f->keys_cap, r->range_count, sizeof *f->keys))
		return false;
	for (uint32_t i = 0; i < r->range_count; i++)
		f->keys[i] = ranges[i].start << 32 | i;
	out->keys = f->keys;
	return sort_keys(f, r->range_count, highest << 32);
}

/* ---- overlaps ---- */

/* Which of two ranges of one depth answers where both cover an address: by `latest` the one that starts later; then the
 * first in the file. Records from `behind` on answer only where no other does. */
struct overlaps {
	const struct inline_range *ranges;
	bool latest;
	uint32_t behind;
};

static bool answers(const struct overlaps *o, uint32_t a, uint32_t b)
{
	const struct inline_range *x = &o->ranges[a], *y = &o->ranges[b];
	if ((x->record >= o->behind) != (y->record >= o->behind))
		return x->record < o->behind;
	if (o->latest && x->start != y->start)
		return x->start > y->start;
	return x->record < y->record;
}

/* A heap of indices into ranges; the one that answers is on top. */
static void heap_push(uint32_t *heap, uint32_t n, const struct overlaps *o, uint32_t v)
{
	for (; n && answers(o, v, heap[(n - 1) / 2]); n = (n - 1) / 2)
		heap[n] = heap[(n - 1) / 2];
	heap[n] = v;
}

static void heap_pop(uint32_t *heap, uint32_t n, const struct overlaps *o)
{
	uint32_t v = heap[--n], at = 0;
	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && answers(o, heap[child + 1], heap[child]))
			child++;
		if (!answers(o, heap[child], v))
			break;
		heap[at] = heap[child];
	}
	heap[at] = v;
}

static int depth_order(const void *a, const void *b)
{
	const struct inline_range *x = a, *y = b;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return range_order(a, b);
}

static bool add_piece(
        struct flattener *f, uint32_t *count, uint64_t start, uint64_t end, const struct inline_range *from)
{
	if (*count && f->pieces[*count - 1].record == from->record && f->pieces[*count - 1].end == start) {
		f->pieces[*count - 1].end = end;
		return true;
	}
	if (!array_reserve(&f->pieces, &f->pieces_cap, *count + 1, sizeof *f->pieces))
		return false;
	f->pieces[(*count)++] = (struct inline_range){start, end, from->record, from->depth};
	return true;
}

/* Leaves f->pieces: what answers, disjoint in each depth and ascending within it. False if out of memory. */
static bool resolve(struct flattener *f, struct inline_range *in, uint32_t n, struct overlaps by, uint32_t *count)
{
	uint32_t end;
	*count = 0;
	by.ranges = in;
	if (!array_reserve(&f->heap, &f->heap_cap, n, sizeof *f->heap))
		return false;
	qsort(in, n, sizeof *in, depth_order);
	for (uint32_t i = 0; i < n; i = end) {
		uint32_t depth = in[i].depth, heap = 0;
		uint64_t cursor = 0;
		for (end = i; end < n && in[end].depth == depth; end++)
			;
		for (uint32_t k = i; k <= end; k++) {
			uint64_t to = k < end ? in[k].start : UINT64_MAX;
			while (heap && cursor < to) {
				const struct inline_range *top = &in[f->heap[0]];
				if (top->end <= cursor) {
					heap_pop(f->heap, heap--, &by);
					continue;
				}
				uint64_t stop = top->end < to ? top->end : to;
				if (!add_piece(f, count, cursor, stop, top))
					return false;
				cursor = stop;
			}
			cursor = to;
			if (k < end)
				heap_push(f->heap, heap++, &by, k);
		}
	}
	return true;
}

/* Of the lines that cover an address the one with the greatest start wins, then the first in the file; where none
 * covers, the last one that started: each has a range of its own, and one without end that is behind all these. Leaves
 * disjoint breaks, each valid up to the next. False if out of memory. */
static bool break_lines(struct flattener *f, const struct func_records *r, uint32_t *count)
{
	const struct line_record *lines = r->lines;
	uint32_t n = r->line_count;
	if (!array_reserve(&f->lined, &f->lined_cap, 2 * n, sizeof *f->lined))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		f->lined[2 * i] = (struct inline_range){lines[i].start, lines[i].end, i, 0};
		f->lined[2 * i + 1] = (struct inline_range){lines[i].start, UINT64_MAX, n + i, 0};
	}
	if (!resolve(f, f->lined, 2 * n, (struct overlaps){.latest = true, .behind = n}, count) ||
	        !array_reserve(&f->breaks, &f->breaks_cap, *count, sizeof *f->breaks))
		return false;
	for (uint32_t i = 0; i < *count; i++) {
		const struct line_record *l = &lines[f->pieces[i].record % n];
		f->breaks[i] = (struct line_record){f->pieces[i].start, 0, l->line, l->file};
	}
	return true;
}

/* Of several calls of one depth that cover an address the first in the file wins. Leaves f->pieces ascending by start.
 * False if out of memory. */
static bool part_ranges(struct flattener *f, struct func_records *r, uint32_t *count)
{
	if (!resolve(f, r->ranges, r->range_count, (struct overlaps){.behind = UINT32_MAX}, count))
		return false;
	qsort(f->pieces, *count, sizeof *f->pieces, range_order);
	return true;
}

/* ---- the sweep ---- */

/* Returns the new node; 0 if out of memory. */
static uint32_t add_node(const struct func_records *r, struct flat *out, uint32_t record, uint32_t parent)
{
	const struct inline_record *i = &r->inlines[record];
	return flat_add_node(out, parent, i->origin, i->call_file, i->call_line);
}

/* Like find_node, for a record that has a first node under another parent. */
static uint32_t find_further_node(
        struct flattener *f, const struct func_records *r, struct flat *out, uint32_t record, uint32_t parent)
{
	uint64_t key = (uint64_t)record << 32 | parent;
	uint32_t node = (uint32_t)map64_get(&f->memo, key);
	if (node)
		return node;
	node = add_node(r, out, record, parent);
	return node && map64_put(&f->memo, key, node) ? node : 0;
}

/* The node of a record under a parent, made if new; 0 if out of memory. */
static inline uint32_t find_node(
        struct flattener *f, const struct func_records *r, struct flat *out, uint32_t record, uint32_t parent)
{
	struct first_node *first = &f->first[record];
	if (!first->node)
		*first = (struct first_node){parent, add_node(r, out, record, parent)};
	return first->parent == parent ? first->node : find_further_node(f, r, out, record, parent);
}

static inline const struct inline_range *range_at(const struct ordered *o, uint32_t i)
{
	return &o->ranges[o->keys ? (uint32_t)o->keys[i] : i];
}

/* How deep a chain can be: at most as deep as there are records, since every depth above must be filled. */
static uint32_t count_depths(const struct func_records *r)
{
	return r->deepest < r->inline_count ? r->deepest + 1 : r->inline_count;
}

static enum sweep_end sweep_ranges(struct flattener *f, const struct func_records *r, const struct ordered *ordered,
        const struct line_record *breaks, uint32_t break_count, struct flat *out)
{
	uint32_t depths = ordered->count ? count_depths(r) : 0, chain = 0, at_range = 0, at_break = 0;
	uint64_t steps = 1000000 + 100 * ((uint64_t)ordered->count + break_count), at = 0;
	uint64_t next_break = break_count ? breaks->start : UINT64_MAX;
	uint64_t next_range = ordered->count ? range_at(ordered, 0)->start : UINT64_MAX;
	uint64_t chain_end = UINT64_MAX; /* lowest end in the chain whose last node is `node` */
	uint32_t node = 0, line = 0, file = 0, last_node = 0, last_line = 0, last_file = 0;
	if (!array_reserve(&f->active, &f->depth_cap, depths + 1, sizeof *f->active) ||
	        !array_reserve(&f->chain, &f->chain_cap, depths + 1, sizeof *f->chain))
		return SWEEP_NO_MEMORY;
	memset(f->active, 0, (depths + 1) * sizeof *f->active);
	for (;;) {
		uint32_t changed = UINT32_MAX;
		while (next_break <= at) {
			line = breaks[at_break].line;
			file = breaks[at_break++].file;
			next_break = at_break < break_count ? breaks[at_break].start : UINT64_MAX;
		}
		while (next_range <= at) {
			const struct inline_range *g = range_at(ordered, at_range++);
			uint32_t depth = g->depth;
			next_range = at_range < ordered->count ? range_at(ordered, at_range)->start : UINT64_MAX;
			if (depth >= depths)
				continue;
			if (f->active[depth].end > g->start)
				return SWEEP_OVERLAP;
			f->active[depth] = (struct active_range){g->end, g->record};
			if (depth < changed)
				changed = depth;
		}
		while (chain && f->chain[chain - 1].end <= at)
			changed = --chain < changed ? chain : changed;
		if (changed <= chain) {
			node = changed ? f->chain[changed - 1].node : 0;
			chain_end = changed ? f->chain[changed - 1].end : UINT64_MAX;
			for (chain = changed; chain < depths && f->active[chain].end > at; chain++) {
				if (f->active[chain].end < chain_end)
					chain_end = f->active[chain].end;
				node = find_node(f, r, out, f->active[chain].record, node);
				if (!node)
					return SWEEP_NO_MEMORY;
				if (out->node_count > OFFMAP_NODES_MAX || !steps--)
					return SWEEP_TOO_MUCH;
				f->chain[chain] = (struct flat_link){chain_end, node};
			}
		}
		if (!out->segment_count || node != last_node || line != last_line || file != last_file) {
			if (!flat_add_segment(out, at, node, line, file))
				return SWEEP_NO_MEMORY;
			last_node = node;
			last_line = line;
			last_file = file;
		}
		uint64_t next = out->size;
		if (next_break < next)
			next = next_break;
		if (next_range < next)
			next = next_range;
		if (chain_end < next)
			next = chain_end;
		if (next >= out->size)
			return SWEEP_DONE;
		at = next;
	}
}

static bool begin_function(struct flattener *f, const struct func_records *r, struct flat *out)
{
	out->node_count = out->segment_count = 0;
	if (!array_reserve(&f->first, &f->first_cap, r->inline_count, sizeof *f->first))
		return false;
	if (r->inline_count)
		memset(f->first, 0, r->inline_count * sizeof *f->first);
	/* drop a large function's table: the next function would have to clear it */
	if (f->memo.cap > MEMO_LEAST)
		map64_release(&f->memo);
	else if (f->memo.count)
		map64_reset(&f->memo);
	return true;
}

bool flatten(struct flattener *f, struct func_records *r, struct flat *out)
{
	const struct line_record *breaks = r->lines;
	uint32_t break_count = r->line_count;
	struct ordered ordered;
	if (!begin_function(f, r, out))
		return false;
	if (!out->size || (!break_count && !r->range_count))
		return true;
	if (!r->lines_sorted && break_count) {
		if (!break_lines(f, r, &break_count))
			return false;
		breaks = f->breaks;
	}
	if (!order_ranges(f, r, &ordered))
		return false;
	enum sweep_end end = sweep_ranges(f, r, &ordered, breaks, break_count, out);
	if (end == SWEEP_OVERLAP) {
		if (!part_ranges(f, r, &ordered.count) || !begin_function(f, r, out))
			return false;
		ordered.ranges = f->pieces;
		ordered.keys = NULL;
		end = sweep_ranges(f, r, &ordered, breaks, break_count, out);
	}
	if (end == SWEEP_TOO_MUCH) {
		ordered.count = 0;
		end = begin_function(f, r, out) ? sweep_ranges(f, r, &ordered, breaks, break_count, out)
		                                : SWEEP_NO_MEMORY;
	}
	return end == SWEEP_DONE;
}
