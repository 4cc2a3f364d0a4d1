/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/resident.h"
#include "modules/load.h"

#define LOST_PAUSE (60 * SECOND)
/* For what is not in the cache, where max_memory does not say: as much, and a quarter of the cache for what malloc
 * takes beside it. */
#define MEMORY_BESIDE_CACHE ((uint64_t)2 << 30)

/* The control groups' limit has room left for what is allocated after the last look. */
static uint64_t memory_max(const struct config *c)
{
	uint64_t most = c->cache_size + c->cache_size / 4 + MEMORY_BESIDE_CACHE, limit = cgroup_memory("");
	limit -= limit / 10;
	return c->max_memory ? c->max_memory : most < limit ? most : limit;
}

/* ---- wants ---- */

bool module_want_init(struct module_want *w, struct modules *m, struct str name, struct str id)
{
	bool lower = false;
	char exact[2 * 1024 + 2];
	memset(w, 0, sizeof *w);
	w->name = name;
	w->id = id;
	if (!module_hash_make(&w->hash, m->config->lookup == LOOKUP_NEAREST ? "sym-nearest" : "sym", name, id))
		return false;
	w->spelling = w->hash;
	for (size_t i = 0; i < id.len; i++)
		lower = lower || (id.data[i] >= 'a' && id.data[i] <= 'z');
	if (!lower || name.len + id.len + 1 > sizeof exact)
		return true;
	/* the hash folds the case of the id only, so the spelling goes into the name */
	memcpy(exact, name.data, name.len);
	exact[name.len] = 0;
	memcpy(exact + name.len + 1, id.data, id.len);
	return module_hash_make(
	        &w->spelling, "spelling", (struct str){exact, name.len + 1 + id.len}, (struct str){"", 0});
}

bool module_want_init_file(struct module_want *w, struct str name, struct str id, const struct file_id *file_id)
{
	char hex[FILE_ID_HEX + 1];
	memset(w, 0, sizeof *w);
	w->name = name;
	w->id = id;
	w->kind = WANT_SYMBFILE;
	w->file_id = *file_id;
	file_id_hex(hex, file_id);
	if (!module_hash_make(&w->hash, "symbfile", str_from(""), str_from(hex)))
		return false;
	w->spelling = w->hash;
	return true;
}

bool module_want_init_alias(
        struct module_want *w, struct str name, struct str id, const struct build_id_question *question)
{
	char text[BUILD_ID_QUESTION_TEXT + 1];
	memset(w, 0, sizeof *w);
	w->name = name;
	w->id = id;
	w->kind = WANT_ALIAS;
	w->question = *question;
	build_id_question_text(text, question);
	if (!module_hash_make(&w->hash, "alias", str_from(""), str_from(text)))
		return false;
	w->spelling = w->hash;
	return true;
}

void module_want_release(struct module_want *w)
{
	if (w->held) {
		atomic_fetch_sub(&w->module->holds, 1);
		w->wait->held--;
	}
	module_unref(w->module);
	w->module = NULL;
	w->held = false;
}

void want_found(struct module_want *w, struct module *module)
{
	w->state = WANT_FOUND;
	w->module = module;
}

void want_failed(struct module_want *w, const struct failure *f, unsigned retry_after)
{
	memcpy(w->why, f->why, sizeof w->why);
	w->state = WANT_FAILED;
	w->failure = f->class;
	w->alias = f->alias;
	w->retry_after = retry_after;
}

struct symbfile_store *modules_store(struct modules *m)
{
	return m->store;
}

uint64_t modules_seed(const struct modules *m)
{
	return m->seed;
}

struct page_cache *modules_cache(struct modules *m)
{
	return m->cache;
}

struct mc_client *modules_memcached(struct modules *m)
{
	struct mc_client *c = pthread_getspecific(m->client_key);
	if (!c && (c = mc_client_new(m->servers)) && pthread_setspecific(m->client_key, c) != 0) {
		mc_client_free(c);
		c = NULL;
	}
	return c;
}

static void free_client(void *client)
{
	mc_client_free(client);
}

/* ---- resolving ---- */

enum freshness { FRESH, STALE };

/* Without memcached nobody tells of uploads to other hosts: so the store is asked, by a load that keeps what is still
 * right. What is not there yet would wait for memory that is full. */
static bool asks_store(const struct modules *m, const struct module_want *w)
{
	return w->kind == WANT_SYMBFILE && m->store && !mc_enabled(m->servers) && resident_bytes() <= m->memory_max;
}

