/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/finish.h"

#include <stdlib.h>

#include "base/account.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "map/value.h"

enum {
	PAGES_WAITING = 4096, /* pages that may wait to be sent */
	FIRST_PAGE_MS = 20,   /* the root waits so long for the pages of who waited for the load */
	PAUSE_MS = 500,       /* while memory is full */
};

/* A map to be made whole, or a page to be sent. */
struct finish_job {
	STAILQ_ENTRY(finish_job) next;
	struct module *module; /* a reference */
	struct page *page;     /* a reference; NULL: the map */
	uint32_t number;       /* of the page */
};

/* A map whose pages are made. */
struct finishing {
	struct finishers *all;
	struct module *module;
	struct symmap_maker maker;
	int64_t until; /* clock_now(): storing stops then, so that a slow memcached does not hold the thread for ever */
	const char *given_up; /* why, or NULL */
	uint64_t raw_bytes;   /* of the pages that this pass over all has come by */
	bool keeps;           /* keep every page in the cache; otherwise only while there is room */
};

static const char invalidated[] = "the module was invalidated or evicted meanwhile";

/* ---- one pass over all pages ---- */

static bool goes_on(void *arg)
{
	struct finishing *f = arg;
	f->given_up = atomic_load(&f->all->loads->context->stopping) ? "the process is stopping"
	              : !module_is_cached(f->module)                 ? invalidated
	              : clock_now() >= f->until                      ? "it took longer than bucket_total_timeout"
	                                                             : NULL;
	return !f->given_up;
}

/* Puts a page that was made into the cache, if it should stay there. */
static void keep_page(struct finishing *f, uint32_t number, struct page **p)
{
	struct page_cache *cache = f->all->loads->context->cache;
	const struct config *c = f->all->loads->context->config;
	if (f->raw_bytes > c->cache_size / 4)
		*p = page_compress(*p, c->codec == CODEC_CHOICE_ZSTD ? CODEC_ZSTD : CODEC_LZ4);
	if (!f->keeps && !page_cache_has_room(cache, (*p)->len))
		return;
	module_put_page(cache, f->module, number, *p);
	page_cache_evict(cache);
}

/* The page, made if it is missing; NULL: out of memory. */
static struct page *take_page(struct finishing *f, enum page_kind kind, uint32_t number)
{
	struct page *p = module_slot_page(f->module, kind, number);
	bool had = p != NULL;
	background_give_way();
	if (!had && !(p = symmap_make(&f->maker, kind, number)))
		return NULL;
	f->raw_bytes += p->raw_len;
	if (!had)
		keep_page(f, number, &p);
	symmap_charge(f->module->records, &f->maker);
	return p;
}

/* Makes all pages, and stores them if there is a store. Then the map is whole, which its root tells. */
static enum mc_status make_pages(struct finishing *f, struct page_store *store)
{
	struct offmap *map = f->module->map;
	const uint64_t strings = map->string_count, all = strings + map->code_count;
	enum mc_status status = MC_OK;
	f->raw_bytes = 0;
	f->keeps = !store;
	for (uint64_t i = 0; i < all && status == MC_OK; i++) {
		const bool is_string = i < strings;
		const uint32_t number = (uint32_t)(is_string ? i : i - strings);
		struct page *p = goes_on(f) ? take_page(f, is_string ? PAGE_STRINGS : PAGE_CODE, number) : NULL;
		status = !p ? MC_DOWN : store ? page_store_page(store, number, p) : MC_OK;
		page_unref(p);
	}
	if (status == MC_OK && store)
		status = page_store_flush(store);
	if (status != MC_OK)
		return status;
	pthread_mutex_lock(&f->module->lock);
	map->raw_bytes = f->raw_bytes;
	pthread_mutex_unlock(&f->module->lock);
	return !store ? MC_OK : goes_on(f) ? page_store_root(store) : MC_DOWN;
}

/* ---- one map ---- */

static void not_stored(const struct finishing *f, bool counts, const char *why)
{
	metric_add(M_STORES_FAILED, counts);
	log_event(LOG_LEVEL_WARNING, "not stored", "%s: %s", f->module->label, why);
}

static const char *why_not_stored(struct mc_client *memcached, const struct finishing *f, enum mc_status status)
{
	if (status == MC_TOO_LARGE)
		return "a value is above memcached's item limit (memcached_item_max)";
	if (f->given_up)
		return f->given_up;
	return page_memcached_reachable(memcached, &f->module->hash)
	               ? "memcached answers but refuses the value: it may be out of memory for values of this size"
	               : "memcached does not answer";
}

static bool store_map(struct mc_client *memcached, struct finishing *f)
{
	const int64_t start = clock_now();
	struct page_store *store = page_store_new(memcached, f->module, &f->all->options, goes_on, f);
	f->until = start + f->all->loads->context->config->bucket_total_timeout;
	const enum mc_status status = store ? make_pages(f, store) : MC_DOWN;
	const uint64_t bytes = page_store_free(store);
	histogram_observe(H_STORE, clock_now() - start);
	if (status == MC_OK)
		metric_set(M_LAST_MAP_STORED_BYTES, (int64_t)bytes);
	else
		not_stored(f, true, why_not_stored(memcached, f, status));
	return status == MC_OK;
}

