/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep visits all addresses where an answer may change: where ranges start and end, where lines of the deepest
 * range start, and before and after return pads. It maintains the chain: for each depth the range that covers the
 * address, outermost first. Ranges of the same depth hide each other: the one that started last is on top of a stack.
 *
 * The outermost range names the function. As long as that is the same symbol, segments and nodes go to one flat
 * function, which then goes to the records as a part. A return pad is a one-byte segment of it, or a part of its own if
 * the pad's outermost frame is another function.
 *
 * A node belongs to one place in one chain, so a range that spans many ranges above it has many nodes. If a file's
 * ranges nest, there is one node per range; a file crafted to need more gets short chains.
 */
#include <config.h>

#include <stdlib.h>

#include "base/array.h"
#include "base/bit_tree.h"
#include "base/search.h"
#include "base/varint.h"
#include "symbfile/records.h"

enum {
	PART_SEGMENTS = 1024, /* a part with more, */
	PART_NODES = 80000,   /* or with more nodes, ends before its function does */
	NAME_NEAR = 16,       /* parts: a name that comes again after more of them is written anew */
	NAME_TIMES = 16,      /* a long name that is written more often goes to a string page */
};

struct chain_link {
	position end;   /* the lowest end in the chain up to here */
	uint32_t range; /* index */
	uint32_t node;  /* in the flat function */
	uint32_t call_file;
	bool site_only; /* too deep for a node: `node` is the parent's, and only the place of the call is written */
};

/* A function's name. */
struct name_use {
	struct record_name inside, outside; /* a code page, in a string page; len 0: not there */
	uint32_t last, times;               /* the part + 1 that had it last; how often it was written anew */
};

struct range_sweep {
	struct symbfile_map *m;
	uint32_t next_range, next_pad;
	uint32_t *tops;          /* by depth: the range on top of the stack, + 1 */
	struct bit_tree covered; /* depths whose stack is not empty */
	struct chain_link *chain;
	uint32_t chain_len, chain_cap;
	uint64_t nodes;         /* nodes made for ranges so far */
	struct flat flat;       /* the current part; none if it has no segments */
	uint32_t name;          /* slot */
	struct name_use *names; /* by slot */
	uint32_t parts;
};

/* The file and line of a frame. */
struct place {
	uint32_t file, line;
};

/* ---- the part at hand ---- */

static struct str text_of(const struct range_sweep *s, uint32_t slot)
{
	return (struct str){s->m->slots[slot].text, s->m->slots[slot].len};
}

/* Defines a string that the part names. */
static bool use_string(struct range_sweep *s, uint32_t slot)
{
	struct map_string *string = &s->m->slots[slot];
	if (slot && !string->defined)
		string->defined = records_define(s->m->out, false, slot, text_of(s, slot));
	return !slot || string->defined;
}

static const struct record_name *use_name(struct range_sweep *s, bool *anew)
{
	struct name_use *n = &s->names[s->name];
	struct str text = text_of(s, s->name);
	*anew = !n->last || s->parts - n->last >= NAME_NEAR;
	n->times += *anew;
	n->last = s->parts + 1;
	bool outside = text.len > OFFMAP_INLINE_NAME || (text.len > OFFMAP_SHORT_STRING && n->times > NAME_TIMES);
	struct record_name *name = outside ? &n->outside : &n->inside;
	return name->len || records_add_name(s->m->out, text, outside, name) ? name : NULL;
}

/* Ends the current part at an address, and drops the nodes of the chain. */
static bool end_part(struct range_sweep *s, position to)
{
	struct flat *f = &s->flat;
	if (!f->segment_count)
		return true;
	bool anew;
	const struct record_name *name = use_name(s, &anew);
	if (!name || !records_part(s->m->out, (uint64_t)(to - f->addr) - f->segments[0].start, name, anew, f))
		return false;
	s->parts++;
	f->segment_count = f->node_count = 0;
	s->chain_len = 0;
	return symbfile_map_count(s->m, 0);
}

/* Starts a part of this function at `at`, or continues the current one if it is of the same function. */
static bool start_part(struct range_sweep *s, uint64_t at, uint32_t name, struct range_symbol symbol)
{
	struct flat *f = &s->flat;
	if (f->segment_count && s->name == name && f->addr == symbol.start && f->size == symbol.size)
		return true;
	if (!end_part(s, at))
		return false;
	s->name = name;
	f->addr = symbol.start;
	f->size = symbol.size;
	f->is_public = !symbol.size;
	f->node_count = 0;
	return true;
}

static bool add_segment(struct range_sweep *s, uint64_t at, uint32_t node, struct place p)
{
	struct flat *f = &s->flat;
	struct flat_segment *last = f->segment_count ? &f->segments[f->segment_count - 1] : NULL;
	if (last && last->node == node && last->file == p.file && last->line == p.line)
		return true;
	return use_string(s, p.file) && flat_add_segment(f, at - f->addr, node, p.line, p.file);
}

