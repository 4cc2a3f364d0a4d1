/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep over the index: lookup rules 1 to 3 of docs/sym-files.md. `open` holds the FUNCs that may still answer; the
 * one on top answers now.
 *
 * A page takes spans until their text reaches SYMSPANS_PAGE_TEXT bytes. A symbol that answers again after another one
 * counts again, but only once per page and for at most a fifth of SYMSPANS_PAGE_TEXT. So all pages together read a few
 * times the file's text, and one page reads at most SYMSPANS_PAGE_TEXT, as much again for five functions that end in
 * it, and one that goes on.
 *
 * A FUNC with more text than that is cut: see cuts.c.
 */
#include <config.h>

#include "sym/spans.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/background.h"
#include "base/search.h"
#include "map/flat.h"

enum {
	SPAN_TEXT = 32, /* what a span weighs in addition to its text */
	FEW_SPANS = 4,  /* more of one FUNC are noted */
	/* a fraction of SYMSPANS_PAGE_TEXT, see above */
	RETURN_PART = 5,
};

#define NO_SYMBOL UINT32_MAX

struct open_symbol {
	uint32_t symbol;
	uint32_t page;                 /* 1 + the last page that it is in; 0: none yet */
	const uint64_t *known;         /* its cuts, if they were known before */
	uint32_t first_cut, cut_count; /* else from there on in `cuts` */
	uint32_t spans;
};

struct symbol_sweep {
	const struct symindex *x;
	const struct symtext *text;
	struct symspans *out;
	struct open_symbol *open;
	uint32_t open_count, open_cap;
	struct cut_finder cuts; /* of the open symbols, one after the other */
	const struct known_cuts *known;
	struct open_symbol last_public; /* no FUNC has started after it */
	position cursor;
	uint64_t page_text, weight;              /* weight: of the open page */
	bool (*grow)(void *arg, uint64_t bytes); /* NULL: it may take what it needs */
	void *arg;
};

static uint64_t sweep_bytes(const struct symbol_sweep *w)
{
	return symspans_bytes(w->out) + w->open_cap * (uint64_t)sizeof *w->open + cuts_bytes(&w->cuts);
}

/* array_reserve for one of its arrays. */
static inline bool reserve(struct symbol_sweep *w, void *array, uint32_t *cap, size_t need, size_t size)
{
	return need <= *cap || (array_enlarge(array, cap, need, size) && (!w->grow || w->grow(w->arg, sweep_bytes(w))));
}

static const struct symindex_symbol *symbol_of(const struct symbol_sweep *w, const struct open_symbol *o)
{
	return &w->x->symbols[o->symbol];
}

static position end_of(const struct symindex_symbol *s)
{
	return (position)s->addr + s->size;
}

/* ---- large functions ---- */

static bool cuts_have_grown(void *arg)
{
	const struct symbol_sweep *w = arg;
	return !w->grow || w->grow(w->arg, sweep_bytes(w));
}

/* Chooses where pages begin within a FUNC. */
static bool find_cuts(struct symbol_sweep *w, struct open_symbol *o)
{
	const struct symindex_symbol *s = symbol_of(w, o);
	const struct known_cut *known;
	o->first_cut = w->cuts.count;
	if (!cuts_are_needed(&w->cuts, s))
		return true;
	if (w->known && (known = known_cuts_of(w->known, s))) {
		o->known = w->known->finder.cuts + known->first;
		o->cut_count = known->count;
	} else {
		if (!cuts_find(&w->cuts, w->text, s))
			return false;
		o->cut_count = w->cuts.count - o->first_cut;
	}
	return true;
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
	uint64_t text = symindex_text_of(symbol_of(w, o));
	if (!o->page)
		return SPAN_TEXT + (text < w->page_text ? text : w->page_text);
	if (o->page == w->out->page_count)
		return SPAN_TEXT;
	uint64_t most = w->page_text / RETURN_PART;
	return SPAN_TEXT + (text < most ? text : most);
}

/* Begins a page at each cut of a large function within one of its spans. */
static bool cut_span(struct symbol_sweep *w, const struct open_symbol *o, uint32_t span, position from, position stop)
{
	const uint64_t *cuts = o->known ? o->known : w->cuts.cuts + o->first_cut;
	size_t cut = search_up_to(cuts, o->cut_count, sizeof *cuts, 0, (uint64_t)from);
	for (; cut < o->cut_count && cuts[cut] < stop; cut++) {
		if (!begin_page(w, cuts[cut], span))
			return false;
		w->weight = w->page_text;
	}
	return true;
}