/* Where all pages are now; FINISHING: nowhere. */
static enum life make_all(struct mc_client *memcached, struct finishing *f, bool stores)
{
	enum life life = LIFE_FINISHING;
	if (!symmap_take(f->module->records, true, &f->maker))
		return life;
	if (stores && store_map(memcached, f))
		life = LIFE_STORED;
	f->until = INT64_MAX;
	if (life == LIFE_FINISHING && make_pages(f, NULL) == MC_OK)
		life = LIFE_WHOLE;
	symmap_give(f->module->records, &f->maker);
	return life;
}

/* Whether its pages are to be stored. *whole: another host has stored them all. */
static bool ask_memcached(struct mc_client *memcached, struct finishing *f, bool *whole)
{
	const struct offmap *map = f->module->map;
	struct root_get there = {
	        .hash = &f->module->hash, .want_root = true, .origins = &map->origin, .origin_count = map->origin != 0};
	*whole = false;
	if (!memcached || !mc_enabled(f->all->loads->context->servers) || !atomic_load(&f->module->shared))
		return false;
	page_memcached_roots(memcached, &there, 1, INT64_MAX);
	*whole = there.map && offmap_is_whole(there.map) && there.map->generation == map->generation;
	offmap_free(there.map);
	if (!there.reached || (map->marker && there.marker == map->marker))
		return true;
	if (map->marker)
		f->given_up = invalidated;
	else /* It may be what was invalidated meanwhile: it stays in this process, until it is asked for. */
		not_stored(f, true, "memcached did not answer when its load began");
	return map->marker;
}

static void finish_map(struct finishers *all, struct module *m, struct mc_client *memcached)
{
	struct finishing f = {.all = all, .module = m, .until = INT64_MAX};
	bool whole, stores = ask_memcached(memcached, &f, &whole);
	if (f.given_up || !goes_on(&f)) {
		not_stored(&f, stores, f.given_up);
		return;
	}
	enum life life = whole ? LIFE_STORED : make_all(memcached, &f, stores);
	if (life != LIFE_FINISHING) {
		loads_made_whole(all->loads, m, life);
		metric_set(M_LAST_MAP_RAW_BYTES, (int64_t)m->map->raw_bytes);
	} else { /* out of memory: requests that hold the module can still make its pages, the next one loads it again
		  */
		page_cache_remove(all->loads->context->cache, &m->hash, m);
	}
}

static void run_job(struct finishers *all, const struct finish_job *job, struct mc_client *memcached)
{
	struct module *m = job->module;
	if (job->page) {
		if (memcached && !atomic_load(&all->loads->context->stopping))
			page_memcached_store(memcached, m, &all->options, job->number, job->page);
		atomic_fetch_add(&m->sent, 1);
		return;
	}
	atomic_fetch_add(&m->holds, 1);
	finish_map(all, m, memcached);
	atomic_fetch_sub(&m->holds, 1);
	metric_add(M_LOADS_IN_FLIGHT, -1);
}

/* ---- the queues ---- */

/* False: out of memory, the queue is full, or nobody takes jobs any more. */
static bool add_job(struct finishers *all, struct finish_queue *q, struct finish_job what)
{
	struct finish_job *job = malloc(sizeof *job);
	if (!job)
		return false;
	*job = what;
	pthread_mutex_lock(&all->lock);
	bool takes = !all->ended && (!job->page || q->count < PAGES_WAITING);
	if (takes) {
		module_ref(job->module);
		if (job->page)
			page_ref(job->page);
		metric_add(M_LOADS_IN_FLIGHT, !job->page);
		STAILQ_INSERT_TAIL(&q->jobs, job, next);
		q->count++;
		pthread_cond_broadcast(&all->added);
	}
	pthread_mutex_unlock(&all->lock);
	if (!takes)
		free(job);
	return takes;
}

/* The first that can be done now. While memory is full, maps are not made whole, and may be evicted, which frees their
 * records. */
static struct finish_job *first_job(const struct finishers *all, const struct finish_queue *q)
{
	const bool all_can = account_left() || all->loads->context->stopping;
	struct finish_job *job;
	STAILQ_FOREACH(job, &q->jobs, next)
		if (all_can || job->page || !module_is_cached(job->module))
			break;
	return job;
}

/* Waits for the next job; NULL at the end. */
static struct finish_job *take_job(struct finishers *all, struct finish_queue *q)
{
	struct finish_job *job;
	pthread_mutex_lock(&all->lock);
	while (!(job = first_job(all, q)) && !(all->ended && STAILQ_EMPTY(&q->jobs)))
		if (STAILQ_EMPTY(&q->jobs))
			pthread_cond_wait(&all->added, &all->lock);
		else
			clock_wait(&all->added, &all->lock, clock_now() + PAUSE_MS * MS);
	if (job)
		STAILQ_REMOVE(&q->jobs, job, finish_job, next);
	pthread_mutex_unlock(&all->lock);
	return job;
}

