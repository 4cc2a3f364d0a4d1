/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/functions.h"

#include <dwarf.h>
#include <elf.h>
#include <stdlib.h>

#include "base/array.h"
#include "extract/die_ranges.h"

/* Entries may share a list of ranges. To keep time and memory linear, a unit may have one piece for each of its
 * bytes, many times what compilers write, and this many more. */
enum { PIECES_MIN = 4096, ENTRY_BYTES_MAX = 17 };

/* What an entry says about its code. Attributes that it lacks are cleared. */
struct code_die {
	Dwarf_Attribute low, high, ranges, origin, call_file, call_line;
};

/* The entries that are open: the nodes that code in them belongs to. */
struct context {
	uint32_t *outer; /* what it was outside of each */
	size_t count;
	uint32_t cap;
	uint32_t node;
};

struct collector {
	struct functions *f;
	const struct die_unit *u;
	const struct code_map *code;
	struct context context;
	uint64_t budget; /* pieces that may still be read */
	bool no_memory;
};

static struct code_die read_die(const struct die_unit *u, const struct die *d)
{
	struct code_die c = {0};
	struct die_attrs i = die_attributes(u, d);
	for (Dwarf_Attribute a, other; die_attr_next(u, &i, &a);) {
		Dwarf_Attribute *kept = a.code == DW_AT_low_pc            ? &c.low
		                        : a.code == DW_AT_high_pc         ? &c.high
		                        : a.code == DW_AT_ranges          ? &c.ranges
		                        : a.code == DW_AT_abstract_origin ? &c.origin
		                        : a.code == DW_AT_call_file       ? &c.call_file
		                        : a.code == DW_AT_call_line       ? &c.call_line
		                                                          : &other;
		*kept = a;
	}
	return c;
}

static uint64_t read_number(Dwarf_Attribute *a)
{
	Dwarf_Word v;
	return a->code != 0 && dwarf_formudata(a, &v) == 0 ? v : 0;
}

static void add_piece(struct collector *c, uint64_t start, uint64_t end, bool is_function)
{
	struct functions *f = c->f;
	/* GNU's assembler describes a Thumb function by its symbol, of which bit 0 is no part of the address. */
	if (c->code->machine == EM_ARM && (start & 1)) {
		start &= ~(uint64_t)1;
		end &= ~(uint64_t)1;
	}
	const struct code_section *section = is_function ? code_map_find(c->code, start) : NULL;
	if (start >= end || (is_function && !section))
		return;
	if (section && end > section->end)
		end = section->end;
	const struct code_piece piece = {start, end, (uint32_t)f->node_count};
	c->no_memory |= !array_append(&f->pieces, &f->piece_cap, &f->piece_count, &piece, sizeof piece);
}

static void add_low_high(struct collector *c, struct code_die *d, bool is_function)
{
	Dwarf_Addr low, high;
	Dwarf_Word length;
	if (!die_address(c->u, &d->low, &low))
		return;
	if (die_address(c->u, &d->high, &high))
		add_piece(c, low, high, is_function);
	else if (dwarf_formudata(&d->high, &length) == 0 && length <= UINT64_MAX - low)
		add_piece(c, low, low + length, is_function);
}

/* Entries of a list that give no range take time, too. */
static void add_split_ranges(struct collector *c, const Dwarf_Attribute *a, bool is_function)
{
	struct die_ranges list = die_ranges_of(c->u, a);
	const uint8_t *before = list.r.at;
	for (uint64_t start, end; c->budget > 0 && die_ranges_next(&list, &start, &end);) {
		add_piece(c, start, end, is_function);
		c->budget--;
	}
	uint64_t work = (uint64_t)(list.r.at - before) / ENTRY_BYTES_MAX;
	c->budget -= work < c->budget ? work : c->budget;
}

static void add_ranges(struct collector *c, const uint8_t *at, bool is_function)
{
	Dwarf_Die die = die_handle(c->u, at);
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;
	while (c->budget > 0 && (offset = dwarf_ranges(&die, offset, &base, &start, &end)) > 0) {
		c->budget--;
		add_piece(c, start, end, is_function);
	}
}

