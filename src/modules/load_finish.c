/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behind the reply: threads that give way to all others make the pages that nobody has asked for, write the map to
 * memcached and let the text go. Where memcached does not get the map, its pages stay in the cache: raw up to a quarter
 * of that, the rest compressed.
 */
#include <config.h>

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/nice.h"
#include "format/offmap_value.h"
#include "format/symmap.h"
#include "modules/load.h"

enum { NICE_FINISHING = 10 };

struct finishing {
	struct modules *modules;
	struct load *load;
	int64_t until;        /* a memcached that is slow does not hold a thread for ever */
	const char *given_up; /* why, or NULL */
	/* of a symbol file */
	struct symmap *text; /* NULL: all pages are there */
	struct symmap_maker maker;
	struct sympages_counts counts;
	uint64_t damaged; /* lines that the index has counted */
	bool keeps;       /* all pages stay in the cache, else as far as there is room */
};

/* It is of no use to finish it. */
static bool is_over(struct finishing *f)
{
	pthread_mutex_lock(&f->modules->lock);
	f->given_up = f->modules->stopping ? "the process ends"
	              : f->load->stale     ? "the module was invalidated meanwhile"
	                                   : NULL;
	pthread_mutex_unlock(&f->modules->lock);
	return f->given_up != NULL;
}

static bool may_store(void *arg)
{
	struct finishing *f = arg;
	if (is_over(f))
		return false;
	pthread_mutex_lock(&f->modules->lock);
	f->given_up = f->load->lease_lost       ? "its lease was lost: another process may load it too"
	              : clock_now() >= f->until ? "it took longer than bucket_total_timeout"
	                                        : NULL;
	pthread_mutex_unlock(&f->modules->lock);
	return !f->given_up;
}

static const char *why_not_stored(struct loader *r, const struct finishing *f, enum mc_status status)
{
	if (status == MC_TOO_LARGE)
		return "a value is above memcached's item limit (memcached_item_max)";
	if (f->given_up)
		return f->given_up;
	return page_memcached_reachable(r->memcached, &f->load->hash)
	               ? "memcached answers, and takes no value: it may have no memory for its size"
	               : "memcached does not answer";
}

/* ---- pages of a text ---- */

static bool begin_pages(struct finishing *f)
{
	struct offmap *map = f->load->module->map;
	map->raw_bytes = 0;
	f->counts = (struct sympages_counts){0};
	return sympages_count_rest(f->maker.pages, &f->counts);
}

static void keep_page(struct finishing *f, uint32_t number, struct page *p, uint64_t raw_bytes)
{
	const struct offmap_options options = load_options(f->modules);
	bool raw = raw_bytes <= options.raw_budget;
	if (!f->keeps && (!raw || !page_cache_has_room(f->modules->cache, p->len)))
		return;
	page_ref(p);
	if (!raw)
		p = page_compress(p, options.codec);
	module_put_page(f->modules->cache, f->load->module, number, p);
	page_unref(p);
}

static struct page *make_page(void *arg, enum page_kind kind, uint32_t number)
{
	struct finishing *f = arg;
	struct offmap *map = f->load->module->map;
	struct page *p = symmap_make(&f->maker, kind, number, &f->counts);
	symmap_charge(f->text, &f->maker);
	if (!p)
		return NULL;
	map->raw_bytes += p->len;
	map->lines = f->counts.lines;
	map->inlines = f->counts.inlines;
	map->damaged = f->damaged + f->counts.damaged;
	keep_page(f, number, p, map->raw_bytes);
	return p;
}

static bool keep_pages(struct finishing *f, enum page_kind kind, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct page *p = is_over(f) ? NULL : make_page(f, kind, i);
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
	return begin_pages(f) && keep_pages(f, PAGE_STRINGS, map->string_count) &&
	       keep_pages(f, PAGE_CODE, map->code_count);
}

/* ---- memcached ---- */

static struct page *slot_page(void *arg, enum page_kind kind, uint32_t number)
{
	const struct finishing *f = arg;
	return module_slot_page(f->load->module, kind, number);
}

