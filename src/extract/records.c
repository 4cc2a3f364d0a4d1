/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static enum err read_copies(struct records *r, struct error *e)
{
	const struct functions *f = r->functions;
	map64_reset(&r->copies);
	r->copies_known = true;
	for (size_t i = 0; i < f->node_count; i++) {
		Dwarf_Attribute a = f->nodes[i].origin;
		Dwarf_Die die;
		if (f->nodes[i].parent != NO_NODE || a.code == 0 || !dwarf_formref_die(&a, &die) ||
		        map64_get(&r->copies, (uintptr_t)die.addr))
			continue;
		if (!map64_put(&r->copies, (uintptr_t)die.addr, i + 1))
			return no_memory(e);
	}
	return ERR_OK;
}

/* A symbol has the name of a function, and so of calls of it that were inlined in the same unit. */
static enum err complete_name(struct records *r, uint32_t node, const Dwarf_Die *die, struct error *e)
{
	struct code_node *n = &r->functions->nodes[node];
	if (n->parent == NO_NODE)
		return names_complete(r->names, n->entry, &n->name, e);
	enum err err = r->copies_known ? ERR_OK : read_copies(r, e);
	uint64_t copy = err ? 0 : map64_get(&r->copies, (uintptr_t)die->addr);
	return copy ? names_complete(r->names, r->functions->nodes[copy - 1].entry, &n->name, e) : err;
}

/* An inlined call is named by its origin, which all calls of the function share. */
enum err records_name(struct records *r, uint32_t node, struct error *e)
{
	struct code_node *n = &r->functions->nodes[node];
	if (n->name.data)
		return ERR_OK;
	Dwarf_Die die = die_handle(r->unit, n->die), origin;
	if (n->parent != NO_NODE) {
		n->call_path = line_table_path(r->lines, n->call_file, r->strings);
		if (!n->call_path.data)
			return no_memory(e);
		if (n->origin.code != 0 && dwarf_formref_die(&n->origin, &origin))
			die = origin;
	}
	enum err err = names_get(r->names, &die, &n->name, e);
	return !err && names_incomplete(r->names, &die) ? complete_name(r, node, &die, e) : err;
}

bool records_seek(struct records *r, uint64_t address)
{
	const struct line_table *t = r->lines;
	while (r->row < t->row_count && t->rows[r->row].end <= address)
		r->row++;
	return r->row < t->row_count && t->rows[r->row].start <= address;
}

static enum err open_range(struct records *r, uint32_t node, uint64_t start, struct error *e)
{
	enum err err = records_name(r, node, e);
	if (err)
		return err;
	const struct code_node *n = &r->functions->nodes[node];
	struct symbfile_range range = {.va = start, .depth = n->depth, .func = n->name};
	if (n->parent != NO_NODE) {
		range.call_line = n->call_line;
		range.call_file = n->call_path;
		range.has_call_file = true;
	}
	if (!array_append(&r->out->ranges, &r->out->range_cap, &r->out->range_count, &range, sizeof range))
		return no_memory(e);
	struct open_range *o = &r->open[n->depth];
	o->node = node;
	o->range = r->out->range_count - 1;
	o->line_count = 0;
	r->open_count = n->depth + 1;
	return ERR_OK;
}

/* Closes the deepest range. */
static enum err close_range(struct records *r, uint64_t end, struct error *e)
{
	struct open_range *o = &r->open[--r->open_count];
	struct symbfile_range *range = &r->out->ranges[o->range];
	range->length = end - range->va;
	if (o->line_count == 0)
		return ERR_OK;
	struct symbfile_line *lines = arena_alloc(&r->out->arena, o->line_count * sizeof *lines);
	if (!lines)
		return no_memory(e);
	memcpy(lines, o->lines, o->line_count * sizeof *lines);
	range->lines = lines;
	range->line_count = o->line_count;
	return ERR_OK;
}

static enum err close_ranges(struct records *r, size_t keep, uint64_t end, struct error *e)
{
	enum err err = ERR_OK;
	while (r->open_count > keep && !err)
		err = close_range(r, end, e);
	return err;
}

