/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/go_records.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

enum { RESULT_BYTES = 1 << 20 }; /* when enough was read for one result */

enum err go_reader_open(struct go_reader *g, Elf *elf, const struct code_map *code, struct coverage *coverage,
        bool pads, struct error *e)
{
	*g = (struct go_reader){.pads = pads, .coverage = coverage};
	return go_table_open(&g->table, elf, code, e);
}

void go_reader_close(struct go_reader *g)
{
	go_table_release(&g->table);
	intern_release(&g->strings);
	map64_release(&g->names);
	map64_release(&g->files);
	free(g->known);
	line_table_release(&g->lines);
	functions_release(&g->functions);
	segments_release(&g->segments);
	records_release(&g->records);
	free(g->calls);
	free(g->nodes);
	*g = (struct go_reader){0};
}

/* ---- names and files, each interned once ---- */

static bool add_known(struct go_reader *g, struct str name)
{
	if (!array_reserve(&g->known, &g->known_cap, g->known_count + 1, sizeof *g->known) || !name.data)
		return false;
	g->known[g->known_count++] = name;
	return true;
}

static bool find_name(struct go_reader *g, uint32_t offset, struct str *name)
{
	uint64_t key = (uint64_t)offset + 1, at = map64_get(&g->names, key);
	if (at == 0) {
		if (!add_known(g, intern_add(&g->strings, go_table_name(&g->table, offset))) ||
		        !map64_put(&g->names, key, g->known_count))
			return false;
		at = g->known_count;
	}
	*name = g->known[at - 1];
	return true;
}

/* The number of a file in the line table; 0: there is none. */
static bool find_file(struct go_reader *g, const struct go_function *f, int32_t file, uint32_t *number)
{
	uint32_t offset;
	*number = 0;
	if (!go_table_file(&g->table, f->unit, file, &offset))
		return true;
	uint64_t key = (uint64_t)offset + 1;
	*number = (uint32_t)map64_get(&g->files, key);
	if (*number > 0)
		return true;
	struct line_table *t = &g->lines;
	struct str path = intern_add(&g->strings, go_table_path(&g->table, offset));
	if (!array_reserve(&t->files, &t->file_cap, t->file_count + 1, sizeof *t->files) || !path.data)
		return false;
	if (t->file_count == 0)
		t->files[t->file_count++] = (struct line_file){.name = {"", 0}}; /* no file; there is room for 16 */
	*number = (uint32_t)t->file_count;
	t->files[t->file_count++] = (struct line_file){.name = path, .path = path};
	return map64_put(&g->files, key, *number);
}

/* ---- lines ---- */

static bool add_row(struct go_reader *g, struct line_row row)
{
	struct line_table *t = &g->lines;
	if (!array_reserve(&t->rows, &t->row_cap, t->row_count + 1, sizeof *t->rows))
		return false;
	t->rows[t->row_count++] = row;
	return true;
}

/* Code of one line, cut where the file changes. *file is the stretch that its start is in, or an earlier one. */
static bool add_line(struct go_reader *g, const struct go_function *f, struct go_steps *files, struct go_step *file,
        const struct go_step *line)
{
	for (uint64_t at = line->start; at < line->end;) {
		while (file->end <= at && go_steps_next(files, file))
			;
		if (file->end <= at)
			return true;
		uint64_t end = file->end < line->end ? file->end : line->end;
		struct line_row row = {.start = at, .end = end, .line = line->value > 0 ? (uint32_t)line->value : 0};
		if (!find_file(g, f, file->value, &row.file) || !add_row(g, row))
			return false;
		at = end;
	}
	return true;
}

static bool read_lines(struct go_reader *g, const struct go_function *f)
{
	struct go_steps files = go_steps_of(&g->table, f, f->file_steps);
	struct go_steps lines = go_steps_of(&g->table, f, f->line_steps);
	struct go_step file = {f->start, f->start, -1}, line;
	g->lines.row_count = 0;
	while (go_steps_next(&lines, &line))
		if (!add_line(g, f, &files, &file, &line))
			return false;
	return true;
}

/* ---- inlined calls ---- */

static bool read_calls(struct go_reader *g, const struct go_function *f)
{
	struct go_steps s = go_steps_of(&g->table, f, f->call_steps);
	struct go_step step;
	g->call_count = 0;
	while (go_steps_next(&s, &step)) {
		if (!array_reserve(&g->calls, &g->call_cap, g->call_count + 1, sizeof *g->calls))
			return false;
		g->calls[g->call_count++] = step;
	}
	return true;
}

/* The call that code at address was inlined by; negative: none. */
static int32_t call_at(const struct go_reader *g, uint64_t address)
{
	size_t i = search_up_to(g->calls, g->call_count, sizeof *g->calls, offsetof(struct go_step, end), address);
	return address > 0 && i < g->call_count ? g->calls[i].value : -1;
}

