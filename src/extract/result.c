/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/result.h"

#include <stdlib.h>

#include "base/array.h"

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
	if (!array_reserve(&r->ranges, &r->range_cap, r->range_count + 1, sizeof *r->ranges))
		return NULL;
	r->ranges[r->range_count] = (struct symbfile_range){0};
	return &r->ranges[r->range_count++];
}

struct symbfile_pad *result_add_pad(struct result *r)
{
	if (!array_reserve(&r->pads, &r->pad_cap, r->pad_count + 1, sizeof *r->pads))
		return NULL;
	r->pads[r->pad_count] = (struct symbfile_pad){0};
	return &r->pads[r->pad_count++];
}

struct result_piece *result_add_piece(struct result *r)
{
	if (!array_reserve(&r->pieces, &r->piece_cap, r->piece_count + 1, sizeof *r->pieces))
		return NULL;
	r->pieces[r->piece_count] = (struct result_piece){0};
	return &r->pieces[r->piece_count++];
}

struct result_line *result_add_line(struct result *r)
{
	if (!array_reserve(&r->lines, &r->line_cap, r->line_count + 1, sizeof *r->lines))
		return NULL;
	r->lines[r->line_count] = (struct result_line){0};
	return &r->lines[r->line_count++];
}
