/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/keeper.h"

#include "base/account.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"

enum { TICK_MS = 100, TRIM_INTERVAL = 30 /* seconds */, SPARE_PART = 16 /* of the limit */ };

#define MINUTE (60 * SECOND)

struct memory_watch {
	int64_t trimmed; /* when malloc last returned free memory to the system */
	int64_t in_vain; /* when that last gave little */
	bool full;
};

/* Whether malloc may have much that is free: more is resident than is charged, and trimming has helped lately, or a
 * load waits for memory. */
static bool has_spare(struct load_means *means, const struct memory_watch *w, uint64_t most, int64_t now)
{
	return account_beside() > most / SPARE_PART &&
	       (atomic_load(&means->needy) || now - w->in_vain >= TRIM_INTERVAL * SECOND);
}

/* Above the limit, first returns the memory that malloc keeps after free. If that is not enough and no request is
 * waiting, also evicts from the cache. */
static void watch_memory(struct cold *c, int64_t now, struct memory_watch *w)
{
	uint64_t bytes = resident_bytes(), most = c->gate.memory_max;
	account_note_resident(bytes);
	bool trims = (bytes > most || has_spare(c->means, w, most, now)) && now - w->trimmed >= SECOND;
	if (trims) {
		uint64_t before = bytes;
		w->trimmed = now;
		resident_trim();
		bytes = resident_bytes();
		account_note_resident(bytes);
		if (before < bytes + most / SPARE_PART / 4)
			w->in_vain = now;
	}
	bool full = bytes > most;
	pthread_mutex_lock(c->lock);
	bool idle = !c->waits.count, noticed = gate_note_memory(&c->gate, full);
	pthread_mutex_unlock(c->lock);
	if (noticed != w->full)
		log_event(noticed ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, noticed ? "memory full" : "memory free",
		        "%llu of %llu MB are resident", (unsigned long long)bytes >> 20,
		        (unsigned long long)most >> 20);
	w->full = noticed;
	if (trims && full && idle) /* the next call returns this memory to the system */
		page_cache_shrink(c->means->cache, bytes - most + most / 16);
}

/* Rests that long. False when the process is stopping. */
static bool rest(struct keeper *k, int64_t time)
{
	pthread_mutex_lock(k->cold->lock);
	if (!k->cold->means->stopping)
		clock_wait(&k->stop, k->cold->lock, clock_now() + time);
	bool goes_on = !k->cold->means->stopping;
	pthread_mutex_unlock(k->cold->lock);
	return goes_on;
}

/* At most one line a minute. */
static void tell_held_back(struct cold *c)
{
	struct client_key client;
	char text[CLIENT_KEY_TEXT];
	pthread_mutex_lock(c->lock);
	uint64_t count = gate_held_back(&c->gate, &client);
	pthread_mutex_unlock(c->lock);
	if (count)
		log_event(LOG_LEVEL_WARNING, "client held back",
		        "%s, the last of %llu requests that waited or were refused only because their client loads "
		        "much already",
		        client_key_text(text, client, (unsigned)c->means->config->client_ipv6_prefix),
		        (unsigned long long)count);
}

static void *keeper_main(void *arg)
{
	struct keeper *k = arg;
	struct load_means *means = k->cold->means;
	int64_t second = clock_now(), trimmed = second, told = second - MINUTE;
	struct memory_watch memory = {0};
	while (rest(k, TICK_MS * MS)) {
		int64_t now = clock_now();
		bool next_second = now - second >= SECOND;
		if (next_second)
			second = now;
		cold_expire(k->cold, now, next_second);
		watch_memory(k->cold, now, &memory);
		if (next_second) {
			page_cache_tick(means->cache);
			page_cache_evict(means->cache); /* requests may have released pages that they held */
			finish_when_idle(k->finishers, now);
		}
		if (next_second && now - told >= MINUTE) {
			told = now;
			tell_held_back(k->cold);
		}
		if (now - trimmed >= TRIM_INTERVAL * SECOND) {
			trimmed = now;
			block_pool_trim(means->blocks);
		}
	}
	return NULL;
}

static void *teller_main(void *arg)
{
	struct keeper *k = arg;
	struct mc_client *client = mc_client_new(k->cold->means->servers);
	while (client && rest(k, SECOND)) {
		leases_renew(k->leases, client);
		markers_put(k->markers, client);
	}
	if (client)
		markers_put(k->markers, client);
	markers_note_left(k->markers);
	mc_client_free(client);
	return NULL;
}

void keeper_init(struct keeper *k, struct cold *cold, struct leases *leases, struct markers *markers,
        struct finishers *finishers)
{
	*k = (struct keeper){.cold = cold, .leases = leases, .markers = markers, .finishers = finishers};
	clock_condition_init(&k->stop);
}

bool keeper_start(struct keeper *k)
{
	void *(*const run[])(void *) = {keeper_main, teller_main};
	while (k->running < 2 && pthread_create(&k->threads[k->running], NULL, run[k->running], k) == 0)
		k->running++;
	return k->running == 2;
}

void keeper_stop(struct keeper *k)
{
	pthread_mutex_lock(k->cold->lock);
	pthread_cond_broadcast(&k->stop);
	pthread_mutex_unlock(k->cold->lock);
	while (k->running)
		pthread_join(k->threads[--k->running], NULL);
	pthread_cond_destroy(&k->stop);
}
