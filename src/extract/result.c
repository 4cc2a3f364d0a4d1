/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/result.h"

#include <stdlib.h>

#include "base/grow.h"

struct result *result_new(void)
{
	struct result *r = calloc(1, sizeof *r);
	if (r)
		arena_init(&r->arena, SIZE_MAX);
	return r;
}

void result_free(struct result *r)
{
	if (!r)
		return;
	arena_release(&r->arena);
	free(r->ranges);
	free(r->pads);
	free(r->pieces);
	free(r->lines);
	free(r);
}

size_t result_size(const struct result *r)
{
	return r->arena.used + r->range_cap * sizeof *r->ranges + r->pad_cap * sizeof *r->pads +
	       r->piece_cap * sizeof *r->pieces + r->line_cap * sizeof *r->lines;
}

struct symbfile_range *result_add_range(struct result *r)
{
	struct symbfile_range *ranges = grown(r->ranges, &r->range_cap, r->range_count, sizeof *ranges);
	if (!ranges)
		return NULL;
	r->ranges = ranges;
	ranges[r->range_count] = (struct symbfile_range){0};
	return &ranges[r->range_count++];
}

struct symbfile_pad *result_add_pad(struct result *r)
{
	struct symbfile_pad *pads = grown(r->pads, &r->pad_cap, r->pad_count, sizeof *pads);
	if (!pads)
		return NULL;
	r->pads = pads;
	pads[r->pad_count] = (struct symbfile_pad){0};
	return &pads[r->pad_count++];
}

struct result_piece *result_add_piece(struct result *r)
{
	struct result_piece *pieces = grown(r->pieces, &r->piece_cap, r->piece_count, sizeof *pieces);
	if (!pieces)
		return NULL;
	r->pieces = pieces;
	pieces[r->piece_count] = (struct result_piece){0};
	return &pieces[r->piece_count++];
}

struct result_line *result_add_line(struct result *r)
{
	struct result_line *lines = grown(r->lines, &r->line_cap, r->line_count, sizeof *lines);
	if (!lines)
		return NULL;
	r->lines = lines;
	lines[r->line_count] = (struct result_line){0};
	return &lines[r->line_count++];
}