static void end_job(struct finishers *all, struct finish_queue *q, struct finish_job *job)
{
	pthread_mutex_lock(&all->lock);
	q->count--;
	pthread_mutex_unlock(&all->lock);
	page_unref(job->page);
	module_unref(job->module);
	free(job);
}

static void *run_jobs(struct finishers *all, struct finish_queue *q)
{
	struct mc_client *memcached = NULL;
	struct finish_job *job;
	while ((job = take_job(all, q))) {
		if (!memcached)
			memcached = mc_client_new(all->loads->context->servers);
		run_job(all, job, memcached);
		end_job(all, q, job);
		if (q == &all->maps) /* the next one at once: a process may have hundreds */
			finish_when_idle(all, clock_now());
	}
	mc_client_free(memcached);
	return NULL;
}

static void *finisher_main(void *arg)
{
	struct finishers *all = arg;
	background_enter(false);
	run_jobs(all, &all->maps);
	background_leave();
	return NULL;
}

static void *sender_main(void *arg)
{
	struct finishers *all = arg;
	return run_jobs(all, &all->pages);
}

/* ---- what others call ---- */

void finish_module(struct finishers *all, struct module *m)
{
	if (*m->label && loads_finishing(all->loads, m, true) &&
	        !add_job(all, &all->maps, (struct finish_job){.module = m}))
		loads_finishing(all->loads, m, false);
}

void finish_when_idle(struct finishers *all, int64_t now)
{
	struct load_context *context = all->loads->context;
	pthread_mutex_lock(&all->lock);
	bool idle = all->maps.count < FINISHERS;
	pthread_mutex_unlock(&all->lock);
	idle = idle && !atomic_load(&context->stopping) && loads_are_idle(all->loads, now);
	struct module *m = idle ? page_cache_unfinished(context->cache) : NULL;
	if (m)
		finish_module(all, m);
	module_unref(m);
}

/* Stores the root under the lease: other hosts that wait for it then find the module. Those who waited here make their
 * first pages meanwhile, and others will ask for the same. */
static void announce(struct finishers *all, struct load *l, struct mc_client *memcached)
{
	const atomic_bool *stopping = &all->loads->context->stopping;
	for (unsigned i = 0; i < FIRST_PAGE_MS && !atomic_load(&l->module->sent) && !atomic_load(stopping); i++)
		nanosleep(&(struct timespec){0, MS}, NULL);
	if (!atomic_load(stopping) && loads_may_share(all->loads, l))
		page_memcached_store(memcached, l->module, &all->options, 0, NULL);
}

void finish_load(struct finishers *all, struct load *l, struct mc_client *memcached)
{
	if (l->loaded && atomic_load(&l->module->shared) && l->lease.held)
		announce(all, l, memcached);
	if (l->loaded && (l->lost || !all->loads->context->config->finish_after)) /* it was asked for before */
		finish_module(all, l->module);
	if (l->lease.held)
		lease_give_back(all->loads, l, memcached);
	if (l->module) {
		atomic_fetch_sub(&l->module->holds, 1);
		module_unref(l->module);
	}
	loads_finished(all->loads, l);
}

void finish_page(struct finishers *all, struct module *m, uint32_t number, struct page *p)
{
	if (atomic_load(&m->shared))
		add_job(all, &all->pages, (struct finish_job){.module = m, .page = p, .number = number});
}

/* ---- start and stop ---- */

void finishers_init(struct finishers *all, struct loads *loads)
{
	const struct config *c = loads->context->config;
	*all = (struct finishers){.loads = loads,
	        .options = {c->codec == CODEC_CHOICE_ZSTD  ? CODEC_ZSTD
	                    : c->codec == CODEC_CHOICE_LZ4 ? CODEC_LZ4
	                                                   : CODEC_RAW,
	                c->memcached_item_max, (uint32_t)(c->root_max_age / SECOND),
	                (uint32_t)(lacking_ttl(c) / SECOND)}};
	STAILQ_INIT(&all->maps.jobs);
	STAILQ_INIT(&all->pages.jobs);
	pthread_mutex_init(&all->lock, NULL);
	clock_condition_init(&all->added);
}

bool finishers_start(struct finishers *all)
{
	while (all->count <= FINISHERS && pthread_create(&all->threads[all->count], NULL,
	                                          all->count < FINISHERS ? finisher_main : sender_main, all) == 0)
		all->count++;
	return all->count == FINISHERS + 1;
}

void finishers_stop(struct finishers *all)
{
	pthread_mutex_lock(&all->lock);
	all->ended = true;
	pthread_cond_broadcast(&all->added);
	pthread_mutex_unlock(&all->lock);
	for (unsigned i = 0; i < all->count; i++)
		pthread_join(all->threads[i], NULL);
}

void finishers_release(struct finishers *all)
{
	pthread_cond_destroy(&all->added);
	pthread_mutex_destroy(&all->lock);
}
