/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FUNC is cut at addresses of its own records: one is looked at every 512 bytes of text, or all of them if it has
 * more than 50 times what a page may read, or more addresses than a page can have.
 */
#include <config.h>

#include "sym/cuts.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "map/flat.h"

enum {
	/* a fraction and a multiple of page_text, see above */
	STRIDE_PART = 40,
	EXACT_PAGES = 50,
};

static bool reserve(struct cut_finder *f, void *array, uint32_t *cap, size_t need)
{
	return need <= *cap || (array_enlarge(array, cap, need, sizeof(uint64_t)) && (!f->grown || f->grown(f->arg)));
}

static bool is_vast(const struct symindex_symbol *s)
{
	return s->size > UINT32_MAX;
}

bool cuts_are_needed(const struct cut_finder *f, const struct symindex_symbol *s)
{
	return symindex_text_of(s) > f->page_text || is_vast(s);
}

static bool add_event(struct cut_finder *f, const struct symindex_symbol *s, uint64_t within)
{
	if (!within || within >= s->size)
		return true;
	if (!reserve(f, &f->events, &f->events_cap, f->event_count + (size_t)1))
		return false;
	f->events[f->event_count++] = s->addr + within;
	return true;
}

static bool add_events(struct cut_finder *f, const struct symindex_symbol *s, uint64_t addr, uint64_t size)
{
	uint64_t start, end;
	return !clip_to_function(s->addr, s->size, addr, size, &start, &end) ||
	       (add_event(f, s, start) && add_event(f, s, end));
}

static bool find_events(struct cut_finder *f, const struct symtext *text, const struct symindex_symbol *s)
{
	struct symrecords *r = &f->records;
	bool all = is_vast(s) || symindex_text_of(s) > EXACT_PAGES * f->page_text;
	enum record_kind kind;
	f->event_count = 0;
	if (!symrecords_begin(r, text, s))
		return false;
	while ((kind = symrecords_next(r))) {
		if (kind == RECORD_FAILED || (kind == RECORD_LINE && !add_events(f, s, r->addr, r->size)))
			return false;
		for (uint32_t i = 0; kind == RECORD_INLINE && i < r->range_count; i += 2)
			if (!add_events(f, s, r->ranges[i], r->ranges[i + 1]))
				return false;
		if (!all && !symrecords_skip(r, f->page_text / STRIDE_PART))
			return false;
	}
	if (f->event_count)
		qsort(f->events, f->event_count, sizeof *f->events, search_order);
	return true;
}

bool cuts_find(struct cut_finder *f, const struct symtext *text, const struct symindex_symbol *s)
{
	if (!find_events(f, text, s))
		return false;
	uint64_t pages = symindex_text_of(s) / f->page_text + 1, last = s->addr, share = f->event_count / pages + 1,
	         passed = 0;
	for (uint32_t i = 0; i < f->event_count; i++) {
		uint64_t event = f->events[i];
		if (event == last || (++passed < share && event - last <= UINT32_MAX))
			continue;
		if (!reserve(f, &f->cuts, &f->cap, f->count + (size_t)1))
			return false;
		f->cuts[f->count++] = last = event;
		passed = 0;
	}
	return true;
}

void cuts_release(struct cut_finder *f)
{
	symrecords_release(&f->records);
	free(f->events);
	free(f->cuts);
	*f = (struct cut_finder){0};
}

uint64_t cuts_bytes(const struct cut_finder *f)
{
	return symrecords_bytes(&f->records) + (f->cap + (uint64_t)f->events_cap) * sizeof(uint64_t);
}

/* ---- known cuts ---- */

void known_cuts_release(struct known_cuts *k)
{
	cuts_release(&k->finder);
	free(k->funcs);
	*k = (struct known_cuts){0};
}

void known_cuts_add(struct known_cuts *k, const struct symtext *text, const struct symindex_symbol *s)
{
	uint32_t first = k->finder.count;
	if (cuts_find(&k->finder, text, s) && array_reserve(&k->funcs, &k->cap, k->count + (size_t)1, sizeof *k->funcs))
		k->funcs[k->count++] = (struct known_cut){s->place, first, k->finder.count - first};
	else
		k->finder.count = first;
}

const struct known_cut *known_cuts_of(const struct known_cuts *k, const struct symindex_symbol *s)
{
	size_t n = search_up_to(k->funcs, k->count, sizeof *k->funcs, offsetof(struct known_cut, place), s->place);
	return n && k->funcs[n - 1].place == s->place ? &k->funcs[n - 1] : NULL;
}

uint64_t known_cuts_bytes(const struct known_cuts *k)
{
	return cuts_bytes(&k->finder) + k->cap * (uint64_t)sizeof *k->funcs;
}
