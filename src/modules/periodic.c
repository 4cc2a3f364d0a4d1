/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/periodic.h"

#include <malloc.h>
#include <stdlib.h>
#include <time.h>

#include "base/account.h"
#include "base/array.h"
#include "base/background.h"
#include "base/block_pool.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

enum {
	TICK_MS = 100,
	TRIM_INTERVAL = 30, /* seconds */
	RETURN_INTERVAL = 10,
	SPARE_PART = 16, /* of the limit */
	MISSED_MAX = 10000,
	HELD_UP_SECONDS = 5, /* after which the log tells */
};

#define MINUTE (60 * SECOND)

/* ---- what memcached missed ---- */

void periodic_invalidate(struct periodic *p, const struct module_hash *hash)
{
	uint32_t i = 0;
	pthread_mutex_lock(&p->lock);
	while (i < p->missed_count && !module_hash_equal(&p->missed[i], hash))
		i++;
	if (i == MISSED_MAX || !array_reserve(&p->missed, &p->missed_cap, i + 1, sizeof *p->missed))
		p->dropped++;
	else if (i == p->missed_count)
		p->missed[p->missed_count++] = *hash;
	pthread_mutex_unlock(&p->lock);
}

static void tell_untold(unsigned count)
{
	if (count)
		log_event(LOG_LEVEL_WARNING, "not announced",
		        "memcached did not learn of %u invalidations: other processes may use the old modules for "
		        "up to root_max_age",
		        count);
}

/* Tries to send them all; those that memcached does not take stay. Logs how many were dropped. */
static void send_missed(struct periodic *p, struct mc_client *c)
{
	pthread_mutex_lock(&p->lock);
	struct module_hash *missed = p->missed;
	uint32_t count = p->missed_count;
	unsigned dropped = p->dropped;
	p->missed = NULL;
	p->missed_count = p->missed_cap = p->dropped = 0;
	pthread_mutex_unlock(&p->lock);
	tell_untold(dropped);
	for (uint32_t i = 0; i < count; i++)
		if (page_memcached_invalidate(c, &missed[i]) != MC_OK)
			periodic_invalidate(p, &missed[i]);
	free(missed);
}

/* ---- the threads ---- */

struct memory_watch {
	int64_t trimmed; /* when malloc last returned free memory to the system */
	int64_t in_vain; /* when that last gave little */
	bool full;
};

/* Whether malloc may have much that is free: more is resident than is charged, and trimming has helped lately, or a
 * load waits for memory. */
static bool has_spare(struct load_context *context, const struct memory_watch *w, uint64_t most, int64_t now)
{
	return account_beside() > most / SPARE_PART &&
	       (atomic_load(&context->short_of_memory) || now - w->in_vain >= TRIM_INTERVAL * SECOND);
}

/* Above the limit, first returns the memory that malloc and the pool of blocks keep after free. If that is not enough
 * and no request is waiting, also evicts from the cache. */
static void watch_memory(struct loads *ls, int64_t now, struct memory_watch *w)
{
	uint64_t bytes = account_resident(),
	         most = ls->context->config->memory ? ls->context->config->memory : UINT64_MAX;
	account_note_resident(bytes);
	bool trims = (bytes > most || has_spare(ls->context, w, most, now)) && now - w->trimmed >= SECOND;
	if (trims) {
		uint64_t before = bytes;
		w->trimmed = now;
		block_pool_trim(ls->context->blocks, true);
		malloc_trim(0); /* takes milliseconds per GB */
		bytes = account_resident();
		account_note_resident(bytes);
		if (before < bytes + most / SPARE_PART / 4)
			w->in_vain = now;
	}
	bool idle, full = bytes > most, noticed = loads_note_memory(ls, full, &idle);
	if (noticed != w->full)
		log_event(noticed ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, noticed ? "memory full" : "memory free",
		        "%llu of %llu MB are resident", (unsigned long long)bytes >> 20,
		        (unsigned long long)most >> 20);
	w->full = noticed;
	if (trims && full && idle) /* the next call returns this memory to the system */
		page_cache_shrink(ls->context->cache, bytes - most + most / 16);
}

/* False when the process is stopping. */
static bool rest(struct periodic *p, int64_t time)
{
	const struct load_context *context = p->loads->context;
	pthread_mutex_lock(&p->lock);
	if (!context->stopping)
		clock_wait(&p->stop, &p->lock, clock_now() + time);
	bool goes_on = !context->stopping;
	pthread_mutex_unlock(&p->lock);
	return goes_on;
}