/* Opens those ranges of node and its callers that are not open yet. */
static enum err open_chain(struct records *r, uint32_t node, uint64_t start, struct error *e)
{
	uint32_t chain[INLINE_DEPTH_MAX + 1];
	size_t n = 0;
	const struct code_node *nodes = r->functions->nodes;
	for (; node != NO_NODE; node = nodes[node].parent) {
		uint32_t depth = nodes[node].depth;
		if (depth < r->open_count && r->open[depth].node == node)
			break;
		chain[n++] = node;
	}
	enum err err = close_ranges(r, node == NO_NODE ? 0 : nodes[node].depth + 1, start, e);
	while (n > 0 && !err)
		err = open_range(r, chain[--n], start, e);
	return err;
}

/* From address on the deepest range is of this line; 0: unknown. */
static enum err add_line(struct records *r, uint64_t address, uint32_t line, struct error *e)
{
	struct open_range *o = &r->open[r->open_count - 1];
	uint32_t before = o->line_count > 0 ? o->lines[o->line_count - 1].line : 0;
	if (line == before)
		return ERR_OK;
	const struct symbfile_line l = {(uint32_t)(address - r->out->ranges[o->range].va), line};
	return array_append(&o->lines, &o->line_cap, &o->line_count, &l, sizeof l) ? ERR_OK : no_memory(e);
}

/* A range has one file. Where code comes from another one, a new range begins. */
static enum err add_row(struct records *r, uint64_t address, const struct line_row *row, struct error *e)
{
	struct str path = line_table_path(r->lines, row->file, r->strings);
	if (!path.data)
		return no_memory(e);
	if (path.len == 0)
		return add_line(r, address, 0, e);
	struct open_range *o = &r->open[r->open_count - 1];
	struct symbfile_range *range = &r->out->ranges[o->range];
	if (range->has_file && range->file.data != path.data) {
		enum err err = close_range(r, address, e);
		if (!err)
			err = open_range(r, o->node, address, e);
		if (err)
			return err;
		range = &r->out->ranges[o->range];
	}
	range->file = path;
	range->has_file = true;
	return add_line(r, address, row->line, e);
}

/* The lines of code that is of the deepest range. */
static enum err add_rows(struct records *r, uint64_t start, uint64_t end, struct error *e)
{
	const struct line_table *t = r->lines;
	enum err err = ERR_OK;
	while (start < end && !err) {
		if (records_seek(r, start)) {
			const struct line_row *row = &t->rows[r->row];
			err = add_row(r, start, row, e);
			start = row->end;
		} else {
			err = add_line(r, start, 0, e);
			start = r->row < t->row_count ? t->rows[r->row].start : end;
		}
	}
	return err;
}

enum err records_add_code(struct records *r, uint64_t start, uint64_t end, struct error *e)
{
	struct result *out = r->out;
	const struct result_piece p = {start, end, out->range_count, out->pad_count};
	return array_append(&out->pieces, &out->piece_cap, &out->piece_count, &p, sizeof p) ? ERR_OK : no_memory(e);
}

enum err records_add_ranges(struct records *r, const struct segments *s, struct error *e)
{
	uint64_t end = 0;
	enum err err = ERR_OK;
	r->open_count = 0;
	r->row = s->count > 0 ? line_table_find(r->lines, s->items[0].start) : 0;
	for (size_t i = 0; i < s->count && !err; i++) {
		const struct segment *now = &s->items[i];
		if (i == 0 || now->start != end) {
			err = close_ranges(r, 0, end, e);
			if (!err)
				err = records_add_code(r, now->start, now->end, e);
		}
		end = now->end;
		if (!err)
			err = open_chain(r, now->node, now->start, e);
		if (!err)
			err = add_rows(r, now->start, end, e);
		if (!err)
			r->out->pieces[r->out->piece_count - 1].end = end;
	}
	return err ? err : close_ranges(r, 0, end, e);
}

void records_release(struct records *r)
{
	for (size_t i = 0; i <= INLINE_DEPTH_MAX; i++)
		free(r->open[i].lines);
	memset(r->open, 0, sizeof r->open);
	map64_release(&r->copies);
}
