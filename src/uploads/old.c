/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/old.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

/* Parses PART, or PART.TIME. */
static bool parse_part(struct old_part *p, struct str text)
{
	uint64_t number, time;
	bool good = layout_parse_number(str_cut(&text, '.'), SET_PARTS_MAX, &number);
	p->part = (unsigned)number;
	p->is_time = text.len > 0;
	if (good && p->is_time) {
		good = layout_parse_number(text, INT64_MAX, &time) && time > 0;
		p->time = (int64_t)time;
	}
	return good;
}

bool old_part_parse(struct old_part *p, struct str path)
{
	struct str kind, set, parts, part;
	uint64_t count;
	if (!layout_segment(&path, &kind) || !layout_segment(&path, &set) || !layout_segment(&path, &parts) ||
	        !layout_segment(&path, &part) || path.len > 0 || part.data[part.len - 1] == '.')
		return false;
	if (!layout_parse_kind(kind, &p->kind) || !set_name_is_stored(set) ||
	        !layout_parse_number(parts, SET_PARTS_MAX, &count) || !parse_part(p, part))
		return false;
	memcpy(p->set, set.data, set.len);
	p->set[set.len] = 0;
	p->parts = (unsigned)count;
	return p->part < p->parts;
}

void old_part_path(char out[STORE_PATH_MAX], const struct old_part *p)
{
	snprintf(out, STORE_PATH_MAX, "%s/%s/%u/%u", symbfile_kind_names[p->kind], p->set, p->parts, p->part);
}

/* ---- sets ---- */

struct listing {
	struct old_part *parts;
	size_t count;
	size_t times; /* number of objects that hold times, after the parts */
};

/* The parts of one set, which are adjacent once the listing is sorted, as are the generations of a set, oldest first.
 */
struct candidate {
	const struct old_part *first;
	size_t count;
	int64_t time;                  /* of its oldest part */
	bool told;                     /* time is one that was stored with a part */
	const struct old_part *oldest; /* the first part of the set's first generation */
	bool whole;
};

/* The number of a generation, 0 if the set has none; base becomes the length of the name before it. */
static unsigned generation_of(const char *set, size_t *base)
{
	const char *mark = strchr(set, SET_OURS);
	*base = mark ? (size_t)(mark - set) : strlen(set);
	return mark ? (unsigned)strtoul(mark + 1, NULL, 10) : 0;
}

/* The same name with another number of parts is another set. */
static int base_order(const struct old_part *a, const struct old_part *b)
{
	size_t a_len, b_len;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	generation_of(a->set, &a_len);
	generation_of(b->set, &b_len);
	int order = memcmp(a->set, b->set, a_len < b_len ? a_len : b_len);
	order = order ? order : (a_len > b_len) - (a_len < b_len);
	return order ? order : (a->parts > b->parts) - (a->parts < b->parts);
}

static int set_order(const struct old_part *a, const struct old_part *b)
{
	size_t ignored;
	int order = base_order(a, b);
	unsigned x = generation_of(a->set, &ignored), y = generation_of(b->set, &ignored);
	order = order ? order : (x > y) - (x < y);
	return order ? order : strcmp(a->set, b->set);
}

static int place_order(const struct old_part *a, const struct old_part *b)
{
	int order = set_order(a, b);
	return order ? order : (a->part > b->part) - (a->part < b->part);
}

/* Parts first. */
static int part_order(const void *a, const void *b)
{
	const struct old_part *x = a, *y = b;
	int order = x->is_time != y->is_time ? x->is_time - y->is_time : place_order(x, y);
	return order ? order : (x->time > y->time) - (x->time < y->time);
}

/* The part to which time i belongs, searched from *at on; NULL if there is none. Call it for all times in turn, with
 * *at 0 at first. */
static struct old_part *part_of_time(const struct listing *l, size_t i, size_t *at)
{
	const struct old_part *time = &l->parts[l->count + i];
	while (*at < l->count && place_order(&l->parts[*at], time) < 0)
		++*at;
	return *at < l->count && place_order(&l->parts[*at], time) == 0 ? &l->parts[*at] : NULL;
}

/* Gives each part the newest time that was stored with it. */
static void take_times(struct listing *l)
{
	size_t at = 0;
	for (; l->count && l->parts[l->count - 1].is_time; l->times++)
		l->count--;
	for (size_t i = 0; i < l->times; i++) {
		struct old_part *part = part_of_time(l, i, &at);
		if (part) {
			part->time = l->parts[l->count + i].time;
			part->told = true;
		}
	}
}

