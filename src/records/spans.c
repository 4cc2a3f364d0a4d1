/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep over the symbols: lookup rules 1 to 3 of docs/sym-files.md. `open` holds the FUNCs that may still answer;
 * the one on top answers now.
 *
 * A page takes spans until their text reaches RECORDS_PAGE_TEXT bytes. A symbol that answers again after another one
 * counts again, but only once per page and for at most a fifth of RECORDS_PAGE_TEXT. So all pages together read a few
 * times the file's text, and one page reads at most RECORDS_PAGE_TEXT, as much again for five functions that end in
 * it, and one that goes on.
 *
 * A FUNC with more text than that is cut: see records.c.
 */
#include <config.h>

#include "records/spans.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/background.h"
#include "base/search.h"
#include "map/flat.h"

enum {
	SPAN_TEXT = 32, /* what a span weighs in addition to its text */
	FEW_SPANS = 4,  /* more of one FUNC are noted */
	/* a fraction of RECORDS_PAGE_TEXT, see above */
	RETURN_PART = 5,
};

#define NO_SYMBOL UINT32_MAX

struct open_symbol {
	uint32_t symbol;
	uint32_t page; /* 1 + the last page that it is in; 0: none yet */
	uint32_t spans;
	const struct record_cuts *cuts; /* NULL: none */
};

struct symbol_sweep {
	const struct records *x;
	struct symspans *out;
	struct open_symbol *open;
	uint32_t open_count, open_cap;
	struct open_symbol last_public; /* no FUNC has started after it */
	position cursor;
	uint64_t weight; /* of the open page */
};

static uint64_t sweep_bytes(const struct symbol_sweep *w)
{
	return symspans_bytes(w->out) + w->open_cap * (uint64_t)sizeof *w->open;
}

/* array_reserve for one of its arrays. */
static inline bool reserve(struct symbol_sweep *w, void *array, uint32_t *cap, size_t need, size_t size)
{
	return need <= *cap || (array_enlarge(array, cap, need, size) && records_may_take(w->x, sweep_bytes(w)));
}

static const struct record_symbol *symbol_of(const struct symbol_sweep *w, const struct open_symbol *o)
{
	return &w->x->symbols[o->symbol];
}

static position end_of(const struct record_symbol *s)
{
	return (position)s->addr + s->size;
}

/* ---- spans and pages ---- */

static bool begin_page(struct symbol_sweep *w, uint64_t first, uint32_t span)
{
	struct symspans *out = w->out;
	background_give_way();
	if (!reserve(w, &out->page_first, &out->page_first_cap, out->page_count + 1, sizeof *out->page_first) ||
	        !reserve(w, &out->page_span, &out->page_span_cap, out->page_count + 1, sizeof *out->page_span))
		return false;
	out->page_first[out->page_count] = first;
	out->page_span[out->page_count++] = span;
	w->weight = 0;
	return true;
}

static uint64_t page_first(const struct symbol_sweep *w)
{
	return w->out->page_first[w->out->page_count - 1];
}

static uint64_t weigh(const struct symbol_sweep *w, const struct open_symbol *o)
{
	uint64_t text = symbol_of(w, o)->text;
	if (!o->page)
		return SPAN_TEXT + (text < w->x->page_text ? text : w->x->page_text);
	if (o->page == w->out->page_count)
		return SPAN_TEXT;
	uint64_t most = w->x->page_text / RETURN_PART;
	return SPAN_TEXT + (text < most ? text : most);
}

/* Begins a page at each cut of a large function within one of its spans. */
static bool cut_span(struct symbol_sweep *w, const struct open_symbol *o, uint32_t span, position from, position stop)
{
	const uint64_t *cuts = w->x->cuts + o->cuts->first;
	size_t cut = search_up_to(cuts, o->cuts->count, sizeof *cuts, 0, (uint64_t)from);
	for (; cut < o->cuts->count && cuts[cut] < stop; cut++) {
		if (!begin_page(w, cuts[cut], span))
			return false;
		w->weight = w->x->page_text;
	}
	return true;
}

/* Adds a span: o answers from the cursor up to `to`. */
static bool emit_span(struct symbol_sweep *w, struct open_symbol *o, position to)
{
	struct symspans *out = w->out;
	const struct record_symbol *s = symbol_of(w, o);
	position from = w->cursor, end = end_of(s), stop = end < to ? end : to;
	uint32_t span = out->count;
	if (!reserve(w, &out->starts, &out->starts_cap, span + 1, sizeof *out->starts) ||
	        !reserve(w, &out->symbols, &out->symbols_cap, span + 1, sizeof *out->symbols))
		return false;
	out->starts[span] = (uint64_t)from;
	out->symbols[span] = o->symbol;
	out->count++;
	/* the last address where one of its pieces may start */
	position last = to > end && end > from ? end : stop > from ? stop - 1 : from;
	if (!out->page_count || w->weight + weigh(w, o) > w->x->page_text || last - page_first(w) > UINT32_MAX)
		if (!begin_page(w, (uint64_t)from, span))
			return false;
	w->weight += weigh(w, o);
	if (o->cuts && !cut_span(w, o, span, from, stop))
		return false;
	if (to > end && end > from && end - page_first(w) > UINT32_MAX && !begin_page(w, (uint64_t)end, span))
		return false;
	o->page = out->page_count;
	o->spans++;
	w->cursor = to;
	return true;
}

static bool pop_symbol(struct symbol_sweep *w)
{
	struct symspans *out = w->out;
	const struct open_symbol *top = &w->open[--w->open_count];
	if (top->spans <= FEW_SPANS)
		return true;
	if (!reserve(w, &out->interrupted, &out->interrupted_cap, out->interrupted_count + 1, sizeof *out->interrupted))
		return false;
	out->interrupted[out->interrupted_count++] = (struct symspan_interrupted){top->symbol, top->spans};
	return true;
}

