/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/segments.h"

#include <stdlib.h>

#include "base/array.h"

/* Two calls of one caller do not share code, although compilers sometimes say so. Then the one that begins later
 * counts. Where it ends the other one goes on, with new records for all the calls inside it. */
enum { OVERLAPS_MAX = 64 };

struct node_walk {
	struct segments *s;
	struct code_node *nodes;
	uint64_t at; /* code before is done */
	unsigned overlaps;
};

static bool add_segment(struct node_walk *w, uint64_t end)
{
	struct segments *s = w->s;
	const struct segment segment = {w->at, end, s->open[s->open_count - 1].node};
	if (end <= w->at)
		return true;
	w->at = end;
	return array_append(&s->items, &s->cap, &s->count, &segment, sizeof segment);
}

/* Closes what ends at or before address. */
static bool close_until(struct node_walk *w, uint64_t address)
{
	struct segments *s = w->s;
	while (s->open_count > 0 && s->open[s->open_count - 1].end <= address) {
		if (!add_segment(w, s->open[s->open_count - 1].end))
			return false;
		s->open_count--;
	}
	return true;
}

static bool open_piece(struct node_walk *w, struct code_piece p)
{
	struct segments *s = w->s;
	const struct open_piece open = {p.end, p.node};
	if (s->open_count > 0 && !add_segment(w, p.start))
		return false;
	w->at = p.start;
	w->nodes[p.node].active_end = p.end;
	return array_append(&s->open, &s->open_cap, &s->open_count, &open, sizeof open);
}

static bool add_function(struct node_walk *w, struct code_piece p)
{
	struct segments *s = w->s;
	if (s->open_count == 0)
		return open_piece(w, p);
	/* It overlaps the piece before: one piece. */
	if (p.end > s->open[0].end)
		s->open[0].end = w->nodes[p.node].active_end = p.end;
	return true;
}

static bool add_call(struct node_walk *w, struct code_piece p)
{
	struct segments *s = w->s;
	if (s->open_count == 0)
		return true;
	uint32_t caller = w->nodes[p.node].parent;
	while (w->nodes[caller].active_end <= p.start)
		caller = w->nodes[caller].parent;
	if (p.end > w->nodes[caller].active_end)
		p.end = w->nodes[caller].active_end;
	if (s->open[s->open_count - 1].node != caller && ++w->overlaps > OVERLAPS_MAX)
		return true;
	return open_piece(w, p);
}

bool segments_make(struct segments *s, struct code_node *nodes, const struct code_piece *pieces, size_t count)
{
	struct node_walk w = {.s = s, .nodes = nodes};
	s->count = s->open_count = 0;
	for (size_t i = 0; i < count; i++) {
		bool is_function = nodes[pieces[i].node].parent == NO_NODE;
		if (!close_until(&w, pieces[i].start))
			return false;
		if (!(is_function ? add_function(&w, pieces[i]) : add_call(&w, pieces[i])))
			return false;
	}
	return close_until(&w, UINT64_MAX);
}

void segments_release(struct segments *s)
{
	free(s->items);
	free(s->open);
	*s = (struct segments){0};
}
