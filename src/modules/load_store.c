/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behind the reply: a map that was loaded is written to memcached by threads of their own, which give way to those that
 * somebody waits for. A loader that finds too much waiting stores its map itself, so that no more is loaded than can be
 * stored.
 */
#include <config.h>

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/nice.h"
#include "modules/load.h"

static void drop_lease(struct modules *m, struct load *l)
{
	pthread_mutex_lock(&m->lock);
	*l->lease_link = l->lease_next;
	if (l->lease_next)
		l->lease_next->lease_link = l->lease_link;
	pthread_mutex_unlock(&m->lock);
	l->leased = false;
}

struct storing {
	struct modules *modules;
	struct load *load;
	int64_t until;        /* a memcached that is slow does not hold a loader for ever */
	const char *given_up; /* why, or NULL */
};

static bool still_ours(void *arg)
{
	struct storing *s = arg;
	const struct load *l = s->load;
	pthread_mutex_lock(&s->modules->lock);
	s->given_up = s->modules->stopping      ? "the process ends"
	              : l->stale                ? "the module was invalidated meanwhile"
	              : l->lease_lost           ? "its lease was lost: another process may load it too"
	              : clock_now() >= s->until ? "it took longer than bucket_total_timeout"
	                                        : NULL;
	pthread_mutex_unlock(&s->modules->lock);
	return !s->given_up;
}

static const char *why_not_stored(struct loader *r, const struct storing *s, enum mc_status status)
{
	if (status == MC_TOO_LARGE)
		return "a value is above memcached's item limit (memcached_item_max)";
	if (s->given_up)
		return s->given_up;
	return page_memcached_reachable(r->memcached, &s->load->hash)
	               ? "memcached answers, and takes no value: it may have no memory for its size"
	               : "memcached does not answer";
}

static void store_map(struct loader *r, struct load *l)
{
	struct modules *m = r->modules;
	const struct config *c = m->config;
	int64_t start = clock_now();
	struct storing storing = {m, l, start + c->bucket_total_timeout, NULL};
	uint64_t bytes;
	struct store_options options = {c->codec == CODEC_CHOICE_ZSTD  ? CODEC_ZSTD
	                                : c->codec == CODEC_CHOICE_LZ4 ? CODEC_LZ4
	                                                               : CODEC_RAW,
	        c->memcached_item_max, (uint32_t)(c->root_max_age / SECOND)};
	enum mc_status status = page_memcached_store(r->memcached, l->module, &options, still_ours, &storing, &bytes);
	histogram_observe(H_STORE, clock_now() - start);
	if (status == MC_OK) {
		atomic_store(&l->module->stored, true);
		metric_set(M_LAST_MAP_STORED_BYTES, (int64_t)bytes);
	} else {
		metric_add(M_STORES_FAILED, 1);
		log_event(LOG_LEVEL_WARNING, "not stored", "%s/%s: %s", l->name, l->id,
		        why_not_stored(r, &storing, status));
	}
}

/* Writes the map, gives the lease back, and ends the load. */
static void finish(struct loader *r, struct load *l)
{
	struct modules *m = r->modules;
	if (r->memcached && l->leased && l->module && !atomic_load(&l->module->stored) && l->lost < 2)
		store_map(r, l);
	if (l->leased) {
		drop_lease(m, l);
		if (r->memcached) /* else it runs out */
			page_memcached_lease_release(r->memcached, &l->hash, l->token);
	}
	if (l->module) {
		atomic_fetch_sub(&l->module->holds, 1);
		module_unref(l->module);
	}
	load_free(l);
}

void load_store(struct loader *r, struct load *l)
{
	struct modules *m = r->modules;
	uint64_t bytes = l->module ? l->module_bytes : 0;
	bool later = false;
	pthread_mutex_lock(&m->lock);
	if (l->leased && bytes && m->storer_count && m->storing_bytes + bytes <= m->config->cache_size / 2) {
		m->storing_bytes += bytes;
		l->own_next = NULL;
		*m->stores_end = l;
		m->stores_end = &l->own_next;
		pthread_cond_signal(&m->stored);
		later = true;
	}
	pthread_mutex_unlock(&m->lock);
	if (!later)
		finish(r, l);
}

static void *storer_main(void *arg)
{
	struct modules *m = arg;
	struct loader r = {.modules = m};
	give_way(NICE_STORING);
	for (;;) {
		pthread_mutex_lock(&m->lock);
		while (!m->stores && !m->stopping)
			pthread_cond_wait(&m->stored, &m->lock);
		struct load *l = m->stores;
		if (l && !(m->stores = l->own_next))
			m->stores_end = &m->stores;
		pthread_mutex_unlock(&m->lock);
		if (!l)
			break;
		uint64_t bytes = l->module_bytes;
		if (!r.memcached)
			r.memcached = mc_client_new(m->servers);
		finish(&r, l);
		pthread_mutex_lock(&m->lock);
		m->storing_bytes -= bytes;
		pthread_mutex_unlock(&m->lock);
	}
	mc_client_free(r.memcached);
	return NULL;
}

bool storers_start(struct modules *m)
{
	m->stores_end = &m->stores;
	while (m->storer_count < STORERS && pthread_create(&m->storers[m->storer_count], NULL, storer_main, m) == 0)
		m->storer_count++;
	return m->storer_count == STORERS;
}

void storers_stop(struct modules *m)
{
	pthread_mutex_lock(&m->lock);
	pthread_cond_broadcast(&m->stored);
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < m->storer_count; i++)
		pthread_join(m->storers[i], NULL);
}
