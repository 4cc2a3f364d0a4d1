/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "format/offmap_asked.h"

#include <stdlib.h>
#include <string.h>

#include "format/offmap_flat.h"

/* A symbol that was copied; the name's memory is kept for the next one. */
struct candidate {
	struct asked_symbol symbol;
	char *name;
	uint32_t name_cap;
};

/* What starts behind the address before and up to the address itself; the last gap has none. */
struct gap {
	bool used;
	bool last_is_func;    /* a FUNC starts at `last` */
	bool has_best;        /* false: who answers there is wanted as a whole, or its address says it all */
	uint64_t first, last; /* least and greatest start */
	struct candidate best;
};

struct asked {
	bool nearest;
	uint64_t *addresses;
	size_t count;
	struct gap *gaps; /* count + 1 */
	/* nearest: the FUNC added last is the best of its gap when it has lines; in `rival`, or there already */
	struct gap *watched;
	bool is_rival;
	struct candidate rival;
	uint64_t name_bytes; /* of all candidates */
};

struct asked *asked_new(const uint64_t *addresses, size_t count, bool nearest)
{
	struct asked *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->nearest = nearest;
	a->gaps = calloc(count + 1, sizeof *a->gaps);
	a->addresses = calloc(count + 1, sizeof *a->addresses);
	if (!a->gaps || !a->addresses) {
		asked_free(a);
		return NULL;
	}
	if (count)
		memcpy(a->addresses, addresses, count * sizeof *addresses);
	a->count = count;
	return a;
}

void asked_free(struct asked *a)
{
	if (!a)
		return;
	for (size_t i = 0; a->gaps && i <= a->count; i++)
		free(a->gaps[i].best.name);
	free(a->rival.name);
	free(a->gaps);
	free(a->addresses);
	free(a);
}

uint64_t asked_bytes(const struct asked *a)
{
	return a->count * (sizeof *a->gaps + sizeof *a->addresses) + a->name_bytes;
}

/* The gap that an address lies in: the number of asked addresses below it. */
static size_t find_gap(const struct asked *a, uint64_t addr)
{
	size_t low = 0, high = a->count;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (a->addresses[mid] < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool candidate_set(struct asked *a, struct candidate *c, const struct asked_symbol *s)
{
	uint32_t cap = c->name_cap;
	GROW(c->name, c->name_cap, (uint32_t)s->name.len + 1);
	a->name_bytes += c->name_cap - cap;
	if (s->name.len)
		memcpy(c->name, s->name.data, s->name.len);
	c->symbol = *s;
	c->symbol.name.data = c->name;
	return true;
}

/* Widens the gap by a start; true when it is the last one, or the same as the last one. */
static bool gap_start(struct gap *g, uint64_t addr)
{
	if (g->used && addr < g->last) {
		g->first = addr < g->first ? addr : g->first;
		return false;
	}
	if (!g->used || addr > g->last) {
		g->first = g->used ? g->first : addr;
		g->last = addr;
		g->used = true;
		g->has_best = g->last_is_func = false;
	}
	return true;
}

static bool set_best(struct asked *a, struct gap *g, const struct asked_symbol *s)
{
	g->has_best = true;
	return candidate_set(a, &g->best, s);
}

/* lookup = nearest, and s may answer for the gap's address: of several at one address the first with lines does, else
 * the first. */
static bool rate_func(struct asked *a, struct gap *g, const struct asked_symbol *s, enum offmap_want *want)
{
	if (g->has_best && g->best.symbol.has_lines)
		return true;
	*want = OFFMAP_WANT_LINE;
	a->watched = g;
	a->is_rival = g->has_best;
	return a->is_rival ? candidate_set(a, &a->rival, s) : set_best(a, g, s);
}

bool asked_func(struct asked *a, const struct asked_symbol *s, enum offmap_want *want)
{
	size_t at = find_gap(a, s->addr);
	struct gap *g = &a->gaps[at];
	bool covers = at < a->count && a->addresses[at] - s->addr < s->size;
	a->watched = NULL;
	*want = covers ? OFFMAP_WANT_ALL : OFFMAP_WANT_NOTHING;
	if (!gap_start(g, s->addr))
		return true;
	if (!g->last_is_func)
		g->has_best = false; /* a PUBLIC */
	g->last_is_func = true;
	return covers || !a->nearest || rate_func(a, g, s, want);
}

void asked_line(struct asked *a)
{
	struct gap *g = a->watched;
	if (!g)
		return;
	if (a->is_rival) {
		struct candidate beaten = g->best;
		g->best = a->rival;
		a->rival = beaten;
	}
	g->best.symbol.has_lines = true;
	a->watched = NULL;
}

bool asked_public(struct asked *a, const struct asked_symbol *s)
{
	struct gap *g = &a->gaps[find_gap(a, s->addr)];
	a->watched = NULL;
	if (!gap_start(g, s->addr) || g->last_is_func || g->has_best)
		return true;
	return set_best(a, g, s);
}

/* A FUNC of size 0 answers for nothing that is asked, and ends and hides PUBLICs as any other. */
static bool give_start(uint64_t addr, bool (*give)(void *arg, const struct asked_symbol *s), void *arg)
{
	return give(arg, &(struct asked_symbol){.addr = addr, .name = {"", 0}});
}

bool asked_symbols(const struct asked *a, bool (*give)(void *arg, const struct asked_symbol *s), void *arg)
{
	for (size_t i = 0; i <= a->count; i++) {
		const struct gap *g = &a->gaps[i];
		if (!g->used)
			continue;
		if (g->first < g->last && !give_start(g->first, give, arg))
			return false;
		if (g->has_best ? !give(arg, &g->best.symbol) : !a->nearest && !give_start(g->last, give, arg))
			return false;
	}
	return true;
}
