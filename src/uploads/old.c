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
	bool good = str_number(str_cut(&text, '.'), SET_PARTS_MAX, &number);
	p->part = (unsigned)number;
	p->is_time = text.len > 0;
	if (good && p->is_time) {
		good = str_number(text, INT64_MAX, &time) && time > 0;
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
	        !str_number(parts, SET_PARTS_MAX, &count) || !parse_part(p, part))
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

/* A set, or a generation of one: its parts are adjacent once the listing is sorted, as are the generations of a set,
 * oldest first. */
struct candidate {
	const struct old_part *first;
	unsigned count;
	int64_t time; /* of its oldest part */
	bool told;    /* time is one that was stored with a part */
	bool whole;   /* older generations have the parts before its first, and it has all others */
};

static struct candidate candidate_at(const struct old_part *first, const struct old_part *end)
{
	struct candidate c = {.first = first, .time = first->time, .told = first->told};
	for (const struct old_part *p = first; p < end && set_order(first, p) == 0; p++, c.count++)
		if (p->told != c.told ? p->told : p->time < c.time) {
			c.time = p->time;
			c.told = p->told;
		}
	return c;
}

/* If two sets have the same time, every host must pick the same one: the later in the order. */
static bool is_better(const struct candidate *c, const struct old_set *than)
{
	bool whole = than->have_count == than->parts;
	if (!than->parts || c->whole != whole)
		return !than->parts || c->whole;
	return c->told != than->told ? c->told : c->time >= than->time;
}

/* older: by number, the parts of older generations. False if out of memory. */
static bool take_candidate(struct old_set *set, const struct candidate *c, const struct old_part **older)
{
	unsigned before = c->whole ? c->first->part : 0;
	const struct old_part **have = realloc(set->have, (before + c->count) * sizeof *have);
	if (!have)
		return false;
	memcpy(have, older, before * sizeof *have);
	for (unsigned i = 0; i < c->count; i++)
		have[before + i] = &c->first[i];
	*set = (struct old_set){.parts = c->first->parts,
	        .have = have,
	        .have_count = before + c->count,
	        .time = c->time,
	        .told = c->told};
	memcpy(set->set, c->first->set, sizeof set->set);
	return true;
}

/* Goes through the sets and their generations in order. */
static bool choose(struct old_set sets[SYMBFILE_KINDS], const struct listing *l, const struct old_part **older)
{
	const struct old_part *oldest = l->parts, *end = l->parts + l->count; /* of the set's generations */
	unsigned all_before = 0;                                              /* older has all parts before this one */
	struct candidate c;
	for (const struct old_part *p = l->parts; p < end; p += c.count) {
		for (; oldest < p && base_order(oldest, p) != 0; oldest++, all_before = 0)
			older[oldest->part] = NULL;
		c = candidate_at(p, end);
		c.whole = c.count == p->parts - p->part && all_before >= p->part;
		if (is_better(&c, &sets[p->kind]) && !take_candidate(&sets[p->kind], &c, older))
			return false;
		for (unsigned i = 0; i < c.count; i++)
			older[p[i].part] = &p[i];
		while (older[all_before])
			all_before++;
	}
	return true;
}

bool old_sets(struct old_set sets[SYMBFILE_KINDS], struct old_part *parts, size_t count)
{
	struct listing l = {parts, count, 0};
	memset(sets, 0, SYMBFILE_KINDS * sizeof *sets);
	if (!count)
		return true;
	const struct old_part **older = calloc(SET_PARTS_MAX + 1, sizeof *older);
	qsort(parts, count, sizeof *parts, part_order);
	take_times(&l);
	bool good = older && choose(sets, &l, older);
	free(older);
	for (unsigned i = 0; i < SYMBFILE_KINDS && !good; i++)
		free(sets[i].have);
	return good;
}