/* It is old: the want is left to a load. */
static enum freshness check_store(struct modules *m, struct module_want *w, int64_t now)
{
	module_want_release(w);
	w->state = WANT_LOAD;
	w->not_before = now - m->config->revalidate_after;
	return STALE;
}

/* What memory knows: returns FRESH when that settles the want. A STALE one is set too, and holds if its marker still
 * does. */
static enum freshness look_in_memory(struct modules *m, struct module_want *w, int64_t now)
{
	bool shared = mc_enabled(m->servers);
	struct module *module = page_cache_get(m->cache, &w->hash);
	if (module && shared && now - module->since > m->config->root_max_age) {
		/* as in memcached: bounds what a lost marker can do */
		page_cache_remove(m->cache, &w->hash, module);
		module_unref(module);
		module = NULL;
	}
	if (module) {
		want_found(w, module);
		metric_add(M_CACHE_ROOT_PROCESS, 1);
		if (now - atomic_load(&module->checked) >= m->config->revalidate_after && asks_store(m, w))
			return check_store(m, w, now);
		return !shared || now - atomic_load(&module->checked) < m->config->revalidate_after ? FRESH : STALE;
	}
	struct failure f = failures_get(m->failures, &w->hash, &w->spelling);
	if (f.class == FAILURE_NONE)
		return STALE;
	metric_add(M_CACHE_FAILURE_PROCESS, 1);
	want_failed(w, &f, failure_seconds(f.until, now));
	if (f.class != FAILURE_TEMPORARY && now - f.checked >= m->config->revalidate_after && asks_store(m, w))
		return check_store(m, w, now);
	return !shared || f.class == FAILURE_TEMPORARY || now - f.checked < m->config->revalidate_after ? FRESH : STALE;
}

/* Whether what memory knew still holds under this marker. */
static bool still_holds(struct modules *m, struct module_want *w, uint64_t marker, int64_t now)
{
	if (w->state == WANT_FOUND) {
		if (w->module->map->marker != marker)
			return false;
		atomic_store(&w->module->checked, now);
		return true;
	}
	if (failures_get(m->failures, &w->hash, &w->spelling).marker != marker)
		return false;
	failures_checked(m->failures, &w->hash, &w->spelling, now);
	return true;
}

static void forget(struct modules *m, struct module_want *w)
{
	metric_add(M_INVALIDATIONS, 1);
	if (w->state == WANT_FOUND) {
		page_cache_remove(m->cache, &w->hash, w->module);
		module_want_release(w);
	} else {
		failures_forget(m->failures, &w->hash);
	}
	w->state = WANT_LOAD;
}

/* What to use of a module that memcached had: itself, or the one in the cache that another request put there, or even
 * loaded, meanwhile. It goes into the cache, unless some module was invalidated since `invalidations`: that may have
 * been this one. Takes its reference, and gives one. */
static struct module *keep(struct modules *m, struct module *module, uint64_t invalidations)
{
	pthread_mutex_lock(&m->lock);
	struct module *cached = page_cache_get(m->cache, &module->hash);
	bool as_new = cached && (cached->map->marker == module->map->marker ||
	                                atomic_load(&cached->checked) > atomic_load(&module->checked));
	if (!as_new && m->invalidations == invalidations)
		page_cache_add(m->cache, module);
	pthread_mutex_unlock(&m->lock);
	metric_add(as_new ? M_CACHE_ROOT_PROCESS : M_CACHE_ROOT_MEMCACHED, 1);
	module_unref(as_new ? module : cached);
	page_cache_evict(m->cache);
	return as_new ? cached : module;
}

/* What memcached answered to a question asked after `now`, when so many `invalidations` had been. */
static void settle(struct modules *m, struct module_want *w, struct root_get *g, int64_t now, uint64_t invalidations)
{
	if (g->reached) {
		w->marker = g->marker;
		w->marker_seen = now;
	}
	if (w->state != WANT_LOAD) {
		/* a server that does not answer invalidates nothing */
		if (g->reached && !still_holds(m, w, g->marker, now))
			forget(m, w);
		return;
	}
	if (!g->map)
		return;
	struct module *module = module_new(&w->hash, g->map);
	g->map = NULL;
	if (!module)
		return;
	atomic_store(&module->stored, true);
	atomic_store(&module->checked, now);
	want_found(w, keep(m, module, invalidations));
}

