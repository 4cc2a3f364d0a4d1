/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/sets.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

struct listing {
	struct store_part *parts;
	size_t count;
	size_t times; /* number of objects that hold times, after the parts */
	uint32_t cap;
	bool no_memory;
};

/* The parts of one set, which are adjacent once the listing is sorted, as are the generations of a set, oldest first.
 */
struct candidate {
	const struct store_part *first;
	size_t count;
	int64_t time;                    /* of its oldest part */
	bool told;                       /* time is one that was stored with a part */
	const struct store_part *oldest; /* the first part of the set's first generation */
	bool whole;
};

/* The number of a generation, 0 if the set has none; base becomes the length of the name before it. */
static unsigned generation_of(const char *set, size_t *base)
{
	const char *mark = strchr(set, STORE_SET_GENERATION);
	*base = mark ? (size_t)(mark - set) : strlen(set);
	return mark ? (unsigned)strtoul(mark + 1, NULL, 10) : 0;
}

static void print_generation(char name[STORE_SET_MAX + 1], unsigned parts, unsigned generation)
{
	if (generation)
		snprintf(name, STORE_SET_MAX + 1, "%u%c%u", parts, STORE_SET_GENERATION, generation);
	else
		snprintf(name, STORE_SET_MAX + 1, "%u", parts);
}

static bool found_part(void *arg, const struct store_part *part)
{
	struct listing *l = arg;
	l->no_memory = !array_reserve(&l->parts, &l->cap, l->count + 1, sizeof *l->parts);
	if (l->no_memory)
		return false;
	l->parts[l->count++] = *part;
	return true;
}

/* The same name with another number of parts is another set. */
static int base_order(const struct store_part *a, const struct store_part *b)
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

static int set_order(const struct store_part *a, const struct store_part *b)
{
	size_t ignored;
	int order = base_order(a, b);
	unsigned x = generation_of(a->set, &ignored), y = generation_of(b->set, &ignored);
	order = order ? order : (x > y) - (x < y);
	return order ? order : strcmp(a->set, b->set);
}

static int place_order(const struct store_part *a, const struct store_part *b)
{
	int order = set_order(a, b);
	return order ? order : (a->part > b->part) - (a->part < b->part);
}

/* Parts first. */
static int part_order(const void *a, const void *b)
{
	const struct store_part *x = a, *y = b;
	int order = x->is_time != y->is_time ? x->is_time - y->is_time : place_order(x, y);
	return order ? order : (x->time > y->time) - (x->time < y->time);
}

/* The part to which time i belongs, searched from *at on; NULL if there is none. Call it for all times in turn, with
 * *at 0 at first. */
static struct store_part *part_of_time(const struct listing *l, size_t i, size_t *at)
{
	const struct store_part *time = &l->parts[l->count + i];
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
		struct store_part *part = part_of_time(l, i, &at);
		if (part) {
			part->time = l->parts[l->count + i].time;
			part->told = true;
		}
	}
}

/* Sorted. On failure, too, l->parts is to be freed. */
static enum err list_parts(
        struct listing *l, struct store_client *c, const struct file_id *id, const atomic_bool *cancel, struct error *e)
{
	enum err err = store_list_with_times(c, id, found_part, l, cancel, e);
	if (!err && l->no_memory)
		return no_memory(e);
	if (err || !l->count)
		return err;
	qsort(l->parts, l->count, sizeof *l->parts, part_order);
	take_times(l);
	return ERR_OK;
}

/* For each part below `end`: the newest generation before c that has it, as 1 + its index counted from c->oldest; 0:
 * none. NULL if out of memory. */
static uint32_t *parts_before(const struct candidate *c, unsigned end)
{
	uint32_t *places = calloc(end + 1, sizeof *places);
	for (const struct store_part *p = c->oldest; places && p < c->first; p++)
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
	*w = (struct walk){.l = l, .older = calloc(STORE_PARTS_MAX + 1, sizeof *w->older)};
	return w->older;
}

