/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/load_finish.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/nice.h"
#include "map/value.h"

enum { NICE_FINISHING = 10 };

struct finishing {
	const struct finishers *all;
	struct load_means *means;
	struct load *load;
	int64_t until; /* clock_now(): storing stops then, so that a slow memcached does not hold the thread for ever */
	const char *given_up; /* why, or NULL */
	/* for a symbol file */
	struct symmap *text; /* NULL: all pages are made already */
	struct symmap_maker maker;
	struct sympages_counts counts;
	uint64_t damaged;    /* lines that the index counted as damaged */
	uint64_t step, made; /* step: pages seen in this pass; made: pages made, and so counted, in all passes */
	bool keeps;          /* keep every page in the cache; otherwise only while there is room */
};

/* Why finishing is no longer useful; NULL: it is. Call with the lock held. */
static const char *why_over(const struct finishing *f)
{
	return f->means->stopping     ? "the process ends"
	       : f->load->lease.stale ? "the module was invalidated meanwhile"
	                              : NULL;
}

/* Called before each page. The text of earlier pages may have been freed, so there may be room for another load. */
static bool is_over(struct finishing *f)
{
	pthread_mutex_lock(f->all->lock);
	queue_room(f->all->queue);
	f->given_up = why_over(f);
	pthread_mutex_unlock(f->all->lock);
	return f->given_up != NULL;
}

static bool may_store(void *arg)
{
	struct finishing *f = arg;
	pthread_mutex_lock(f->all->lock);
	queue_room(f->all->queue);
	f->given_up = why_over(f);
	if (!f->given_up && f->load->lease.lost)
		f->given_up = "its lease was lost: another process may load it too";
	pthread_mutex_unlock(f->all->lock);
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
	return page_memcached_reachable(memcached, &f->load->lease.hash)
	               ? "memcached answers, and takes no value: it may have no memory for its size"
	               : "memcached does not answer";
}

/* ---- pages of a text ---- */

/* Puts the page into the cache if it should stay there, and returns whether it does. *p becomes the page as cached,
 * perhaps compressed. */
static bool keep_page(struct finishing *f, uint32_t number, struct page **p, uint64_t raw_bytes)
{
	const struct offmap_options options = load_options(f->means, NULL);
	if (raw_bytes > options.raw_budget)
		*p = page_compress(*p, options.codec);
	if (!f->keeps && !page_cache_has_room(f->means->cache, (*p)->len))
		return false;
	module_put_page(f->means->cache, f->load->module, number, *p);
	page_cache_evict(f->means->cache);
	return true;
}

/* The next page of a pass over all pages. The text of a page that stays in the cache is freed, so a second pass does
 * not make it again. */
static struct page *make_page(void *arg, enum page_kind kind, uint32_t number)
{
	struct finishing *f = arg;
	struct offmap *map = f->load->module->map;
	bool again = f->step++ < f->made;
	struct page *p = again ? module_slot_page(f->load->module, kind, number) : NULL;
	if (p)
		return p;
	p = symmap_make(&f->maker, kind, number, again ? NULL : &f->counts);
	if (!p)
		return NULL;
	if (!again) {
		f->made++;
		map->raw_bytes += p->len;
		map->lines = f->counts.lines;
		map->inlines = f->counts.inlines;
		map->damaged = f->damaged + f->counts.damaged;
	}
	if (keep_page(f, number, &p, map->raw_bytes))
		symmap_made(f->text, kind, number);
	symmap_charge(f->text, &f->maker);
	return p;
}

static bool keep_pages(struct finishing *f, enum page_kind kind, uint32_t count, const uint32_t *order)
{
	for (uint32_t i = 0; i < count; i++) {
		struct page *p = is_over(f) ? NULL : make_page(f, kind, order ? order[i] : i);
		if (!p)
			return false;
		page_unref(p);
	}
	return true;
}

static bool keep_map(struct finishing *f)
{
	const struct offmap *map = f->load->module->map;
	f->keeps = true;
	f->step = 0;
	return keep_pages(f, PAGE_STRINGS, map->string_count, NULL) &&
	       keep_pages(f, PAGE_CODE, map->code_count, symmap_order(f->text));
}

/* ---- memcached ---- */

static struct page *slot_page(void *arg, enum page_kind kind, uint32_t number)
{
	const struct finishing *f = arg;
	return module_slot_page(f->load->module, kind, number);
}

static bool store_map(struct mc_client *memcached, struct finishing *f)
{
	const struct config *c = f->means->config;
	struct load *l = f->load;
	int64_t start = clock_now();
	uint64_t bytes;
	struct store_options options = {c->codec == CODEC_CHOICE_ZSTD  ? CODEC_ZSTD
	                                : c->codec == CODEC_CHOICE_LZ4 ? CODEC_LZ4
	                                                               : CODEC_RAW,
	        c->memcached_item_max, (uint32_t)(c->root_max_age / SECOND)};
	struct store_source source = {
	        f->text ? make_page : slot_page, may_store, f->text ? symmap_order(f->text) : NULL, f};
	f->until = start + c->bucket_total_timeout;
	enum mc_status status = page_memcached_store(memcached, l->module, &options, &source, &bytes);
	histogram_observe(H_STORE, clock_now() - start);
	if (status == MC_OK) {
		atomic_store(&l->module->stored, true);
		metric_set(M_LAST_MAP_STORED_BYTES, (int64_t)bytes);
		return true;
	}
	metric_add(M_STORES_FAILED, 1);
	log_event(LOG_LEVEL_WARNING, "not stored", "%s/%s: %s", l->name, l->id, why_not_stored(memcached, f, status));
	return false;
}

