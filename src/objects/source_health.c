/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "objects/source_health.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

enum state { WELL, SUSPECT, SUSPECT_SLOW, ILL };

static const int64_t slow = SECOND, /* a transfer that took so long to fail holds up who waits for it */
        period = 800 * MS,          /* from one request of the thread to the next */
        patience = 700 * MS,        /* for an answer to one */
        pause = 100 * MS,           /* at least, between them */
        doubted = SECOND;           /* after an answer, the next failure waits so long for the next request */
/* A source may have become slower: in time the thread waits longer for it, a 256th of how long it has been ill. */
enum { PATIENCE_PART = 256 };
/* Some sources are slow to answer, and a new connection takes longer still. */
enum { PATIENCE_TIMES = 4, USUAL_PART = 4 };

struct source_health {
	unsigned source;
	const char *name;
	int64_t longest;
	source_asks *ask;
	void *arg;
	atomic_bool stopping;
	_Atomic(enum state) state;
	_Atomic int64_t returned; /* clock_now() when it was last well again; 0: never */
	atomic_bool tried;        /* a request asks it although it is ill */
	_Atomic int64_t usual;    /* nanoseconds that it takes to answer, of late */
	pthread_mutex_t lock;     /* guards what follows, and changes of state */
	pthread_cond_t changed;
	bool runs;
	bool unsure; /* a transfer says that it is well, not yet the thread */
	pthread_t thread;
	int64_t ill_since;
	int64_t answered; /* clock_now() when the thread, or while it was ill a transfer, was last answered; 0: never */
	struct error why; /* it is ill */
};

struct source_health *source_health_new(unsigned source, const char *name, int64_t longest, source_asks *ask, void *arg)
{
	struct source_health *h = calloc(1, sizeof *h);
	if (!h)
		return NULL;
	h->source = source;
	h->name = name;
	h->longest = longest;
	h->ask = ask;
	h->arg = arg;
	pthread_mutex_init(&h->lock, NULL);
	clock_condition_init(&h->changed);
	return h;
}

void source_health_free(struct source_health *h)
{
	if (!h)
		return;
	atomic_store(&h->stopping, true);
	pthread_mutex_lock(&h->lock);
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	if (h->runs)
		pthread_join(h->thread, NULL);
	if (atomic_load(&h->state) == ILL)
		metric_source_ill(h->source, false);
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* ---- the thread; with the lock held, but for the request ---- */

static void wait_until(struct source_health *h, int64_t until)
{
	while (!atomic_load(&h->stopping) && clock_now() < until)
		clock_wait(&h->changed, &h->lock, until);
}

static void become_ill(struct source_health *h, const struct error *why)
{
	if (atomic_load(&h->state) != ILL) {
		h->ill_since = clock_now();
		metric_source_ill(h->source, true);
		log_event(LOG_LEVEL_WARNING, "source fails", "%s", why->text);
	}
	h->why = *why;
	atomic_store(&h->state, ILL);
}

/* asked: by the thread. If by a transfer, it may fail as before for what it lacks: then nothing has returned. */
static void become_well(struct source_health *h, bool asked)
{
	const int64_t now = clock_now();
	const bool ill = atomic_load(&h->state) == ILL;
	if (asked && (ill || h->unsure))
		atomic_store(&h->returned, now);
	if (ill) {
		metric_source_ill(h->source, false);
		log_event(LOG_LEVEL_INFO, "source answers", "%s, after %.1f s", h->name,
		        (double)(now - h->ill_since) / (double)SECOND);
	}
	h->unsure = !asked;
	h->answered = now;
	atomic_store(&h->state, WELL);
}

static int64_t how_long(const struct source_health *h)
{
	const int64_t ill = atomic_load(&h->state) == ILL ? (clock_now() - h->ill_since) / PATIENCE_PART : 0;
	const int64_t usual = PATIENCE_TIMES * atomic_load(&h->usual), least = usual > patience ? usual : patience;
	const int64_t limit = ill > least ? ill : least;
	return limit < h->longest ? limit : h->longest;
}

static void ask_once(struct source_health *h)
{
	struct error why;
	const int64_t limit = how_long(h), began = clock_now();
	pthread_mutex_unlock(&h->lock);
	const enum err err = h->ask(h->arg, h->source, limit, &h->stopping, &why);
	pthread_mutex_lock(&h->lock);
	if (atomic_load(&h->stopping))
		return;
	if (!err)
		become_well(h, true);
	else if (h->answered < began && !h->unsure) /* nor has it given an object meanwhile */
		become_ill(h, &why);
	else if (h->answered < began)
		h->unsure = false;
	const int64_t now = clock_now(), soon = now + pause;
	wait_until(h, !err ? now + doubted : began + period > soon ? began + period : soon);
}

static void *watch(void *arg)
{
	struct source_health *h = arg;
	pthread_setname_np(pthread_self(), "source");
	pthread_mutex_lock(&h->lock);
	while (!atomic_load(&h->stopping))
		if (atomic_load(&h->state) == WELL && !h->unsure)
			pthread_cond_wait(&h->changed, &h->lock);
		else
			ask_once(h);
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* ---- what others call ---- */

void source_health_failed(struct source_health *h, int64_t taken)
{
	const int64_t began = clock_now() - taken;
	pthread_mutex_lock(&h->lock);
	/* If it has answered meanwhile, only this object is slow to fail. */
	const enum state worse = taken >= slow && began > h->answered ? SUSPECT_SLOW : SUSPECT;
	if (!h->runs)
		h->runs = pthread_create(&h->thread, NULL, watch, h) == 0;
	if (h->runs && atomic_load(&h->state) < worse) {
		atomic_store(&h->state, worse);
		pthread_cond_broadcast(&h->changed);
	}
	pthread_mutex_unlock(&h->lock);
}

void source_health_lacks(struct source_health *h, int64_t taken)
{
	const int64_t usual = atomic_load(&h->usual); /* one of two at a time may be lost */
	atomic_store(&h->usual, usual + (taken - usual) / USUAL_PART);
}

void source_health_gave(struct source_health *h, int64_t taken)
{
	if (taken > atomic_load(&h->usual)) /* to lack an object may take longer */
		source_health_lacks(h, taken);
	if (atomic_load(&h->state) != ILL || taken >= slow)
		return;
	pthread_mutex_lock(&h->lock);
	if (atomic_load(&h->state) == ILL)
		become_well(h, false);
	pthread_mutex_unlock(&h->lock);
}

bool source_health_is_good(struct source_health *h)
{
	return atomic_load(&h->state) <= SUSPECT;
}

bool source_health_is_ill(struct source_health *h, struct error *e)
{
	if (atomic_load(&h->state) != ILL)
		return false;
	pthread_mutex_lock(&h->lock);
	*e = h->why;
	pthread_mutex_unlock(&h->lock);
	return true;
}

bool source_health_returned(struct source_health *h, int64_t since)
{
	return atomic_load(&h->returned) > since && atomic_load(&h->state) != ILL;
}

bool source_health_begin(struct source_health *h)
{
	return !atomic_exchange(&h->tried, true);
}

void source_health_end(struct source_health *h)
{
	atomic_store(&h->tried, false);
}
