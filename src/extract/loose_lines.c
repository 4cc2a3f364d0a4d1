/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of code that no entry of a unit describes. */
#include <config.h>

#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "extract/records.h"

struct span {
	uint64_t start, end;
};

static struct span *sorted_pieces(const struct result *r)
{
	struct span *spans = malloc((r->piece_count + 1) * sizeof *spans);
	if (!spans)
		return NULL;
	for (size_t i = 0; i < r->piece_count; i++)
		spans[i] = (struct span){r->pieces[i].start, r->pieces[i].end};
	qsort(spans, r->piece_count, sizeof *spans, search_order);
	return spans;
}

struct line_walk {
	struct result *r;
	struct line_table *t;
	struct intern *strings;
	struct span *spans; /* the pieces by address */
	size_t next;        /* the first span that begins after the sweep's position */
	uint64_t covered;   /* where those before it end */
};

static bool add_row(struct line_walk *w, const struct line_row *row, uint64_t start, uint64_t end)
{
	struct str path = line_table_path(w->t, row->file, w->strings);
	if (path.data && path.len == 0)
		return true;
	const struct result_line line = {start, end, path, row->line};
	return path.data && array_append(&w->r->lines, &w->r->line_cap, &w->r->line_count, &line, sizeof line);
}

static bool sweep_row(struct line_walk *w, const struct line_row *row)
{
	size_t count = w->r->piece_count;
	bool ok = true;
	for (uint64_t at = row->start, end; at < row->end && ok; at = end) {
		for (; w->next < count && w->spans[w->next].start <= at; w->next++)
			if (w->spans[w->next].end > w->covered)
				w->covered = w->spans[w->next].end;
		end = w->next < count && w->spans[w->next].start < row->end ? w->spans[w->next].start : row->end;
		if (w->covered > at)
			end = w->covered;
		else
			ok = add_row(w, row, at, end);
	}
	return ok;
}

/* A thunk may share the row of the function before it. So a row that extends past a function also counts, up to the
 * next function. Usually that part is padding without a symbol. */
enum err loose_lines_collect(struct result *r, struct line_table *t, struct intern *strings, struct error *e)
{
	struct line_walk w = {.r = r, .t = t, .strings = strings, .spans = sorted_pieces(r)};
	bool ok = w.spans != NULL;
	for (size_t i = 0; i < t->row_count && ok; i++)
		ok = sweep_row(&w, &t->rows[i]);
	free(w.spans);
	return ok ? ERR_OK : no_memory(e);
}