/* ---- the end of a load ---- */

/* Call when all pages are counted, and in memcached or the cache. */
static void let_text_go(struct finishing *f)
{
	struct load *l = f->load;
	uint64_t damaged = l->module->map->damaged;
	atomic_store(&l->module->damaged, damaged);
	module_drop_text(l->module);
	metric_set(M_LAST_MAP_RAW_BYTES, (int64_t)l->module->map->raw_bytes);
	metric_add(M_PARSE_DAMAGED_LINES, (int64_t)damaged);
	if (damaged)
		log_event(LOG_LEVEL_INFO, "damaged lines", "%s/%s: %llu lines skipped", l->name, l->id,
		        (unsigned long long)damaged);
}

static bool finish_text(struct mc_client *memcached, struct finishing *f, bool stores)
{
	if (!symmap_take(f->text, true, &f->maker))
		return false;
	f->load->module->map->raw_bytes = 0;
	bool done =
	        sympages_count_rest(f->maker.pages, &f->counts) && ((stores && store_map(memcached, f)) || keep_map(f));
	symmap_give(f->text, &f->maker);
	return done;
}

static void finish_module(struct mc_client *memcached, struct finishing *f)
{
	struct load *l = f->load;
	bool stores = memcached && l->lease.held && !atomic_load(&l->module->stored) && l->lost < 2;
	if (f->text && finish_text(memcached, f, stores))
		let_text_go(f);
	else if (f->text) /* out of memory: requests that hold the module can still make its pages, the next request
	                     loads it again */
		page_cache_remove(f->means->cache, &l->lease.hash, l->module);
	else if (stores)
		store_map(memcached, f);
}

static void finish_load(struct finishers *all, struct load *l, struct mc_client *memcached)
{
	if (l->module) {
		struct finishing f = {.all = all,
		        .means = all->means,
		        .load = l,
		        .text = l->text,
		        .damaged = l->module->map->damaged};
		finish_module(memcached, &f);
	}
	if (l->lease.held)
		lease_give_back(all->leases, &l->lease, memcached);
	if (l->module) {
		atomic_fetch_sub(&l->module->holds, 1);
		module_unref(l->module);
	}
	symmap_unref(l->text);
	load_free(l);
	pthread_mutex_lock(all->lock);
	queue_finished(all->queue);
	pthread_mutex_unlock(all->lock);
}

void load_finish(struct finishers *all, struct load *l, struct mc_client *memcached)
{
	bool later = l->module && !atomic_load(&l->module->stored);
	pthread_mutex_lock(all->lock);
	if (later) {
		STAILQ_INSERT_TAIL(&all->waiting, l, queued);
		pthread_cond_signal(&all->added);
	}
	pthread_mutex_unlock(all->lock);
	if (!later)
		finish_load(all, l, memcached);
}

/* ---- threads ---- */

static void *finisher_main(void *arg)
{
	struct finishers *all = arg;
	struct mc_client *memcached = NULL;
	give_way(NICE_FINISHING);
	for (;;) {
		struct load *l;
		pthread_mutex_lock(all->lock);
		while (!(l = STAILQ_FIRST(&all->waiting)) && !all->ended)
			pthread_cond_wait(&all->added, all->lock);
		if (l)
			STAILQ_REMOVE_HEAD(&all->waiting, queued);
		pthread_mutex_unlock(all->lock);
		if (!l)
			break;
		if (!memcached)
			memcached = mc_client_new(all->means->servers);
		finish_load(all, l, memcached);
	}
	mc_client_free(memcached);
	return NULL;
}

void finishers_init(struct finishers *all, pthread_mutex_t *lock, struct load_means *means, struct leases *leases,
        struct load_queue *queue)
{
	*all = (struct finishers){.lock = lock, .means = means, .leases = leases, .queue = queue};
	STAILQ_INIT(&all->waiting);
	clock_condition_init(&all->added);
}

bool finishers_start(struct finishers *all)
{
	while (all->count < FINISHERS && pthread_create(&all->threads[all->count], NULL, finisher_main, all) == 0)
		all->count++;
	return all->count == FINISHERS;
}

void finishers_stop(struct finishers *all)
{
	pthread_mutex_lock(all->lock);
	all->ended = true;
	pthread_cond_broadcast(&all->added);
	pthread_mutex_unlock(all->lock);
	for (unsigned i = 0; i < all->count; i++)
		pthread_join(all->threads[i], NULL);
	pthread_cond_destroy(&all->added);
}
