/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "cache/outcomes.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/process.h"

enum {
	CHAINS_MIN = 64,
	CHAINS_MAX = 1 << 20,
	JUNK_MIN = 5, /* corrupt files in a row; single ones among good ones stay as they are */
};

struct source_junk {
	uint64_t corrupt; /* files in a row */
	int64_t again;    /* clock_now() when to look whether it still serves junk */
	int64_t mended;   /* when it last gave a good file after junk; 0: never */
};

struct entry {
	struct module_hash hash, spelling;
	struct outcome failure;
	int64_t ttl; /* of a temporary failure */
	LIST_ENTRY(entry) chain;
	TAILQ_ENTRY(entry) age;
};

LIST_HEAD(chain, entry);

struct outcomes {
	pthread_mutex_t lock;
	struct chain *chains; /* chain_count of them: as many as failures may be remembered, but for CHAINS_MAX */
	uint64_t chain_count;
	TAILQ_HEAD(ages, entry) ages; /* the oldest first */
	uint64_t count, max;
	uint64_t seed; /* of the chains */
	int64_t ttl_missing, ttl_corrupt, ttl_min, ttl_max;
	struct source_junk sources[CONFIG_LIST_MAX + 3]; /* as in the settings, and the parts of sym_store */
};

struct outcomes *outcomes_new(const struct config *c)
{
	struct outcomes *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->max = c->failures_max;
	f->chain_count = f->max < CHAINS_MIN ? CHAINS_MIN : f->max > CHAINS_MAX ? CHAINS_MAX : f->max;
	if (!(f->chains = calloc(f->chain_count, sizeof *f->chains))) {
		free(f);
		return NULL;
	}
	pthread_mutex_init(&f->lock, NULL);
	TAILQ_INIT(&f->ages);
	f->seed = random_u64();
	f->ttl_missing = c->missing_ttl;
	f->ttl_corrupt = c->corrupt_ttl;
	f->ttl_min = c->failure_ttl_min;
	f->ttl_max = c->failure_ttl_max;
	return f;
}

static struct chain *chain_of(struct outcomes *f, const struct module_hash *hash)
{
	return &f->chains[module_hash_seeded(hash, f->seed) % f->chain_count];
}

static struct entry *find_entry(struct outcomes *f, const struct module_hash *hash, const struct module_hash *spelling)
{
	struct entry *e;
	LIST_FOREACH(e, chain_of(f, hash), chain)
		if (module_hash_equal(&e->hash, hash) && module_hash_equal(&e->spelling, spelling))
			break;
	return e;
}

static void drop_entry(struct outcomes *f, struct entry *e)
{
	LIST_REMOVE(e, chain);
	TAILQ_REMOVE(&f->ages, e, age);
	free(e);
	f->count--;
	metric_set(M_FAILURES_REMEMBERED, (int64_t)f->count);
}

void outcomes_free(struct outcomes *f)
{
	if (!f)
		return;
	struct entry *e;
	while ((e = TAILQ_FIRST(&f->ages)))
		drop_entry(f, e);
	pthread_mutex_destroy(&f->lock);
	free(f->chains);
	free(f);
}

void outcomes_source(struct outcomes *f, unsigned source, bool good)
{
	struct source_junk *s = &f->sources[source - 1];
	pthread_mutex_lock(&f->lock);
	if (good && s->corrupt >= JUNK_MIN)
		s->mended = clock_now();
	s->corrupt = good ? 0 : s->corrupt + 1;
	s->again = clock_now() + f->ttl_max;
	pthread_mutex_unlock(&f->lock);
}

/* With the lock held: not if the file was corrupt when its source still served junk, or if it is time to look again
 * whether it does. */
static bool is_believed(struct outcomes *f, struct outcome *o, int64_t now)
{
	struct source_junk *s = o->class == FAILURE_CORRUPT && o->source ? &f->sources[o->source - 1] : NULL;
	if (!s || (o->checked > s->mended && (s->corrupt < JUNK_MIN || now < s->again)))
		return true;
	s->again = now + f->ttl_max;
	o->until = now;
	return false;
}

struct outcome outcomes_get(struct outcomes *f, const struct module_hash *hash, const struct module_hash *spelling)
{
	struct outcome found = {.class = OUTCOME_NONE};
	pthread_mutex_lock(&f->lock);
	struct entry *e = find_entry(f, hash, spelling);
	/* An expired temporary failure stays, so that the next one counts as a repeat. */
	int64_t now = clock_now();
	if (e && e->failure.until > now && is_believed(f, &e->failure, now))
		found = e->failure;
	pthread_mutex_unlock(&f->lock);
	return found;
}

static int64_t time_to_live(const struct outcomes *f, struct entry *e, enum outcome_class class, bool again)
{
	if (class == FAILURE_MISSING || class == OUTCOME_REDIRECT)
		return f->ttl_missing;
	if (class == FAILURE_CORRUPT || class == FAILURE_TOO_LARGE)
		return f->ttl_corrupt;
	e->ttl = again ? 2 * e->ttl : f->ttl_min;
	if (e->ttl > f->ttl_max)
		e->ttl = f->ttl_max;
	return e->ttl;
}

void failure_why(char why[FAILURE_WHY_SIZE], const char *text)
{
	size_t n = 0;
	for (; text[n] && n < FAILURE_WHY_SIZE - 1; n++)
		why[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	why[n] = 0;
}

unsigned failure_seconds(int64_t until, int64_t now)
{
	return until > now ? (unsigned)((until - now - 1) / SECOND) + 1 : 1;
}

int64_t outcomes_set(struct outcomes *f, const struct module_hash *hash, const struct module_hash *spelling,
        const struct outcome *what)
{
	int64_t until = 0;
	bool again = false;
	pthread_mutex_lock(&f->lock);
	struct entry *e = find_entry(f, hash, spelling);
	if (e) {
		again = what->class == FAILURE_TEMPORARY && e->failure.class == FAILURE_TEMPORARY &&
		        clock_now() - e->failure.until < f->ttl_max;
		TAILQ_REMOVE(&f->ages, e, age);
	} else if ((e = calloc(1, sizeof *e))) {
		while (f->count && f->count >= f->max)
			drop_entry(f, TAILQ_FIRST(&f->ages));
		e->hash = *hash;
		e->spelling = *spelling;
		LIST_INSERT_HEAD(chain_of(f, hash), e, chain);
		f->count++;
		metric_set(M_FAILURES_REMEMBERED, (int64_t)f->count);
	}
	if (e) {
		until = clock_now() + time_to_live(f, e, what->class, again);
		e->failure = *what;
		e->failure.until = until;
		TAILQ_INSERT_TAIL(&f->ages, e, age);
	}
	pthread_mutex_unlock(&f->lock);
	return until;
}

void outcomes_checked(
        struct outcomes *f, const struct module_hash *hash, const struct module_hash *spelling, int64_t checked)
{
	pthread_mutex_lock(&f->lock);
	struct entry *e = find_entry(f, hash, spelling);
	if (e)
		e->failure.checked = checked;
	pthread_mutex_unlock(&f->lock);
}

void outcomes_forget(struct outcomes *f, const struct module_hash *hash)
{
	pthread_mutex_lock(&f->lock);
	for (struct entry *e = LIST_FIRST(chain_of(f, hash)), *next; e; e = next) {
		next = LIST_NEXT(e, chain);
		if (module_hash_equal(&e->hash, hash))
			drop_entry(f, e);
	}
	pthread_mutex_unlock(&f->lock);
}