static bool store_map(struct loader *r, struct finishing *f)
{
	const struct config *c = f->modules->config;
	struct load *l = f->load;
	int64_t start = clock_now();
	uint64_t bytes;
	struct store_options options = {c->codec == CODEC_CHOICE_ZSTD  ? CODEC_ZSTD
	                                : c->codec == CODEC_CHOICE_LZ4 ? CODEC_LZ4
	                                                               : CODEC_RAW,
	        c->memcached_item_max, (uint32_t)(c->root_max_age / SECOND)};
	struct store_source source = {f->text ? make_page : slot_page, may_store, f};
	enum mc_status status = MC_DOWN;
	f->until = start + c->bucket_total_timeout;
	if (!f->text || begin_pages(f))
		status = page_memcached_store(r->memcached, l->module, &options, &source, &bytes);
	histogram_observe(H_STORE, clock_now() - start);
	if (status == MC_OK) {
		atomic_store(&l->module->stored, true);
		metric_set(M_LAST_MAP_STORED_BYTES, (int64_t)bytes);
		return true;
	}
	metric_add(M_STORES_FAILED, 1);
	log_event(LOG_LEVEL_WARNING, "not stored", "%s/%s: %s", l->name, l->id, why_not_stored(r, f, status));
	return false;
}

/* ---- the end of a load ---- */

static void drop_lease(struct modules *m, struct load *l)
{
	pthread_mutex_lock(&m->lock);
	*l->lease_link = l->lease_next;
	if (l->lease_next)
		l->lease_next->lease_link = l->lease_link;
	pthread_mutex_unlock(&m->lock);
	l->leased = false;
}

/* All pages are in memcached or in the cache, and counted. */
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

static bool finish_text(struct loader *r, struct finishing *f, bool stores)
{
	if (!symmap_take(f->text, true, &f->maker))
		return false;
	bool done = (stores && store_map(r, f)) || keep_map(f);
	symmap_give(f->text, &f->maker);
	return done;
}

static void finish_module(struct loader *r, struct finishing *f)
{
	struct load *l = f->load;
	bool stores = r->memcached && l->leased && !atomic_load(&l->module->stored) && l->lost < 2;
	if (f->text && finish_text(r, f, stores))
		let_text_go(f);
	else if (f->text) /* no memory: who has it in hand makes pages of it, the next one loads it again */
		page_cache_remove(f->modules->cache, &l->hash, l->module);
	else if (stores)
		store_map(r, f);
}

static void finish(struct loader *r, struct load *l)
{
	struct modules *m = r->modules;
	if (l->module) {
		struct finishing f = {.modules = m, .load = l, .text = l->text, .damaged = l->module->map->damaged};
		finish_module(r, &f);
	}
	if (l->leased) {
		drop_lease(m, l);
		if (r->memcached) /* else it runs out */
			page_memcached_lease_release(r->memcached, &l->hash, l->token);
	}
	if (l->module) {
		atomic_fetch_sub(&l->module->holds, 1);
		module_unref(l->module);
	}
	symmap_unref(l->text);
	uint64_t bytes = l->module_bytes;
	load_free(l);
	pthread_mutex_lock(&m->lock);
	m->unfinished--;
	m->finishing_bytes -= bytes;
	pthread_cond_broadcast(&m->queued);
	pthread_mutex_unlock(&m->lock);
}

void load_finish(struct loader *r, struct load *l)
{
	struct modules *m = r->modules;
	pthread_mutex_lock(&m->lock);
	m->finishing_bytes += l->module_bytes;
	bool later = l->module && !atomic_load(&l->module->stored);
	if (later) {
		l->own_next = NULL;
		*m->finishes_end = l;
		m->finishes_end = &l->own_next;
		pthread_cond_signal(&m->loaded);
	}
	pthread_mutex_unlock(&m->lock);
	if (!later)
		finish(r, l);
}

static void *finisher_main(void *arg)
{
	struct modules *m = arg;
	struct loader r = {.modules = m};
	give_way(NICE_FINISHING);
	for (;;) {
		pthread_mutex_lock(&m->lock);
		while (!m->finishes && !m->stopping)
			pthread_cond_wait(&m->loaded, &m->lock);
		struct load *l = m->finishes;
		if (l && !(m->finishes = l->own_next))
			m->finishes_end = &m->finishes;
		pthread_mutex_unlock(&m->lock);
		if (!l)
			break;
		if (!r.memcached)
			r.memcached = mc_client_new(m->servers);
		finish(&r, l);
	}
	mc_client_free(r.memcached);
	return NULL;
}

bool finishers_start(struct modules *m)
{
	m->finishes_end = &m->finishes;
	while (m->finisher_count < FINISHERS &&
	        pthread_create(&m->finishers[m->finisher_count], NULL, finisher_main, m) == 0)
		m->finisher_count++;
	return m->finisher_count == FINISHERS;
}

void finishers_stop(struct modules *m)
{
	pthread_mutex_lock(&m->lock);
	pthread_cond_broadcast(&m->loaded);
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < m->finisher_count; i++)
		pthread_join(m->finishers[i], NULL);
}
