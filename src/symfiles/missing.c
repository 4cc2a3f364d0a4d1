/* SPDX-License-Identifier: Apache-2.0 */
/* A table of sets of a few places each, as in a processor's cache: a new module takes the place of the one in its set
 * that the fewest clients asked for, of these least often and, of these, longest ago; but of none that several did. */
#include <config.h>

#include "symfiles/missing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

enum { WAYS = 4, SETS = MISSING_MAX / WAYS, DAY = 24 * 3600, FORGOTTEN = 7 * DAY, LINES_A_MINUTE = 60 };

struct place {
	struct missing_module m; /* count 0: empty */
	int64_t logged;
};

struct missing_list {
	uint64_t seed;
	pthread_mutex_t lock; /* guards what follows */
	struct place places[SETS][WAYS];
	int64_t minute; /* in which `lines` were logged */
	unsigned lines;
	bool changed;
};

struct missing_list *missing_list_new(uint64_t seed)
{
	struct missing_list *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->seed = seed;
	pthread_mutex_init(&l->lock, NULL);
	return l;
}

void missing_list_free(struct missing_list *l)
{
	if (!l)
		return;
	pthread_mutex_destroy(&l->lock);
	free(l);
}

unsigned missing_clients(const struct missing_module *m)
{
	return (unsigned)__builtin_popcountll(m->clients);
}

static bool is_before(const struct missing_module *a, const struct missing_module *b)
{
	if (missing_clients(a) != missing_clients(b))
		return missing_clients(a) < missing_clients(b);
	return a->count != b->count ? a->count < b->count : a->last < b->last;
}

/* The module's place, or the one that it takes; NULL: it gets none. */
static struct place *find_place(struct missing_list *l, struct str name, struct str id, int64_t now)
{
	struct place *set = l->places[name_hash_seeded(name, id, l->seed) % SETS], *least = set;
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].m.count && str_equal(str_from(set[i].m.name), name) && str_equal(str_from(set[i].m.id), id))
			return &set[i];
		if (is_before(&set[i].m, &least->m))
			least = &set[i];
	}
	if (missing_clients(&least->m) > 1 && now - least->m.last < FORGOTTEN)
		return NULL;
	*least = (struct place){.m.count = 0};
	memcpy(least->m.name, name.data, name.len);
	memcpy(least->m.id, id.data, id.len);
	return least;
}

/* Once a day for each module; of many new ones in a minute only some, the rest when they are asked for again. */
static bool is_worth_a_line(struct missing_list *l, struct place *p, int64_t now)
{
	if (p->logged && now - p->logged < DAY)
		return false;
	if (now / 60 != l->minute)
		l->lines = 0;
	l->minute = now / 60;
	if (l->lines >= LINES_A_MINUTE)
		return false;
	l->lines++;
	p->logged = now;
	return true;
}

/* Printable ASCII, cut to fit. */
static void copy_agent(char to[MISSING_AGENT], struct str agent)
{
	size_t n = agent.len < MISSING_AGENT - 1 ? agent.len : MISSING_AGENT - 1;
	for (size_t i = 0; i < n; i++)
		to[i] = (char)(agent.data[i] >= ' ' && agent.data[i] <= '~' ? agent.data[i] : '?');
	memset(to + n, 0, MISSING_AGENT - n);
}

void missing_note(
        struct missing_list *l, struct str name, struct str id, struct str agent, uint64_t client, int64_t now)
{
	char upper[MISSING_ID];
	if (!name.len || name.len >= MISSING_NAME || !id.len || id.len >= MISSING_ID)
		return;
	str_upper(upper, id);
	char who[MISSING_AGENT];
	copy_agent(who, agent);
	pthread_mutex_lock(&l->lock);
	struct place *p = find_place(l, name, (struct str){upper, id.len}, now);
	bool line = p && is_worth_a_line(l, p, now);
	if (p) {
		p->m.first = p->m.count ? p->m.first : now;
		p->m.count++;
		p->m.clients |= UINT64_C(1) << client % 64;
		p->m.last = now;
		memcpy(p->m.agent, who, sizeof who);
		l->changed = true;
	}
	pthread_mutex_unlock(&l->lock);
	if (line)
		log_event(LOG_LEVEL_INFO, "missing", "%.*s/%.*s, asked for by %s", STR_FMT(name), STR_FMT(id), who);
}

size_t missing_copy(struct missing_list *l, struct missing_module *to, size_t max, int64_t since)
{
	size_t n = 0;
	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < SETS * WAYS && n < max; i++) {
		const struct missing_module *m = &l->places[i / WAYS][i % WAYS].m;
		if (m->count && m->last >= since)
			to[n++] = *m;
	}
	pthread_mutex_unlock(&l->lock);
	return n;
}

void missing_not_told(struct missing_list *l)
{
	pthread_mutex_lock(&l->lock);
	l->changed = true;
	pthread_mutex_unlock(&l->lock);
}

bool missing_has_news(struct missing_list *l)
{
	pthread_mutex_lock(&l->lock);
	bool news = l->changed;
	l->changed = false;
	pthread_mutex_unlock(&l->lock);
	return news;
}