/* Adds a span: o answers from the cursor up to `to`. */
static bool emit_span(struct symbol_sweep *w, struct open_symbol *o, position to)
{
	struct symspans *out = w->out;
	const struct symindex_symbol *s = symbol_of(w, o);
	position from = w->cursor, end = end_of(s), stop = end < to ? end : to;
	uint32_t span = out->count;
	if (!reserve(w, &out->starts, &out->starts_cap, span + 1, sizeof *out->starts) ||
	        !reserve(w, &out->symbols, &out->symbols_cap, span + 1, sizeof *out->symbols))
		return false;
	out->starts[span] = (uint64_t)from;
	out->symbols[span] = o->symbol | (o->page ? 0 : SYMSPAN_FIRST);
	out->count++;
	/* the last address where one of its pieces may start */
	position last = to > end && end > from ? end : stop > from ? stop - 1 : from;
	if (!out->page_count || w->weight + weigh(w, o) > w->page_text || last - page_first(w) > UINT32_MAX)
		if (!begin_page(w, (uint64_t)from, span))
			return false;
	w->weight += weigh(w, o);
	if (o->cut_count && !cut_span(w, o, span, from, stop))
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
	w->cuts.count = top->first_cut;
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

/* Whether the symbol has a line record, at any address. */
static bool has_lines(struct symbol_sweep *w, const struct symindex_symbol *s, bool *has)
{
	struct symrecords *records = &w->cuts.records;
	enum record_kind kind;
	*has = false;
	if (!symrecords_begin(records, w->text, s))
		return false;
	while ((kind = symrecords_next(records)) == RECORD_INLINE)
		;
	*has = kind == RECORD_LINE;
	return kind != RECORD_FAILED;
}

/* Whether it may answer where the better symbols of its address, whose longest has `covered` bytes, do not. */
static bool is_longer(const struct symbol_sweep *w, const struct symindex_symbol *s, uint32_t kept, uint64_t covered)
{
	if (s->is_public)
		return false;
	return w->out->nearest ? !kept : s->size > covered;
}

static bool push_symbol(struct symbol_sweep *w, uint32_t symbol)
{
	if (!reserve(w, &w->open, &w->open_cap, w->open_count + 1, sizeof *w->open))
		return false;
	w->open[w->open_count++] = (struct open_symbol){.symbol = symbol};
	return true;
}

/* Pushes the FUNCs of symbols [first, end), which start at one address, worst first: FUNCs with lines are better than
 * those without; within each group the first in the file is best. */
static bool push_group(struct symbol_sweep *w, uint32_t first, uint32_t end, uint32_t funcs)
{
	const struct symindex_symbol *all = w->x->symbols;
	uint32_t base = w->open_count, with_lines, next = base;
	uint64_t covered = 0;
	for (uint32_t i = first; i < end && funcs > 1; i++) {
		bool lines;
		if (!is_longer(w, &all[i], w->open_count - base, covered))
			continue;
		if (!has_lines(w, &all[i], &lines))
			return false;
		if (lines && !push_symbol(w, i))
			return false;
		if (lines)
			covered = all[i].size;
	}
	with_lines = w->open_count;
	for (uint32_t i = first; i < end; i++) {
		if (next < with_lines && w->open[next].symbol == i) {
			next++;
			continue;
		}
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
	for (uint32_t i = base; i < w->open_count; i++)
		if (!find_cuts(w, &w->open[i]))
			return false;
	return true;
}

static bool sweep_group(struct symbol_sweep *w, uint32_t first, uint32_t end)
{
	const struct symindex_symbol *all = w->x->symbols;
	uint32_t first_public = NO_SYMBOL, funcs = 0;
	if (!advance_to(w, all[first].addr))
		return false;
	w->cursor = all[first].addr;
	/* Also pop one that ends where these start; otherwise functions without gaps between them would all stay open.
	 */
	while (w->open_count && (w->out->nearest || end_of(symbol_of(w, &w->open[w->open_count - 1])) <= w->cursor))
		if (!pop_symbol(w))
			return false;
	for (uint32_t i = first; i < end; i++) {
		funcs += !all[i].is_public && symspan_may_answer(&all[i], w->out->nearest);
		if (all[i].is_public && first_public == NO_SYMBOL)
			first_public = i;
	}
	w->last_public = (struct open_symbol){.symbol = funcs ? NO_SYMBOL : first_public};
	return push_group(w, first, end, funcs);
}

static bool sweep_symbols(struct symbol_sweep *w)
{
	const struct symindex_symbol *all = w->x->symbols;
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

struct symspans *symspans_new(const struct symindex *x, const struct symtext *text, bool nearest, uint32_t page_text,
        const struct known_cuts *known, bool (*grow)(void *arg, uint64_t bytes), void *arg)
{
	struct symbol_sweep w = {.x = x,
	        .text = text,
	        .known = known,
	        .grow = grow,
	        .arg = arg,
	        .page_text = page_text ? page_text : SYMSPANS_PAGE_TEXT,
	        .last_public = {.symbol = NO_SYMBOL}};
	w.out = calloc(1, sizeof *w.out);
	if (!w.out)
		return NULL;
	w.cuts = (struct cut_finder){.page_text = w.page_text, .grown = cuts_have_grown, .arg = &w};
	w.out->nearest = nearest;
	bool ok = sweep_symbols(&w);
	free(w.open);
	cuts_release(&w.cuts);
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