void modules_resolve(struct modules *m, struct module_want *wants, size_t count, int64_t deadline)
{
	uint64_t invalidations = m->invalidations;
	int64_t now = clock_now();
	size_t open = 0;
	struct mc_client *client = mc_enabled(m->servers) ? modules_memcached(m) : NULL;
	struct root_get *gets = calloc(count + 1, sizeof *gets);
	size_t *index = calloc(count + 1, sizeof *index);
	for (size_t i = 0; i < count; i++) {
		struct module_want *w = &wants[i];
		if (w->state != WANT_LOAD || look_in_memory(m, w, now) == FRESH || !client || !gets || !index)
			continue;
		gets[open] = (struct root_get){.hash = &w->hash, .want_root = w->state == WANT_LOAD};
		index[open++] = i;
	}
	if (open) {
		page_memcached_roots(client, gets, open, deadline);
		for (size_t i = 0; i < open; i++) {
			settle(m, &wants[index[i]], &gets[i], now, invalidations);
			offmap_free(gets[i].map);
		}
	}
	free(gets);
	free(index);
}

/* ---- markers that could not be put ---- */

enum { MARKERS_MAX = 10000 }; /* what is beyond them is checked when it is as old as root_max_age */

struct marker {
	struct module_hash hash;
	struct marker *next;
};

static void keep_marker(struct modules *m, const struct module_hash *hash)
{
	struct marker *marker = malloc(sizeof *marker);
	pthread_mutex_lock(&m->lock);
	if (marker && m->marker_count < MARKERS_MAX) {
		*marker = (struct marker){*hash, m->markers};
		m->markers = marker;
		m->marker_count++;
		marker = NULL;
	}
	pthread_mutex_unlock(&m->lock);
	free(marker);
}

void modules_put_markers(struct modules *m, struct mc_client *c)
{
	pthread_mutex_lock(&m->lock);
	struct marker *list = m->markers;
	m->markers = NULL;
	m->marker_count = 0;
	pthread_mutex_unlock(&m->lock);
	while (list) {
		struct marker *marker = list;
		list = marker->next;
		if (page_memcached_invalidate(c, &marker->hash) != MC_OK)
			keep_marker(m, &marker->hash);
		free(marker);
	}
}

static void free_markers(struct modules *m)
{
	while (m->markers) {
		struct marker *marker = m->markers;
		m->markers = marker->next;
		free(marker);
	}
}

/* ---- start and stop ---- */

void init_condition(pthread_cond_t *c)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

struct modules *modules_start(const struct config *c, struct error *e)
{
	struct modules *m = calloc(1, sizeof *m);
	if (!m) {
		no_memory(e);
		return NULL;
	}
	m->config = c;
	m->memory_max = memory_max(c);
	m->seed = random_u64();
	m->turns_end = &m->turns;
	m->gate_end = &m->gate;
	m->elsewhere_end = &m->elsewhere;
	pthread_mutex_init(&m->lock, NULL);
	init_condition(&m->queued);
	init_condition(&m->keeping);
	init_condition(&m->loaded);
	pthread_key_create(&m->client_key, free_client);
	m->cache = page_cache_new(c->cache_size);
	m->failures = failures_new(c);
	m->blocks = block_pool_new(c->cache_size / 32 < BLOCKS_KEPT ? c->cache_size / 32 : BLOCKS_KEPT);
	m->texts.limit = c->cache_size / 4 < TEXTS_MAX ? c->cache_size / 4 : TEXTS_MAX;
	m->loaders = calloc(loaders_max(c), sizeof *m->loaders);
	m->servers = mc_servers_new(c, e);
	m->sources = m->servers ? bucket_sources_new(c, e) : NULL;
	if (m->sources && *c->symbfile_store && !(m->store = symbfile_store_new(c, e)))
		goto failed;
	if (!m->sources)
		goto failed;
	error_set(e, ERR_NO_MEMORY, "cannot start threads");
	if (!m->cache || !m->failures || !m->blocks || !m->loaders)
		goto failed;
	if (loads_start(m))
		return m;
failed:
	modules_stop(m);
	return NULL;
}

void modules_stop(struct modules *m)
{
	if (!m)
		return;
	loads_stop(m);
	mc_client_free(pthread_getspecific(m->client_key));
	pthread_key_delete(m->client_key);
	page_cache_free(m->cache);
	failures_free(m->failures);
	block_pool_free(m->blocks);
	free_markers(m);
	bucket_sources_free(m->sources);
	symbfile_store_free(m->store);
	mc_servers_free(m->servers);
	pthread_cond_destroy(&m->queued);
	pthread_cond_destroy(&m->keeping);
	pthread_cond_destroy(&m->loaded);
	pthread_mutex_destroy(&m->lock);
	free(m->loaders);
	free(m);
}