/* For each part below `end`: the newest generation before c that has it, as 1 + its index counted from c->oldest; 0:
 * none. NULL if out of memory. */
static uint32_t *parts_before(const struct candidate *c, unsigned end)
{
	uint32_t *places = calloc(end + 1, sizeof *places);
	for (const struct old_part *p = c->oldest; places && p < c->first; p++)
		if (p->part < end)
			places[p->part] = (uint32_t)(p - c->oldest) + 1;
	return places;
}

/* Goes through the sets and generations of a listing in order. */
struct walk {
	const struct listing *l;
	size_t at; /* parts that were passed */
	struct candidate here;
	bool *older;          /* by part: an older generation of the set has it */
	unsigned older_first; /* older generations have all parts before this one */
};

/* False if out of memory. */
static bool walk_begin(struct walk *w, const struct listing *l)
{
	*w = (struct walk){.l = l, .older = calloc(SET_PARTS_MAX + 1, sizeof *w->older)};
	return w->older;
}

/* Passes w->here, which the next one follows. */
static void walk_past(struct walk *w, const struct old_part *next)
{
	struct candidate *c = &w->here;
	if (!c->first || base_order(c->first, next) != 0) {
		for (const struct old_part *p = c->oldest; p < c->first; p++)
			w->older[p->part] = false;
		w->older_first = 0;
		c->oldest = next;
		return;
	}
	for (size_t i = 0; i < c->count; i++)
		w->older[c->first[i].part] = true;
	while (w->older[w->older_first])
		w->older_first++;
}

/* The next one is in w->here. False at the end. */
static bool walk_next(struct walk *w)
{
	const struct listing *l = w->l;
	if (w->at == l->count)
		return false;
	const struct old_part *first = &l->parts[w->at];
	walk_past(w, first);
	struct candidate *c = &w->here;
	*c = (struct candidate){.first = first, .time = first->time, .told = first->told, .oldest = c->oldest};
	for (; w->at < l->count && set_order(first, &l->parts[w->at]) == 0; w->at++, c->count++) {
		const struct old_part *p = &l->parts[w->at];
		if (p->told != c->told ? p->told : p->time < c->time) {
			c->time = p->time;
			c->told = p->told;
		}
	}
	/* all parts, or those from some part to the last if older generations have the ones before */
	c->whole = c->count == first->parts - first->part && w->older_first >= first->part;
	return true;
}

/* If two sets have the same time, every host must pick the same one: the later in the order. */
static bool is_better(const struct candidate *c, const struct candidate *than)
{
	if (!than->first || c->whole != than->whole)
		return !than->first || c->whole;
	return c->told != than->told ? c->told : c->time >= than->time;
}

static bool take_candidate(struct old_set *set, const struct candidate *c)
{
	unsigned before = c->whole ? c->first->part : 0;
	uint32_t *places = before ? parts_before(c, before) : NULL;
	set->have = malloc((before + c->count) * sizeof(struct old_part *));
	if (!set->have || (before && !places)) {
		free(places);
		return false;
	}
	memcpy(set->set, c->first->set, sizeof set->set);
	set->parts = c->first->parts;
	set->time = c->time;
	set->told = c->told;
	set->have_count = (unsigned)(before + c->count);
	for (unsigned i = 0; i < set->have_count; i++)
		set->have[i] = i < before ? &c->oldest[places[i] - 1] : &c->first[i - before];
	free(places);
	return true;
}

bool old_sets(struct old_set sets[SYMBFILE_KINDS], struct old_part *parts, size_t count)
{
	struct listing l = {parts, count, 0};
	struct candidate best[SYMBFILE_KINDS] = {{.first = NULL}};
	struct walk w;
	memset(sets, 0, SYMBFILE_KINDS * sizeof *sets);
	if (!count)
		return true;
	qsort(parts, count, sizeof *parts, part_order);
	take_times(&l);
	if (!walk_begin(&w, &l))
		return false;
	while (walk_next(&w))
		if (is_better(&w.here, &best[w.here.first->kind]))
			best[w.here.first->kind] = w.here;
	free(w.older);
	bool good = true;
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++)
		good = (!best[i].first || take_candidate(&sets[i], &best[i])) && good;
	for (unsigned i = 0; i < SYMBFILE_KINDS && !good; i++)
		free(sets[i].have);
	return good;
}