/* Passes w->here, which the next one follows. */
static void walk_past(struct walk *w, const struct store_part *next)
{
	struct candidate *c = &w->here;
	if (!c->first || base_order(c->first, next) != 0) {
		for (const struct store_part *p = c->oldest; p < c->first; p++)
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
	const struct store_part *first = &l->parts[w->at];
	walk_past(w, first);
	struct candidate *c = &w->here;
	*c = (struct candidate){.first = first, .time = first->time, .told = first->told, .oldest = c->oldest};
	for (; w->at < l->count && set_order(first, &l->parts[w->at]) == 0; w->at++, c->count++) {
		const struct store_part *p = &l->parts[w->at];
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

static bool take_candidate(struct symbfile_set *set, const struct candidate *c)
{
	if (!c->first)
		return true;
	unsigned before = c->whole ? c->first->part : 0;
	uint32_t *places = before ? parts_before(c, before) : NULL;
	size_t ignored;
	set->have = malloc((before + c->count) * sizeof *set->have);
	set->generations = before ? malloc((before + c->count) * sizeof *set->generations) : NULL;
	if (!set->have || (before && (!places || !set->generations))) {
		free(places);
		return false;
	}
	memcpy(set->set, c->first->set, sizeof set->set);
	set->parts = c->first->parts;
	set->time = c->time;
	set->told = c->told;
	set->have_count = (unsigned)(before + c->count);
	for (unsigned i = 0; i < set->have_count; i++) {
		const struct store_part *p = i < before ? &c->oldest[places[i] - 1] : &c->first[i - before];
		set->have[i] = p->part;
		if (before)
			set->generations[i] = generation_of(p->set, &ignored);
	}
	free(places);
	return true;
}

struct store_key symbfile_set_key(const struct symbfile_set *set, const struct file_id *id, enum symbfile_kind kind,
        unsigned i, char name[STORE_SET_MAX + 1])
{
	if (set->generations)
		print_generation(name, set->parts, set->generations[i]);
	else
		memcpy(name, set->set, sizeof set->set);
	return (struct store_key){*id, kind, name, set->have[i], set->parts};
}

/* Parts and kinds come in a fixed order, and no set's name is a prefix of another's text here. */
static uint64_t hash_of(const struct candidate *c, uint64_t before)
{
	uint64_t hash = before;
	for (size_t i = 0; i < c->count; i++) {
		const struct store_part *p = &c->first[i];
		uint64_t numbers[] = {hash, p->part, p->parts, p->size, (uint64_t)p->time, (uint64_t)p->kind};
		hash = checksum(numbers, sizeof numbers, p->set, strlen(p->set));
	}
	return hash;
}

enum err symbfile_sets_get(struct symbfile_sets *sets, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e)
{
	struct listing l = {0};
	struct walk w = {0};
	struct candidate best[SYMBFILE_KINDS] = {{0}};
	memset(sets, 0, sizeof *sets);
	enum err err = list_parts(&l, c, id, cancel, e);
	l.no_memory = !err && !walk_begin(&w, &l);
	while (!err && !l.no_memory && walk_next(&w))
		if (is_better(&w.here, &best[w.here.first->kind]))
			best[w.here.first->kind] = w.here;
	free(w.older);
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++)
		sets->hash = hash_of(&best[i], sets->hash);
	for (unsigned i = 0; i < SYMBFILE_KINDS && !err; i++)
		l.no_memory = l.no_memory || !take_candidate(&sets->kinds[i], &best[i]);
	free(l.parts);
	if (l.no_memory)
		err = no_memory(e);
	if (err)
		symbfile_sets_release(sets);
	return err;
}

/* The best candidate of a kind that was not taken yet; taken, as used, is by places in the listing. False if out of
 * memory. */
static bool best_left(const struct listing *l, enum symbfile_kind kind, const bool *taken, struct candidate *best)
{
	struct walk w;
	*best = (struct candidate){0};
	if (!walk_begin(&w, l))
		return false;
	while (walk_next(&w))
		if (w.here.first->kind == kind && !taken[w.here.first - l->parts] && is_better(&w.here, best))
			*best = w.here;
	free(w.older);
	return true;
}

/* Its parts, those before them, and the newest of each number. */
static bool mark_used(const struct listing *l, const struct candidate *c, bool *used)
{
	const struct store_part *end = c->oldest;
	while (end < l->parts + l->count && base_order(end, c->first) == 0)
		end++;
	struct candidate all = {.first = end, .oldest = c->oldest};
	uint32_t *own = parts_before(c, c->first->part);
	uint32_t *newest = parts_before(&all, c->first->parts);
	size_t base = (size_t)(c->oldest - l->parts), first = (size_t)(c->first - l->parts);
	for (size_t i = 0; i < c->count; i++)
		used[first + i] = true;
	for (unsigned i = 0; own && i < c->first->part; i++)
		if (own[i])
			used[base + own[i] - 1] = true;
	for (unsigned i = 0; newest && i < c->first->parts; i++)
		if (newest[i])
			used[base + newest[i] - 1] = true;
	bool good = own && newest;
	free(own);
	free(newest);
	return good;
}

static bool mark_kept(const struct listing *l, unsigned keep, bool *used, bool *taken)
{
	for (unsigned kind = 0; kind < SYMBFILE_KINDS; kind++)
		for (unsigned n = 0; n < keep; n++) {
			struct candidate best;
			if (!best_left(l, (enum symbfile_kind)kind, taken, &best))
				return false;
			if (!best.first || (n > 0 && !best.whole))
				break;
			taken[best.first - l->parts] = true;
			if (!mark_used(l, &best, used))
				return false;
		}
	return true;
}

enum err symbfile_sets_unused(
        struct store_client *c, const struct file_id *id, const struct symbfile_unused *unused, struct error *e)
{
	struct listing l = {0};
	enum err err = list_parts(&l, c, id, NULL, e);
	bool *flags = calloc(l.count + 1, 2), young = false; /* used, then taken */
	if (!err && (!flags || !mark_kept(&l, unused->keep, flags, flags + l.count)))
		err = no_memory(e);
	for (size_t i = 0; i < l.count + l.times; i++)
		young = young || l.parts[i].time > unused->since;
	bool going = !err && !young;
	for (size_t i = 0; i < l.count && going; i++)
		going = flags[i] || unused->found(unused->arg, &l.parts[i]);
	for (size_t i = 0, at = 0; i < l.times && going; i++) {
		const struct store_part *part = part_of_time(&l, i, &at);
		going = (part && flags[at]) || unused->found(unused->arg, &l.parts[l.count + i]);
	}
	free(flags);
	free(l.parts);
	return err;
}

enum err symbfile_sets_place(struct store_key *key, char name[STORE_SET_MAX + 1], struct store_key *same,
        char same_name[STORE_SET_MAX + 1], struct store_client *c, struct error *e)
{
	struct listing l = {0};
	struct store_part wanted = {.kind = key->kind, .parts = key->parts};
	unsigned newest = 0, holder = 0, first = UINT_MAX;
	bool any = false, held = false;
	size_t ignored;
	print_generation(wanted.set, key->parts, 0);
	enum err err = list_parts(&l, c, &key->id, NULL, e);
	for (size_t i = 0; !err && i < l.count; i++) {
		const struct store_part *p = &l.parts[i];
		unsigned generation = generation_of(p->set, &ignored);
		if (base_order(p, &wanted) != 0)
			continue;
		if (!any || generation > newest)
			first = UINT_MAX; /* a part of the newest generation */
		newest = !any || generation > newest ? generation : newest;
		first = generation == newest && p->part < first ? p->part : first;
		if (p->part == key->part && (!held || generation > holder)) {
			holder = generation;
			held = true;
		}
		any = true;
	}
	free(l.parts);
	/* parts before the newest generation's own may be unchanged from an older one */
	bool there = held && holder == newest, before = held && !there && key->part < first;
	print_generation(name, key->parts, there ? newest + 1 : newest);
	key->set = name;
	*same = *key;
	same->set = there || before ? same_name : NULL;
	print_generation(same_name, key->parts, holder);
	return err;
}

void symbfile_sets_release(struct symbfile_sets *sets)
{
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++) {
		free(sets->kinds[i].generations);
		free(sets->kinds[i].have);
	}
	memset(sets, 0, sizeof *sets);
}

unsigned symbfile_sets_missing(const struct symbfile_sets *sets)
{
	unsigned missing = 0;
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++)
		missing += sets->kinds[i].parts - sets->kinds[i].have_count;
	return missing;
}