/* Adds spans from the cursor up to `to`, where the next symbol starts. */
static bool advance_to(struct symbol_sweep *w, position to)
{
	while (w->cursor < to) {
		struct open_symbol *top = w->open_count ? &w->open[w->open_count - 1] : NULL;
		position end = top ? end_of(symbol_of(w, top)) : 0;
		if (top && w->out->nearest) {
			if (!emit_span(w, top, to))
				return false;
		} else if (top && end > w->cursor) {
			if (!emit_span(w, top, end < to ? end : to))
				return false;
		} else if (top) {
			if (!pop_symbol(w))
				return false;
		} else if (w->last_public.symbol != NO_SYMBOL) {
			if (!emit_span(w, &w->last_public, to))
				return false;
		} else {
			w->cursor = to;
		}
	}
	return true;
}

/* ---- symbols of one address ---- */

/* Whether it may answer where the better symbols of its address, whose longest has `covered` bytes, do not. */
static bool is_longer(const struct symbol_sweep *w, const struct record_symbol *s, uint32_t kept, uint64_t covered)
{
	if (s->is_public)
		return false;
	return w->out->nearest ? !kept : s->size > covered;
}

static bool push_symbol(struct symbol_sweep *w, uint32_t symbol)
{
	if (!reserve(w, &w->open, &w->open_cap, w->open_count + 1, sizeof *w->open))
		return false;
	w->open[w->open_count++] =
	        (struct open_symbol){.symbol = symbol, .cuts = records_cuts_of(w->x, &w->x->symbols[symbol])};
	return true;
}

/* Pushes the FUNCs of symbols [first, end), which start at one address, worst first. */
static bool push_group(struct symbol_sweep *w, uint32_t first, uint32_t end)
{
	const struct record_symbol *all = w->x->symbols;
	uint32_t base = w->open_count;
	uint64_t covered = 0;
	for (uint32_t i = first; i < end; i++) {
		if (!is_longer(w, &all[i], w->open_count - base, covered))
			continue;
		if (!push_symbol(w, i))
			return false;
		covered = all[i].size;
	}
	for (uint32_t low = base, high = w->open_count; low + 1 < high; low++) {
		struct open_symbol swap = w->open[low];
		w->open[low] = w->open[--high];
		w->open[high] = swap;
	}
	return true;
}

static bool sweep_group(struct symbol_sweep *w, uint32_t first, uint32_t end)
{
	const struct record_symbol *all = w->x->symbols;
	uint32_t first_public = NO_SYMBOL;
	bool funcs = false;
	if (!advance_to(w, all[first].addr))
		return false;
	w->cursor = all[first].addr;
	/* Also pop one that ends where these start; otherwise functions without gaps between them would all stay open.
	 */
	while (w->open_count && (w->out->nearest || end_of(symbol_of(w, &w->open[w->open_count - 1])) <= w->cursor))
		if (!pop_symbol(w))
			return false;
	for (uint32_t i = first; i < end; i++) {
		funcs = funcs || (!all[i].is_public && symspan_may_answer(&all[i], w->out->nearest));
		if (all[i].is_public && first_public == NO_SYMBOL)
			first_public = i;
	}
	w->last_public = (struct open_symbol){.symbol = funcs ? NO_SYMBOL : first_public};
	return push_group(w, first, end);
}

static bool sweep_symbols(struct symbol_sweep *w)
{
	const struct record_symbol *all = w->x->symbols;
	for (uint32_t first = 0, end; first < w->x->symbol_count; first = end) {
		bool any = symspan_may_answer(&all[first], w->out->nearest);
		for (end = first + 1; end < w->x->symbol_count && all[end].addr == all[first].addr; end++)
			any = any || symspan_may_answer(&all[end], w->out->nearest);
		if (any && !sweep_group(w, first, end))
			return false;
	}
	if (!advance_to(w, ADDRESS_END))
		return false;
	while (w->open_count)
		if (!pop_symbol(w))
			return false;
	if (w->out->interrupted_count)
		qsort(w->out->interrupted, w->out->interrupted_count, sizeof *w->out->interrupted, search_order);
	return true;
}

struct symspans *symspans_new(const struct records *x, bool nearest)
{
	struct symbol_sweep w = {.x = x, .last_public = {.symbol = NO_SYMBOL}};
	w.out = calloc(1, sizeof *w.out);
	if (!w.out)
		return NULL;
	w.out->nearest = nearest;
	bool ok = sweep_symbols(&w);
	free(w.open);
	if (!ok) {
		symspans_free(w.out);
		return NULL;
	}
	return w.out;
}

void symspans_free(struct symspans *s)
{
	if (!s)
		return;
	free(s->starts);
	free(s->symbols);
	free(s->page_first);
	free(s->page_span);
	free(s->interrupted);
	free(s);
}

uint64_t symspans_of(const struct symspans *s, uint32_t symbol)
{
	size_t n = search_up_to(s->interrupted, s->interrupted_count, sizeof *s->interrupted,
	        offsetof(struct symspan_interrupted, symbol), symbol);
	return n && s->interrupted[n - 1].symbol == symbol ? s->interrupted[n - 1].spans : 1;
}

uint64_t symspans_bytes(const struct symspans *s)
{
	return sizeof *s + s->starts_cap * (uint64_t)sizeof *s->starts + s->symbols_cap * (uint64_t)sizeof *s->symbols +
	       s->page_first_cap * (uint64_t)sizeof *s->page_first + s->page_span_cap * (uint64_t)sizeof *s->page_span +
	       s->interrupted_cap * (uint64_t)sizeof *s->interrupted;
}