static bool add_node(struct range_sweep *s, uint32_t parent, uint32_t func, struct place call, uint32_t *node)
{
	return use_string(s, func) && use_string(s, call.file) &&
	       (*node = flat_add_node(&s->flat, parent, func, call.file, call.line));
}

/* ---- the chain ---- */

static struct range_record *chain_range(const struct range_sweep *s, uint32_t i)
{
	return &s->m->ranges[s->chain[i].range];
}

static bool is_above(const void *sweep, size_t i, uint64_t depth)
{
	return chain_range(sweep, (uint32_t)i)->depth < depth;
}

/* Pushes the ranges that start here on their stacks, and cuts the chain where they change it. */
static void open_ranges(struct range_sweep *s, uint64_t at)
{
	struct symbfile_map *m = s->m;
	for (; s->next_range < m->range_count && m->ranges[s->next_range].va == at; s->next_range++) {
		struct range_record *r = &m->ranges[s->next_range];
		r->below = s->tops[r->depth];
		s->tops[r->depth] = s->next_range + 1;
		bit_tree_add(&s->covered, r->depth);
		s->chain_len = (uint32_t)search_before(s->chain_len, is_above, s, r->depth);
	}
}

/* The range of this depth that covers the address, + 1; 0: none. */
static uint32_t covering(struct range_sweep *s, uint32_t depth, uint64_t at)
{
	uint32_t *top = &s->tops[depth];
	while (*top && range_end(&s->m->ranges[*top - 1]) <= at)
		*top = s->m->ranges[*top - 1].below;
	if (!*top)
		bit_tree_remove(&s->covered, depth);
	return *top;
}

/* A function consists of all its adjoining pieces; a range without a function stands alone. */
static struct range_symbol symbol_of(const struct symbfile_map *m, const struct range_record *r)
{
	return r->symbol ? m->symbols[r->symbol - 1] : (struct range_symbol){r->va, r->length, 0};
}

static bool add_link(struct range_sweep *s, uint64_t at, uint32_t range, bool site_only)
{
	const struct range_record *r = &s->m->ranges[range];
	struct chain_link l = {range_end(r), range, 0, r->call_file, site_only};
	if (!s->chain_len && !start_part(s, at, r->func, symbol_of(s->m, r)))
		return false;
	if (!array_reserve(&s->chain, &s->chain_cap, s->chain_len + 1, sizeof *s->chain))
		return false;
	if (s->chain_len) {
		const struct chain_link *above = &s->chain[s->chain_len - 1];
		if (above->end < l.end)
			l.end = above->end;
		if (l.call_file == PARENTS_FILE)
			l.call_file = s->m->ranges[above->range].file;
		l.node = above->node;
		if (!site_only) {
			s->nodes++;
			if (!add_node(s, above->node, r->func, (struct place){l.call_file, r->call_line}, &l.node))
				return false;
		}
	}
	s->chain[s->chain_len++] = l;
	return true;
}

/* Moves the chain to an address, which is not below the previous one. */
static bool settle_chain(struct range_sweep *s, uint64_t at)
{
	while (s->chain_len && s->chain[s->chain_len - 1].end <= at)
		s->chain_len--;
	open_ranges(s, at);
	/* Too much for one part: start another. Making the nodes of the chain again costs little. */
	const struct flat *f = &s->flat;
	bool many = f->segment_count >= PART_SEGMENTS && 16 * s->chain_len <= f->segment_count,
	     far = f->segment_count && at - f->addr - f->segments[0].start > UINT32_MAX; /* for one page */
	if ((many || far || f->node_count >= PART_NODES) && !end_part(s, at))
		return false;
	bool spent = s->nodes > NODES_FREE + (uint64_t)NODES_PER_RANGE * s->m->range_count;
	uint32_t most = spent ? CHAIN_SHORT : CHAIN_MAX;
	if (s->chain_len > most)
		s->chain_len = most;
	uint32_t depth = s->chain_len ? chain_range(s, s->chain_len - 1)->depth + 1 : 0;
	for (; s->chain_len <= most; depth++) {
		depth = bit_tree_next(&s->covered, depth);
		if (depth == BIT_TREE_NONE)
			break;
		uint32_t range = covering(s, depth, at);
		if (range && !add_link(s, at, range - 1, s->chain_len == most))
			return false;
	}
	return s->chain_len || end_part(s, at);
}

/* ---- what is written ---- */

