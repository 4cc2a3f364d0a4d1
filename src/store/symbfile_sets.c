#include <config.h>

#include "store/symbfile_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct listing {
	struct store_part *parts;
	size_t count, cap;
	bool no_memory;
};

/* Parts of one set, which stand together once the listing is sorted. */
struct candidate {
	const struct store_part *first;
	size_t count;
	int64_t time; /* of the oldest part */
};

static bool found_part(void *arg, const struct store_part *part)
{
	struct listing *l = arg;
	if (l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 16;
		struct store_part *grown = realloc(l->parts, cap * sizeof *grown);
		l->no_memory = !grown;
		if (!grown)
			return false;
		l->parts = grown;
		l->cap = cap;
	}
	l->parts[l->count++] = *part;
	return true;
}

/* A set that says it has another number of parts is another set. */
static int set_order(const struct store_part *a, const struct store_part *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	int order = strcmp(a->set, b->set);
	return order ? order : (a->parts > b->parts) - (a->parts < b->parts);
}

static int part_order(const void *a, const void *b)
{
	const struct store_part *x = a, *y = b;
	int order = set_order(x, y);
	return order ? order : (x->part > y->part) - (x->part < y->part);
}

static struct candidate next_candidate(const struct listing *l, size_t at)
{
	struct candidate c = {&l->parts[at], 0, l->parts[at].time};
	for (; at < l->count && set_order(c.first, &l->parts[at]) == 0; at++, c.count++)
		if (l->parts[at].time < c.time)
			c.time = l->parts[at].time;
	return c;
}

/* Of two of one time any will do, as long as every host takes the same: the later in the order. */
static bool is_better(const struct candidate *c, const struct candidate *than)
{
	bool whole = c->count == c->first->parts, than_whole = than->first && than->count == than->first->parts;
	if (!than->first || whole != than_whole)
		return !than->first || whole;
	return c->time >= than->time;
}

static bool take(struct symbfile_set *set, const struct candidate *c)
{
	if (!c->first)
		return true;
	set->have = malloc(c->count * sizeof *set->have);
	if (!set->have)
		return false;
	memcpy(set->set, c->first->set, sizeof set->set);
	set->parts = c->first->parts;
	set->have_count = (unsigned)c->count;
	for (size_t i = 0; i < c->count; i++)
		set->have[i] = c->first[i].part;
	return true;
}

/* Parts and kinds have an order, and no name of a set is the beginning of another's text here. */
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
	struct candidate best[STORE_KINDS] = {{0}};
	memset(sets, 0, sizeof *sets);
	enum err err = store_list(c, id, found_part, &l, cancel, e);
	if (!err && l.count)
		qsort(l.parts, l.count, sizeof *l.parts, part_order);
	for (size_t at = 0; !err && at < l.count;) {
		struct candidate next = next_candidate(&l, at);
		if (is_better(&next, &best[next.first->kind]))
			best[next.first->kind] = next;
		at += next.count;
	}
	for (unsigned i = 0; i < STORE_KINDS; i++)
		sets->hash = hash_of(&best[i], sets->hash);
	for (unsigned i = 0; i < STORE_KINDS && !err; i++)
		l.no_memory = l.no_memory || !take(&sets->kinds[i], &best[i]);
	free(l.parts);
	if (l.no_memory)
		err = error_set(e, ERR_NO_MEMORY, "out of memory");
	if (err)
		symbfile_sets_release(sets);
	return err;
}

void symbfile_sets_release(struct symbfile_sets *sets)
{
	for (unsigned i = 0; i < STORE_KINDS; i++)
		free(sets->kinds[i].have);
	memset(sets, 0, sizeof *sets);
}

unsigned symbfile_sets_missing(const struct symbfile_sets *sets)
{
	unsigned missing = 0;
	for (unsigned i = 0; i < STORE_KINDS; i++)
		missing += sets->kinds[i].parts - sets->kinds[i].have_count;
	return missing;
}