/* ---- the rest ---- */

void modules_lost_page(struct modules *m, struct module_want *w)
{
	metric_add(M_PAGES_RELOADED, 1);
	w->lost = w->module->lost_at && clock_now() - w->module->lost_at < LOST_PAUSE ? 2 : 1;
	w->lost_at = clock_now();
	page_cache_remove(m->cache, &w->hash, w->module);
	module_want_release(w);
	w->state = WANT_LOAD;
}

/* Forgets it in this process; loads that run, and what memcached just answers, are for those who wait for it. */
static void forget_here(struct modules *m, const struct module_hash *hash)
{
	metric_add(M_INVALIDATIONS, 1);
	pthread_mutex_lock(&m->lock);
	m->invalidations++;
	for (unsigned i = 0; i < LOAD_CHAINS; i++)
		for (struct load *l = m->loads[i]; l; l = l->next)
			if (module_hash_equal(&l->hash, hash))
				l->stale = true;
	for (struct load *l = m->leases; l; l = l->lease_next) /* those that are being stored, too */
		if (module_hash_equal(&l->hash, hash))
			l->stale = true;
	page_cache_remove(m->cache, hash, NULL);
	failures_forget(m->failures, hash);
	pthread_mutex_unlock(&m->lock);
}

static bool tell_memcached(struct modules *m, const struct module_hash *hash)
{
	struct mc_client *client = mc_enabled(m->servers) ? modules_memcached(m) : NULL;
	return !mc_enabled(m->servers) || (client && page_memcached_invalidate(client, hash) == MC_OK);
}

/* The marker first: a load that starts behind it sees it. False: memcached was not told. */
static bool forget_module(struct modules *m, const struct module_hash *hash)
{
	bool told = tell_memcached(m, hash);
	forget_here(m, hash);
	return told;
}

enum err modules_invalidate(struct modules *m, struct str name, struct str id, struct error *e)
{
	struct module_want wants[3];
	struct file_id file_id;
	struct build_id_question question;
	unsigned count = 1;
	bool told = true, made = module_want_init(&wants[0], m, name, id);
	if (m->store && file_id_parse(&file_id, id))
		made = module_want_init_file(&wants[count++], name, id, &file_id) && made;
	if (m->store && build_id_question_parse(&question, id))
		made = module_want_init_alias(&wants[count++], name, id, &question) && made;
	if (!made)
		return no_memory(e);
	for (unsigned i = 0; i < count; i++)
		told = forget_module(m, &wants[i].hash) && told;
	if (!told)
		return error_set(e, ERR_UNAVAILABLE,
		        "forgotten in this process, but memcached does not answer: other processes and hosts may go on "
		        "with the old file; try again");
	return ERR_OK;
}

static void forget_later(struct modules *m, const struct module_hash *hash)
{
	if (!forget_module(m, hash))
		keep_marker(m, hash);
}

/* Without memory for a hash: what is cached is checked again when it is as old as root_max_age. */
void modules_forget_file(struct modules *m, const struct file_id *file_id)
{
	struct module_want w;
	if (module_want_init_file(&w, str_from(""), str_from(""), file_id))
		forget_later(m, &w.hash);
}

void modules_forget_build_id(struct modules *m, const struct build_id *build_id)
{
	struct module_want w;
	struct build_id_question questions[BUILD_ID_QUESTIONS];
	build_id_questions(questions, build_id);
	for (unsigned i = 0; i < BUILD_ID_QUESTIONS; i++)
		if (module_want_init_alias(&w, str_from(""), str_from(""), &questions[i]))
			forget_later(m, &w.hash);
}

enum err modules_probe(struct modules *m, struct error *e)
{
	enum err err = ERR_OK;
	struct mc_client *client = mc_enabled(m->servers) ? modules_memcached(m) : NULL;
	if (client)
		err = mc_probe(client, e);
	struct bucket_client *bucket = err ? NULL : bucket_client_new(m->sources);
	if (!err && !bucket)
		err = no_memory(e);
	for (unsigned i = 0; !err && i < bucket_sources_count(m->sources); i++)
		err = bucket_probe(bucket, i, e);
	bucket_client_free(bucket);
	struct store_client *store = !err && m->store ? store_client_new(m->store) : NULL;
	if (!err && m->store)
		err = store ? store_probe(store, e) : no_memory(e);
	store_client_free(store);
	return err;
}
