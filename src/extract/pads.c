/* SPDX-License-Identifier: Apache-2.0 */
/* Makes return pads of the call instructions of a unit, with the frames of each. */
#include <config.h>

#include "base/array.h"
#include "extract/calls.h"
#include "extract/records.h"

/* A place in the code that goes forward only. */
struct place {
	const struct segment *segment, *end;
};

/* The frames at an address of the segment, the innermost last. */
static enum err fill_frames(struct records *r, uint64_t address, uint32_t node, struct symbfile_frame *frames,
        size_t count, struct error *e)
{
	struct symbfile_frame inner = {.file = {"", 0}};
	if (records_seek(r, address)) {
		const struct line_row *row = &r->lines->rows[r->row];
		struct str path = line_table_path(r->lines, row->file, r->strings);
		if (!path.data)
			return no_memory(e);
		inner.file = path;
		inner.line = path.len > 0 ? row->line : 0;
	}
	for (size_t i = count; i-- > 0;) {
		enum err err = records_name(r, node, e);
		if (err)
			return err;
		const struct code_node *n = &r->functions->nodes[node];
		frames[i] = (struct symbfile_frame){n->name, inner.file, inner.line};
		inner.file = n->call_path;
		inner.line = n->call_path.len > 0 ? n->call_line : 0;
		node = n->parent;
	}
	return ERR_OK;
}

static enum err add_pad(struct records *r, struct place *p, uint64_t call, uint64_t next, struct error *e)
{
	while (p->segment < p->end && p->segment->end <= call)
		p->segment++;
	if (p->segment == p->end || p->segment->start > call)
		return ERR_OK;
	uint32_t node = p->segment->node;
	size_t count = r->functions->nodes[node].depth + 1;
	struct symbfile_frame *frames = arena_alloc(&r->out->arena, count * sizeof *frames);
	const struct symbfile_pad pad = {next - 1, frames, count};
	if (!frames || !array_append(&r->out->pads, &r->out->pad_cap, &r->out->pad_count, &pad, sizeof pad))
		return no_memory(e);
	return fill_frames(r, call, node, frames, count, e);
}

/* Code of one section. */
static enum err add_pads(
        struct records *r, struct place *p, uint64_t at, const uint8_t *bytes, size_t len, struct error *e)
{
	struct call_cursor c = {r->code->machine, bytes, len, 0};
	enum err err = ERR_OK;
	for (size_t start, next; !err && call_next(&c, &start, &next);)
		err = add_pad(r, p, at + start, at + next, e);
	return err;
}

static enum err add_piece(struct records *r, struct place *p, const struct result_piece *piece, struct error *e)
{
	const struct code_section *s;
	enum err err = ERR_OK;
	for (uint64_t at = piece->start; at < piece->end && !err; at = s->end) {
		s = code_map_find(r->code, at);
		if (!s)
			return ERR_OK;
		uint64_t end = piece->end < s->end ? piece->end : s->end;
		if (s->bytes)
			err = add_pads(r, p, at, s->bytes + (at - s->start), (size_t)(end - at), e);
	}
	return err;
}

enum err records_add_pads(struct records *r, const struct segments *s, size_t first, struct error *e)
{
	struct place p = {s->items, s->items + s->count};
	enum err err = ERR_OK;
	r->row = s->count > 0 ? line_table_find(r->lines, s->items[0].start) : 0;
	for (size_t i = first; i < r->out->piece_count && !err; i++) {
		r->out->pieces[i].first_pad = r->out->pad_count;
		err = add_piece(r, &p, &r->out->pieces[i], e);
	}
	return err;
}
