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

struct finishing {
	struct finishers *all;
	struct module *module;
	int64_t until; /* clock_now(): storing stops then, so that a slow memcached does not hold the thread for ever */
	const char *given_up; /* why, or NULL */
	struct symmap *text;
	struct symmap_maker maker;
	uint64_t raw_bytes, passed; /* of the pages that this pass over all has come by; how many */
	bool keeps;                 /* keep every page in the cache; otherwise only while there is room */
};

static const char invalidated[] = "the module was invalidated or evicted meanwhile";

/* Takes the lock. Why it is no longer useful to finish the module, or its load; NULL: it is. */
static const char *why_over(struct finishers *all, struct module *m, const struct load *l)
{
	const char *why = NULL;
	pthread_mutex_lock(&all->loads->lock);
	if (all->loads->context->stopping)
		why = "the process is stopping";
	else if (l ? l->lease.stale : !module_is_cached(m))
		why = invalidated;
	else if (l && l->lease.lost)
		why = "its lease was lost: another process may load it too";
	pthread_mutex_unlock(&all->loads->lock);
	return why;
}

static bool may_store(void *arg)
{
	struct finishing *f = arg;
	f->given_up = why_over(f->all, f->module, NULL);
	if (!f->given_up && clock_now() >= f->until)
		f->given_up = "it took longer than bucket_total_timeout";
	return !f->given_up;
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

/* ---- pages made from records ---- */

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

/* Counts a page. Only the last one makes the map whole: a root that is stored before must not say that it is. */
static void count_page(struct finishing *f, const struct page *p)
{
	struct offmap *map = f->module->map;
	f->raw_bytes += p->raw_len;
	if (++f->passed < (uint64_t)map->code_count + map->string_count)
		return;
	pthread_mutex_lock(&f->module->lock);
	map->raw_bytes = f->raw_bytes;
	pthread_mutex_unlock(&f->module->lock);
}

/* The next page of a pass over all pages. */
static struct page *next_page(void *arg, enum page_kind kind, uint32_t number)
{
	struct finishing *f = arg;
	struct page *p = module_slot_page(f->module, kind, number);
	bool had = p != NULL;
	background_give_way();
	if (!had && !(p = symmap_make(&f->maker, kind, number)))
		return NULL;
	count_page(f, p);
	if (!had)
		keep_page(f, number, &p);
	symmap_charge(f->text, &f->maker);
	return p;
}

static bool keep_map(struct finishing *f)
{
	const struct offmap *map = f->module->map;
	uint64_t strings = map->string_count, all = strings + map->code_count;
	f->keeps = true;
	f->raw_bytes = f->passed = 0;
	for (uint64_t i = 0; i < all; i++) {
		struct page *p = NULL;
		if (!why_over(f->all, f->module, NULL))
			p = next_page(
			        f, i < strings ? PAGE_STRINGS : PAGE_CODE, (uint32_t)(i < strings ? i : i - strings));
		if (!p)
			return false;
		page_unref(p);
	}
	return true;
}

/* ---- memcached ---- */

static bool store_map(struct mc_client *memcached, struct finishing *f)
{
	int64_t start = clock_now();
	uint64_t bytes;
	struct store_source source = {next_page, may_store, f};
	f->until = start + f->all->loads->context->config->bucket_total_timeout;
	enum mc_status status = page_memcached_store(memcached, f->module, &f->all->options, &source, &bytes);
	histogram_observe(H_STORE, clock_now() - start);
	if (status == MC_OK) {
		metric_set(M_LAST_MAP_STORED_BYTES, (int64_t)bytes);
		return true;
	}
	metric_add(M_STORES_FAILED, 1);
	log_event(LOG_LEVEL_WARNING, "not stored", "%s: %s", f->module->label, why_not_stored(memcached, f, status));
	return false;
}

/* ---- one map ---- */

/* Where all pages are now; FINISHING: nowhere. */
static enum module_state make_all(struct mc_client *memcached, struct finishing *f, bool stores)
{
	enum module_state state = MODULE_FINISHING;
	if (!symmap_take(f->text, true, &f->maker))
		return state;
	if (stores && store_map(memcached, f))
		state = MODULE_STORED;
	else if (keep_map(f))
		state = MODULE_WHOLE;
	symmap_give(f->text, &f->maker);
	return state;
}

static void finish_text(struct mc_client *memcached, struct finishing *f)
{
	const struct offmap *map = f->module->map;
	bool stores = memcached && mc_enabled(f->all->loads->context->servers) && atomic_load(&f->module->shared);
	struct root_get elsewhere = {.hash = &f->module->hash, .want_root = true};
	if (stores)
		page_memcached_roots(memcached, &elsewhere, 1, INT64_MAX);
	bool whole = elsewhere.map && offmap_is_whole(elsewhere.map) && elsewhere.map->generation == map->generation;
	offmap_free(elsewhere.map);
	/* Without a marker it may be what was invalidated meanwhile: it stays in this process, until it is asked for.
	 */
	bool outdated = elsewhere.reached && map->marker && elsewhere.marker != map->marker;
	if (elsewhere.reached && !map->marker) {
		stores = false;
		metric_add(M_STORES_FAILED, 1);
		log_event(LOG_LEVEL_WARNING, "not stored", "%s: memcached did not answer when its load began",
		        f->module->label);
	}
	const char *over = outdated ? invalidated : why_over(f->all, f->module, NULL);
	if (over) {
		metric_add(M_STORES_FAILED, stores);
		log_event(LOG_LEVEL_WARNING, "not stored", "%s: %s", f->module->label, over);
		return;
	}
	enum module_state state = whole ? MODULE_STORED : make_all(memcached, f, stores); /* whole: by another host */
	if (state != MODULE_FINISHING) {
		module_finished(f->module, state);
		metric_set(M_LAST_MAP_RAW_BYTES, (int64_t)map->raw_bytes);
	} else { /* out of memory: requests that hold the module can still make its pages, the next one loads it again
		  */
		page_cache_remove(f->all->loads->context->cache, &f->module->hash, f->module);
	}
}

static void run_job(struct finishers *all, const struct finish_job *job, struct mc_client *memcached)
{
	struct module *m = job->module;
	if (job->page) {
		if (memcached && !atomic_load(&all->loads->context->stopping))
			page_memcached_store_page(memcached, m, job->number, job->page, &all->options);
		atomic_fetch_add(&m->sent, 1);
		return;
	}
	struct finishing f = {.all = all, .module = m, .text = m->records};
	atomic_fetch_add(&m->holds, 1);
	finish_text(memcached, &f);
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
	pthread_mutex_lock(&all->loads->lock);
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
	pthread_mutex_unlock(&all->loads->lock);
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
	struct loads *ls = all->loads;
	struct finish_job *job;
	pthread_mutex_lock(&ls->lock);
	while (!(job = first_job(all, q)) && !(all->ended && STAILQ_EMPTY(&q->jobs)))
		if (STAILQ_EMPTY(&q->jobs))
			pthread_cond_wait(&all->added, &ls->lock);
		else
			clock_wait(&all->added, &ls->lock, clock_now() + PAUSE_MS * MS);
	if (job)
		STAILQ_REMOVE(&q->jobs, job, finish_job, next);
	pthread_mutex_unlock(&ls->lock);
	return job;
}

static void end_job(struct finishers *all, struct finish_queue *q, struct finish_job *job)
{
	pthread_mutex_lock(&all->loads->lock);
	q->count--;
	pthread_mutex_unlock(&all->loads->lock);
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
	enum module_state state = MODULE_LOADED;
	if (*m->label && atomic_compare_exchange_strong(&m->state, &state, MODULE_FINISHING) &&
	        !add_job(all, &all->maps, (struct finish_job){.module = m}))
		atomic_store(&m->state, MODULE_LOADED);
}

void finish_when_idle(struct finishers *all, int64_t now)
{
	struct loads *ls = all->loads;
	pthread_mutex_lock(&ls->lock);
	bool idle = all->maps.count < FINISHERS && !ls->unfinished && !ls->context->stopping &&
	            now - ls->last_end >= ls->context->config->finish_after;
	pthread_mutex_unlock(&ls->lock);
	struct module *m = idle ? page_cache_unfinished(ls->context->cache) : NULL;
	if (m)
		finish_module(all, m);
	module_unref(m);
}

/* Stores the root under the lease: other hosts that wait for it then find the module. Those who waited here make their
 * first pages meanwhile, and others will ask for the same. */
static void announce(struct finishers *all, struct load *l, struct mc_client *memcached)
{
	for (unsigned i = 0; i < FIRST_PAGE_MS && !atomic_load(&l->module->sent) && !why_over(all, l->module, l); i++)
		nanosleep(&(struct timespec){0, MS}, NULL);
	if (!why_over(all, l->module, l))
		page_memcached_store_root(memcached, l->module, &all->options);
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
	pthread_mutex_lock(&all->loads->lock);
	all->ended = true;
	pthread_cond_broadcast(&all->added);
	pthread_mutex_unlock(&all->loads->lock);
	for (unsigned i = 0; i < all->count; i++)
		pthread_join(all->threads[i], NULL);
	pthread_cond_destroy(&all->added);
}