static bool add_node(struct go_reader *g, struct code_node node)
{
	struct functions *f = &g->functions;
	if (!array_reserve(&f->nodes, &f->node_cap, f->node_count + 1, sizeof *f->nodes))
		return false;
	f->nodes[f->node_count++] = node;
	return true;
}

static bool add_call(struct go_reader *g, const struct go_call *call, uint32_t parent)
{
	struct code_node n = {.parent = parent, .depth = g->functions.nodes[parent].depth + 1, .call_path = {"", 0}};
	const struct line_table *t = &g->lines;
	size_t row = line_table_find(t, call->site);
	if (call->site > 0 && row < t->row_count && t->rows[row].start <= call->site && t->rows[row].file > 0) {
		n.call_line = t->rows[row].line;
		n.call_path = t->files[t->rows[row].file].path;
	}
	return find_name(g, call->name, &n.name) && add_node(g, n);
}

/* Makes room to remember the node of call i. There are at most as many calls as bytes that describe them. */
static bool reserve_nodes(struct go_reader *g, uint32_t i)
{
	uint32_t cap = g->node_cap;
	if (!array_reserve(&g->nodes, &g->node_cap, (size_t)i + 1, sizeof *g->nodes))
		return false;
	if (cap < g->node_cap)
		memset(g->nodes + cap, 0, (g->node_cap - cap) * sizeof *g->nodes);
	return true;
}

/* The node of call i, with those of its callers. A number that is no call stands for the function itself. A chain that
 * is too long or circular is cut. */
static bool find_node(struct go_reader *g, const struct go_function *f, int32_t i, uint32_t *node)
{
	uint32_t chain[INLINE_DEPTH_MAX];
	struct go_call calls[INLINE_DEPTH_MAX];
	size_t n = 0;
	*node = 0;
	for (; i >= 0 && n < INLINE_DEPTH_MAX; i = call_at(g, calls[n++].site)) {
		if (!go_table_call(&g->table, f, (uint32_t)i, &calls[n]))
			break;
		if (!reserve_nodes(g, (uint32_t)i))
			return false;
		if (g->nodes[i].mark == g->mark) {
			*node = g->nodes[i].node;
			break;
		}
		g->nodes[i] = (struct go_node){g->mark, 0};
		chain[n] = (uint32_t)i;
	}
	while (n-- > 0) {
		if (g->functions.nodes[*node].depth < INLINE_DEPTH_MAX) {
			if (!add_call(g, &calls[n], *node))
				return false;
			*node = (uint32_t)g->functions.node_count - 1;
		}
		g->nodes[chain[n]] = (struct go_node){g->mark, *node};
	}
	return true;
}

static bool add_segment(struct go_reader *g, uint64_t start, uint64_t end, uint32_t node)
{
	struct segments *s = &g->segments;
	if (start >= end)
		return true;
	if (s->count > 0 && s->items[s->count - 1].node == node && s->items[s->count - 1].end == start) {
		s->items[s->count - 1].end = end;
		return true;
	}
	if (!array_reserve(&s->items, &s->cap, s->count + 1, sizeof *s->items))
		return false;
	s->items[s->count++] = (struct segment){start, end, node};
	return true;
}

static bool make_segments(struct go_reader *g, const struct go_function *f)
{
	uint64_t at = f->start;
	uint32_t node;
	g->segments.count = 0;
	for (size_t i = 0; i < g->call_count; i++) {
		if (!find_node(g, f, g->calls[i].value, &node) || !add_segment(g, at, g->calls[i].end, node))
			return false;
		at = g->calls[i].end;
	}
	return add_segment(g, at, f->end, 0);
}

/* ---- records ---- */

static bool read_function(struct go_reader *g, const struct go_function *f)
{
	struct code_node node = {.parent = NO_NODE};
	g->functions.node_count = 0;
	if (++g->mark == 0) {
		memset(g->nodes, 0, g->node_cap * sizeof *g->nodes);
		g->mark = 1;
	}
	return find_name(g, f->name, &node.name) && add_node(g, node) && read_lines(g, f) && read_calls(g, f) &&
	       make_segments(g, f);
}

static enum err add_function(struct go_reader *g, const struct go_function *f, struct result *out, struct error *e)
{
	struct records *r = &g->records;
	size_t first = out->piece_count;
	if (!read_function(g, f))
		return no_memory(e);
	r->code = g->table.code;
	r->functions = &g->functions;
	r->lines = &g->lines;
	r->strings = &g->strings;
	r->out = out;
	enum err err = records_add_ranges(r, &g->segments, e);
	return !err && g->pads ? records_add_pads(r, &g->segments, first, e) : err;
}

enum err go_reader_read(struct go_reader *g, size_t *next, struct result *out, struct error *e)
{
	enum err err = ERR_OK;
	while (*next < g->table.count && !err && result_size(out) < RESULT_BYTES) {
		struct go_function f;
		if (go_table_function(&g->table, (*next)++, &f) &&
		        coverage_free(g->coverage, f.start, f.start + 1) == f.start)
			err = add_function(g, &f, out, e);
	}
	return err;
}
