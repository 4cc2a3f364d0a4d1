/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/refresh.h"

#include <stdlib.h>
#include <string.h>

struct refresh {
	struct module_want want; /* with own copies of its strings, which follow this struct */
	struct module *old;      /* a reference */
	TAILQ_ENTRY(refresh) next;
};

static void refresh_free(struct refresh *f)
{
	atomic_store(&f->old->refreshed, false);
	module_unref(f->old);
	free(f);
}

static struct str copy_text(char *to, struct str s)
{
	if (s.len)
		memcpy(to, s.data, s.len);
	return (struct str){to, s.len};
}

static struct refresh *refresh_new(const struct module_want *w)
{
	struct refresh *f = malloc(sizeof *f + w->name.len + w->id.len);
	if (!f)
		return NULL;
	char *text = (char *)(f + 1);
	*f = (struct refresh){.old = w->module,
	        .want = {.name = copy_text(text, w->name),
	                .id = copy_text(text + w->name.len, w->id),
	                .kind = w->kind,
	                .file_id = w->file_id,
	                .question = w->question,
	                .state = WANT_LOAD}};
	f->want.own.hash = w->own.hash;
	f->want.own.spelling = w->own.spelling;
	f->want.own.marker = w->own.marker;
	f->want.own.marker_seen = w->own.marker_seen;
	module_ref(f->old);
	return f;
}

bool refresh_later(struct refresher *r, const struct module_want *w)
{
	/* Most requests find that another one has asked. They take no lock. */
	if (atomic_load(&w->module->refreshed) || atomic_exchange(&w->module->refreshed, true))
		return true;
	pthread_mutex_lock(&r->lock);
	struct refresh *f = r->ended || r->count == REFRESH_WAITING_MAX ? NULL : refresh_new(w);
	if (f) {
		TAILQ_INSERT_TAIL(&r->waiting, f, next);
		r->count++;
		pthread_cond_broadcast(&r->change);
	}
	pthread_mutex_unlock(&r->lock);
	if (!f)
		atomic_store(&w->module->refreshed, false);
	return f;
}

/* ---- the thread ---- */

/* The wait for the loads of some of them. */
struct refresh_batch {
	struct load_wait wait;
	struct refresher *refresher;
	struct module_want wants[REFRESH_AT_ONCE];
	struct refresh *items[REFRESH_AT_ONCE];
	size_t count;
	bool told;
};

static void on_done(struct load_wait *wait)
{
	struct refresh_batch *b = (struct refresh_batch *)wait; /* its first member */
	struct refresher *r = b->refresher;
	pthread_mutex_lock(&r->lock);
	b->told = true;
	pthread_cond_broadcast(&r->change);
	pthread_mutex_unlock(&r->lock);
}

static bool is_gone(const struct load_wait *wait)
{
	const struct refresh_batch *b = (const struct refresh_batch *)wait;
	return atomic_load(&b->refresher->loads->context->stopping);
}

/* The next ones, of which there is at least one. False: the end. */
static bool take_batch(struct refresher *r, struct refresh_batch *b)
{
	pthread_mutex_lock(&r->lock);
	while (!r->ended && TAILQ_EMPTY(&r->waiting))
		pthread_cond_wait(&r->change, &r->lock);
	*b = (struct refresh_batch){.refresher = r, .wait = {.done = on_done, .gone = is_gone}};
	for (struct refresh *f; !r->ended && b->count < REFRESH_AT_ONCE && (f = TAILQ_FIRST(&r->waiting));) {
		TAILQ_REMOVE(&r->waiting, f, next);
		b->wants[b->count] = f->want;
		b->items[b->count++] = f;
	}
	pthread_mutex_unlock(&r->lock);
	return b->count > 0;
}

/* Waits until it is told. When the process is stopping, nobody loads or looks at waits any more: then it does so. */
static void await(struct refresher *r, struct refresh_batch *b)
{
	pthread_mutex_lock(&r->lock);
	while (!b->told && !r->ended)
		pthread_cond_wait(&r->change, &r->lock);
	if (!b->told) {
		pthread_mutex_unlock(&r->lock);
		loads_tick(r->loads, clock_now(), true);
		pthread_mutex_lock(&r->lock);
	}
	while (!b->told)
		pthread_cond_wait(&r->change, &r->lock);
	b->told = false;
	pthread_mutex_unlock(&r->lock);
}

/* Loads the first `count`. False: no more can be loaded at present. */
static bool load_some(struct refresher *r, struct refresh_batch *b, size_t count)
{
	enum load_result result;
	while ((result = loads_get(r->loads, &b->wait, b->wants, count)) == LOAD_WAIT) {
		await(r, b);
		if (b->wait.refused || b->wait.timed_out)
			return false;
	}
	return result == LOAD_READY;
}

/* Puts those that failed behind the others; returns how many others there are. */
static size_t put_failed_last(struct refresh_batch *b)
{
	size_t others = 0;
	for (size_t i = 0; i < b->count; i++) {
		const struct module_want want = b->wants[i];
		struct refresh *item = b->items[i];
		if (want.state == WANT_FAILED)
			continue;
		b->wants[i] = b->wants[others];
		b->items[i] = b->items[others];
		b->wants[others] = want;
		b->items[others++] = item;
	}
	return others;
}

/* A temporary failure ends a wait. So the others are loaded without the module that had it. */
static void load_batch(struct refresher *r, struct refresh_batch *b)
{
	size_t count = b->count, before;
	b->wait.deadline = clock_now() + r->loads->context->config->bucket_total_timeout;
	do {
		before = count;
		if (!load_some(r, b, count))
			return;
		count = put_failed_last(b);
	} while (count < before && wants_need_load(b->wants, count));
}

/* What has gone meanwhile does not answer any more. */
static void end_batch(struct refresher *r, struct refresh_batch *b)
{
	for (size_t i = 0; i < b->count; i++) {
		struct module_want *w = &b->wants[i];
		if (w->state == WANT_FAILED && w->failure != FAILURE_TEMPORARY)
			page_cache_remove(r->loads->context->cache, &w->own.hash, b->items[i]->old);
		module_want_release(w);
	}
	loads_leave(r->loads, &b->wait);
	for (size_t i = 0; i < b->count; i++)
		refresh_free(b->items[i]);
	pthread_mutex_lock(&r->lock);
	r->count -= (unsigned)b->count;
	pthread_mutex_unlock(&r->lock);
}

static void *refresh_main(void *arg)
{
	struct refresher *r = arg;
	struct refresh_batch b;
	while (take_batch(r, &b)) {
		load_batch(r, &b);
		end_batch(r, &b);
	}
	return NULL;
}

/* ---- start and stop ---- */

void refresher_init(struct refresher *r, struct loads *loads)
{
	*r = (struct refresher){.loads = loads};
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->change, NULL);
	TAILQ_INIT(&r->waiting);
}

bool refresher_start(struct refresher *r)
{
	return r->started = pthread_create(&r->thread, NULL, refresh_main, r) == 0;
}

void refresher_stop(struct refresher *r)
{
	struct refresh *f;
	pthread_mutex_lock(&r->lock);
	r->ended = true;
	pthread_cond_broadcast(&r->change);
	pthread_mutex_unlock(&r->lock);
	if (r->started)
		pthread_join(r->thread, NULL);
	while ((f = TAILQ_FIRST(&r->waiting))) {
		TAILQ_REMOVE(&r->waiting, f, next);
		refresh_free(f);
	}
	pthread_cond_destroy(&r->change);
	pthread_mutex_destroy(&r->lock);
}