/* Whether this long has passed since *last, which then becomes now. */
static bool is_due(int64_t *last, int64_t now, int64_t every)
{
	bool due = now - *last >= every;
	if (due)
		*last = now;
	return due;
}

/* To be called once a second. none_at: when no request was held up; told: when the log told of it. */
static void tell_held_up(struct loads *ls, int64_t now, int64_t *none_at, int64_t *told)
{
	if (!loads_note_held_up(ls))
		*none_at = now;
	if (now - *none_at <= HELD_UP_SECONDS * SECOND || !is_due(told, now, MINUTE))
		return;
	log_event(LOG_LEVEL_WARNING, "loads held up",
	        "requests have waited %u s or longer: %lld for memory, %lld for places, %lld for transfers, %lld for a "
	        "larger share, %lld for other hosts; %llu of %llu MB are in use",
	        HELD_UP_SECONDS, (long long)metric_get(M_HELD_UP_MEMORY), (long long)metric_get(M_HELD_UP_PLACES),
	        (long long)metric_get(M_HELD_UP_TRANSFERS), (long long)metric_get(M_HELD_UP_SHARE),
	        (long long)metric_get(M_HELD_UP_HOSTS), (unsigned long long)account_used() >> 20,
	        (unsigned long long)ls->context->config->memory >> 20);
}

static void *tick_main(void *arg)
{
	struct periodic *p = arg;
	struct load_context *context = p->loads->context;
	int64_t second = clock_now(), trimmed = second, returned = second, none_held_up = second,
	        told = second - MINUTE;
	struct memory_watch memory = {0};
	while (rest(p, TICK_MS * MS)) {
		int64_t now = clock_now();
		bool next_second = is_due(&second, now, SECOND);
		loads_tick(p->loads, now, next_second);
		watch_memory(p->loads, now, &memory);
		if (next_second) {
			page_cache_tick(context->cache);
			page_cache_evict(context->cache); /* requests may have released pages that they held */
			finish_when_idle(p->finishers, now);
			tell_held_up(p->loads, now, &none_held_up, &told);
		}
		if (is_due(&trimmed, now, TRIM_INTERVAL * SECOND))
			block_pool_trim(context->blocks, false);
		if (is_due(&returned, now, RETURN_INTERVAL * SECOND))
			malloc_trim(0); /* each thread's arena keeps the most that it ever had; this takes 2 ms */
	}
	return NULL;
}

/* Takes no lock that a thread in the background may hold: that thread may be the one that has to be lifted. */
static void *lift_main(void *arg)
{
	const struct periodic *p = arg;
	while (!atomic_load(&p->ended)) {
		nanosleep(&(struct timespec){0, TICK_MS * MS}, NULL);
		background_tick();
	}
	return NULL;
}

static void *memcached_main(void *arg)
{
	struct periodic *p = arg;
	struct mc_client *client = NULL;
	while (rest(p, SECOND))
		if (client || (client = mc_client_new(p->loads->context->servers))) {
			leases_renew(p->loads, client);
			send_missed(p, client);
		}
	if (client)
		send_missed(p, client);
	mc_client_free(client);
	return NULL;
}

void periodic_init(struct periodic *p, struct loads *loads, struct finishers *finishers)
{
	*p = (struct periodic){.loads = loads, .finishers = finishers};
	pthread_mutex_init(&p->lock, NULL);
	clock_condition_init(&p->stop);
}

bool periodic_start(struct periodic *p)
{
	void *(*const run[PERIODIC_THREADS])(void *) = {tick_main, memcached_main, lift_main};
	while (p->running < PERIODIC_THREADS && pthread_create(&p->threads[p->running], NULL, run[p->running], p) == 0)
		p->running++;
	return p->running == PERIODIC_THREADS;
}

void periodic_stop(struct periodic *p)
{
	atomic_store(&p->ended, true);
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->stop);
	pthread_mutex_unlock(&p->lock);
	while (p->running)
		pthread_join(p->threads[--p->running], NULL);
	tell_untold(p->missed_count + p->dropped);
	free(p->missed);
	pthread_cond_destroy(&p->stop);
	pthread_mutex_destroy(&p->lock);
}