/* Reads the lines of a range up to an address; returns where the next one starts. */
static position read_lines(struct symbfile_map *m, struct range_record *r, uint64_t at)
{
	while (r->lines_left) {
		struct reader in = {m->blob + r->lines, m->blob + m->blob_len, false};
		uint32_t offset = r->offset + (uint32_t)reader_varint(&in);
		if (offset > at - r->va)
			return (position)r->va + offset;
		r->offset = offset;
		r->line += (uint32_t)unzigzag(reader_varint(&in));
		r->lines = (uint64_t)(in.at - m->blob);
		r->lines_left--;
	}
	return ADDRESS_END;
}

/* Writes what the ranges say at an address; lowers *next to where that may change. */
static bool write_place(struct range_sweep *s, uint64_t at, position *next)
{
	const struct chain_link *last = &s->chain[s->chain_len - 1];
	struct range_record *r = &s->m->ranges[last->range];
	if (last->site_only)
		return add_segment(s, at, last->node, (struct place){last->call_file, r->call_line});
	position line_end = read_lines(s->m, r, at);
	if (line_end < *next)
		*next = line_end;
	return add_segment(s, at, last->node, (struct place){r->file, r->line});
}

/* Whether link i of the chain is this call. */
static bool same_call(const struct range_sweep *s, uint32_t i, uint32_t func, struct place call)
{
	if (i >= s->chain_len || s->chain[i].site_only)
		return false;
	const struct range_record *r = chain_range(s, i);
	return r->func == func && s->chain[i].call_file == call.file && r->call_line == call.line;
}

/* Writes a pad's frames. Uses the nodes of the chain as far as both are the same. */
static bool write_frames(struct range_sweep *s, uint64_t at, struct reader *in, uint64_t count, bool shared)
{
	struct place p = {0, 0};
	uint32_t node = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint32_t func = i ? (uint32_t)reader_varint(in) : 0; /* the first has been read already */
		if (i) {
			shared = shared && same_call(s, (uint32_t)i, func, p);
			if (shared)
				node = s->chain[i].node;
			else if (!add_node(s, node, func, p, &node))
				return false;
		}
		p.file = (uint32_t)reader_varint(in);
		p.line = (uint32_t)reader_varint(in);
	}
	return add_segment(s, at, node, p);
}

/* Of pads at the same address the last one wins. */
static bool write_pad(struct range_sweep *s, uint64_t at)
{
	struct symbfile_map *m = s->m;
	while (s->next_pad < m->pad_count && m->pads[s->next_pad].va == at)
		s->next_pad++;
	struct reader in = {m->blob + m->pads[s->next_pad - 1].frames, m->blob + m->blob_len, false};
	uint64_t count = reader_varint(&in);
	uint32_t func = (uint32_t)reader_varint(&in);
	const struct range_record *outer = s->chain_len ? chain_range(s, 0) : NULL;
	if (outer && outer->symbol && outer->func == func)
		return write_frames(s, at, &in, count, true);
	struct range_symbol symbol = {at, 0, 0};
	if (outer && outer->symbol)
		symbol = symbol_of(m, outer);
	return end_part(s, at) && start_part(s, at, func, symbol) && write_frames(s, at, &in, count, false) &&
	       end_part(s, (position)at + 1);
}

/* ---- the sweep ---- */

/* Where the settled chain may change next. */
static position next_change(const struct range_sweep *s)
{
	const struct symbfile_map *m = s->m;
	position next = s->chain_len ? s->chain[s->chain_len - 1].end : ADDRESS_END;
	if (s->next_range < m->range_count && m->ranges[s->next_range].va < next)
		next = m->ranges[s->next_range].va;
	return next;
}

static bool sweep_addresses(struct range_sweep *s)
{
	const struct symbfile_map *m = s->m;
	for (position at = 0, next; at < ADDRESS_END; at = next) {
		uint64_t address = (uint64_t)at;
		if (!settle_chain(s, address))
			return false;
		next = next_change(s);
		position pad = s->next_pad < m->pad_count ? m->pads[s->next_pad].va : ADDRESS_END;
		if (pad == at) {
			next = at + 1;
			if (!write_pad(s, address))
				return false;
		} else {
			if (pad < next)
				next = pad;
			if (s->chain_len && !write_place(s, address, &next))
				return false;
		}
	}
	return end_part(s, ADDRESS_END);
}

bool symbfile_sweep(struct symbfile_map *m)
{
	struct range_sweep s = {.m = m};
	m->tables = m->slot_count * (uint64_t)sizeof *s.names + m->depths * (uint64_t)sizeof *s.tops;
	if (!symbfile_map_count(m, 0))
		return false;
	s.tops = calloc(m->depths, sizeof *s.tops);
	s.names = calloc(m->slot_count, sizeof *s.names);
	bool ok = s.tops && s.names && bit_tree_init(&s.covered, m->depths) && sweep_addresses(&s);
	free(s.flat.nodes);
	free(s.flat.segments);
	bit_tree_release(&s.covered);
	free(s.chain);
	free(s.tops);
	free(s.names);
	m->tables = 0;
	return ok;
}
