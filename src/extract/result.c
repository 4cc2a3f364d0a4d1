/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/result.h"

#include <stdlib.h>

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