/* The pieces of the node that is going to be added. */
static void add_pieces(struct collector *c, struct code_die *d, const uint8_t *at, bool is_function)
{
	if (d->ranges.code != 0 && c->u->skeleton)
		add_split_ranges(c, &d->ranges, is_function);
	else if (d->ranges.code != 0)
		add_ranges(c, at, is_function);
	else if (d->low.code != 0 && d->high.code != 0)
		add_low_high(c, d, is_function);
}

static void add_node(struct collector *c, struct code_die *d, const uint8_t *at, uint32_t parent)
{
	struct functions *f = c->f;
	struct code_node n = {.die = at, .parent = parent, .function = (uint32_t)f->node_count, .origin = d->origin};
	if (parent != NO_NODE) {
		uint64_t line = read_number(&d->call_line);
		n.function = f->nodes[parent].function;
		n.depth = f->nodes[parent].depth + 1;
		n.call_line = line <= UINT32_MAX ? (uint32_t)line : 0;
		n.call_file = read_number(&d->call_file);
	}
	c->no_memory |= !array_append(&f->nodes, &f->node_cap, &f->node_count, &n, sizeof n);
}

/* A node for the entry, if it has code; otherwise the node that code inside it belongs to. */
static uint32_t node_of(struct collector *c, const struct die *die)
{
	uint32_t outer = c->context.node;
	bool is_function = die->abbrev->tag == DW_TAG_subprogram;
	if (!is_function && (outer == NO_NODE || c->f->nodes[outer].depth >= INLINE_DEPTH_MAX))
		return outer;
	struct code_die d = read_die(c->u, die);
	size_t before = c->f->piece_count;
	add_pieces(c, &d, die->at, is_function);
	/* Strict DWARF 2 says of some calls only where those are that were inlined into them. */
	bool untold = !is_function && c->u->version == 2 && die->abbrev->children;
	if (c->f->piece_count == before && !untold)
		return is_function ? NO_NODE : outer;
	add_node(c, &d, die->at, is_function ? NO_NODE : outer);
	if (!c->no_memory && c->f->piece_count > before)
		c->f->nodes[c->f->node_count - 1].entry = c->f->pieces[before].start;
	return (uint32_t)c->f->node_count - 1;
}

static void enter_entry(struct collector *c, const struct die *d)
{
	struct context *x = &c->context;
	bool is_code = d->abbrev->tag == DW_TAG_subprogram || d->abbrev->tag == DW_TAG_inlined_subroutine;
	uint32_t inner = is_code ? node_of(c, d) : x->node;
	if (!d->abbrev->children || c->no_memory)
		return;
	c->no_memory = !array_append(&x->outer, &x->cap, &x->count, &x->node, sizeof x->node);
	x->node = inner;
}

static enum err scan(struct collector *c, struct error *e)
{
	struct die d = {0};
	enum err err;
	while (!(err = die_next(c->u, &d, e))) {
		if (d.abbrev)
			enter_entry(c, &d);
		else if (c->context.count > 0)
			c->context.node = c->context.outer[--c->context.count];
		if (c->no_memory)
			return no_memory(e);
	}
	return err == ERR_MISSING ? ERR_OK : err;
}

static int compare_addresses(const void *a, const void *b, void *arg)
{
	const struct code_piece *x = a, *y = b;
	const struct code_node *nodes = arg;
	uint32_t f = nodes[x->node].function, g = nodes[y->node].function;
	if (f != g)
		return f < g ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

enum err functions_read(struct functions *f, const struct die_unit *u, const struct code_map *code, struct error *e)
{
	struct collector c = {.f = f, .u = u, .code = code, .context = {.node = NO_NODE}};
	f->node_count = f->piece_count = 0;
	c.budget = (uint64_t)(u->end - u->start) + PIECES_MIN;
	enum err err = scan(&c, e);
	free(c.context.outer);
	if (!err && f->piece_count > 0)
		qsort_r(f->pieces, f->piece_count, sizeof *f->pieces, compare_addresses, f->nodes);
	return err;
}

void functions_release(struct functions *f)
{
	free(f->nodes);
	free(f->pieces);
	*f = (struct functions){0};
}
