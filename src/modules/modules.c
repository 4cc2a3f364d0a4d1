/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/arena.h"
#include "base/background.h"
#include "base/block_pool.h"
#include "base/clock.h"
#include "modules/digests.h"
#include "base/metrics.h"
#include "base/process.h"
#include "modules/periodic.h"
#include "modules/refresh.h"
#include "objects/bucket.h"

#define LOST_PAUSE (60 * SECOND)
enum { BLOCKS_KEPT = 32 << 20, HOT_FRAMES_MIN = 1 << 20, HOT_FRAMES_MAX = 32 << 20 };

struct modules {
	struct load_context context;
	struct loads loads;
	struct finishers finishers;
	struct periodic periodic;
	struct refresher refresher;
	struct hot_frames *hot_frames;
	pthread_key_t client_key;
};

struct symbfile_store *modules_store(struct modules *m)
{
	return m->context.store;
}

uint64_t modules_seed(const struct modules *m)
{
	return m->loads.seed;
}

struct hot_frames *modules_hot_frames(struct modules *m)
{
	return m->hot_frames;
}

struct page_cache *modules_cache(struct modules *m)
{
	return m->context.cache;
}

struct mc_client *modules_memcached(struct modules *m)
{
	struct mc_client *c = pthread_getspecific(m->client_key);
	if (!c && (c = mc_client_new(m->context.servers)) && pthread_setspecific(m->client_key, c) != 0) {
		mc_client_free(c);
		c = NULL;
	}
	return c;
}

static void free_client(void *client)
{
	mc_client_free(client);
}

/* ---- where a module may be ---- */

/* possible: bucket_can_hold. */
static bool want_sym(struct modules *m, struct module_want *w, struct str name, struct str id, bool possible)
{
	if (!module_want_init(w, m->context.config->lookup, name, id))
		return false;
	if (!possible)
		want_settle(w, &(struct outcome){.class = FAILURE_MISSING});
	return true;
}

/* Whether uploads may have it by its FileID, which is recognised by its form, whatever the name. */
static bool is_file_id(const struct modules *m, struct str id, struct file_id *file_id)
{
	return m->context.store && file_id_parse(file_id, id);
}

/* Sources come first, also for what may be a FileID: an upload changes nothing that they have. */
bool modules_want(struct modules *m, struct module_want *w, struct str name, struct str id, struct str build_id)
{
	struct file_id file_id;
	const bool possible = bucket_can_hold(name, id), sources = possible && bucket_sources_count(m->context.sources);
	if (!sources && is_file_id(m, id, &file_id))
		return module_want_init_file(w, name, id, &file_id);
	if (!want_sym(m, w, name, id, possible))
		return false;
	if (build_id_parse(&w->question.whole, build_id))
		/* it may be found where the id alone was not */
		return digest_of_module(&w->own.spelling, "whole", id, build_id);
	w->question.whole.len = 0;
	return true;
}

/* Makes it a want for the next place. False: there is none. */
static bool next_place(struct modules *m, struct module_want *w)
{
	struct file_id file_id;
	struct build_id_question question;
	const struct module_want was = *w;
	bool missing = w->state == WANT_FAILED && w->failure == FAILURE_MISSING && !w->redirected, made;
	if (w->state == WANT_REDIRECTED) {
		made = module_want_init_file(w, w->name, w->id, &was.own.redirect.id);
		w->redirected = true;
		w->image_base = was.own.redirect.image_base;
		w->file = was.own.redirect.file;
	} else if (missing && w->kind == WANT_SYM && is_file_id(m, w->id, &file_id)) {
		made = module_want_init_file(w, w->name, w->id, &file_id);
		memcpy(w->why, was.why, sizeof w->why);
	} else if (missing && w->kind != WANT_BUILD_ID && m->context.store &&
	           build_id_question_parse(&question, w->id)) {
		made = module_want_init_build_id(w, w->name, w->id, &question);
		memcpy(w->why, was.why, sizeof w->why);
	} else {
		return false;
	}
	if (!made) /* out of memory */
		want_settle(w, &(struct outcome){.class = FAILURE_TEMPORARY});
	return true;
}

/* Whether any want has another place to be looked for. */
static bool look_further(struct modules *m, struct module_want *wants, size_t count)
{
	bool further = false;
	for (size_t i = 0; i < count; i++)
		if (wants[i].state == WANT_FAILED && wants[i].failure == FAILURE_TEMPORARY)
			return false;
	for (size_t i = 0; i < count; i++)
		further |= next_place(m, &wants[i]);
	return further;
}

/* ---- resolving ---- */

/* Without memcached, uploads to other hosts are not announced. So the store is asked, by a load that keeps what is
 * still current; but not if that load would have to wait. */
static bool asks_store(struct modules *m, const struct module_want *w)
{
	return w->kind == WANT_SYMBFILE && m->context.store && !mc_enabled(m->context.servers) &&
	       loads_begin_at_once(&m->loads);
}

/* Whether a source that failed before the one that had the module may be asked again: it was ill, and has returned; or
 * it never was, and some time has passed: the longer, the longer the load took, as it may come to the same again and
 * again. */
static bool was_passed_over(const struct modules *m, const struct module *module, int64_t age)
{
	enum { LOAD_TIMES = 8 };
	const struct load_context *context = &m->context;
	const int64_t least = context->config->revalidate_after > SECOND ? context->config->revalidate_after : SECOND,
	              pause = least + LOAD_TIMES * (module->since - module->passed_at);
	return module->passed && (bucket_sources_returned(context->sources, module->passed, module->passed_at) ||
	                                 (age > pause && bucket_sources_well(context->sources, module->passed)));
}

/* Whether the failure is from before a source's return. */
static bool is_over(const struct modules *m, const struct outcome *f)
{
	return f->class == FAILURE_TEMPORARY && bucket_sources_returned(m->context.sources, ~(source_set)0, f->checked);
}

/* As in memcached. Limits how long a lost marker can do harm; and what a source lacked may have come. */
static bool is_too_old(const struct modules *m, const struct module *module, int64_t age)
{
	const struct config *c = m->context.config;
	return (module->map->lacking && age > lacking_ttl(c)) || was_passed_over(m, module, age) ||
	       (mc_enabled(m->context.servers) && age > c->root_max_age);
}

/* Sets the want if memory has a result. Returns when that was last checked; INT64_MAX: it holds unchecked. */
static int64_t look_in_memory(struct modules *m, struct module_want *w, int64_t now)
{
	struct module *module = page_cache_get(m->context.cache, &w->own.hash);
	if (module && is_too_old(m, module, now - module->since)) {
		page_cache_remove(m->context.cache, &w->own.hash, module);
		module_unref(module);
		module = NULL;
	}
	if (module) {
		want_found(w, module);
		metric_add(M_CACHE_ROOT_PROCESS, 1);
		finish_module(&m->finishers, module);
		return atomic_load(&module->checked);
	}
	struct outcome f = outcomes_get(m->context.outcomes, &w->own.hash, &w->own.spelling);
	if (is_over(m, &f)) {
		outcomes_forget(m->context.outcomes, &w->own.hash);
		f.class = OUTCOME_NONE;
	}
	if (f.class == OUTCOME_NONE)
		return INT64_MAX;
	metric_add(M_CACHE_FAILURE_PROCESS, 1);
	want_settle(w, &f);
	return f.class == FAILURE_TEMPORARY ? INT64_MAX : f.checked;
}

/* Whether memcached is to be asked, if there is one: for the root or, if memory has a result, whether that still holds.
 * If the store is to be asked whether it holds, leaves the want to a load that does. */
static bool is_open(struct modules *m, struct module_want *w, int64_t now)
{
	int64_t oldest = now - m->context.config->revalidate_after;
	if (w->state != WANT_LOAD)
		return false;
	int64_t checked = look_in_memory(m, w, now);
	if (w->state == WANT_LOAD)
		return true;
	if (checked > oldest)
		return false;
	if (asks_store(m, w)) {
		module_want_release(w);
		w->state = WANT_LOAD;
		w->own.not_before = oldest;
	}
	return true;
}

/* Whether the result from memory still holds, given this marker. */
static bool still_holds(struct modules *m, struct module_want *w, uint64_t marker, int64_t now)
{
	if (w->state == WANT_FOUND) {
		if (w->module->map->marker != marker)
			return false;
		atomic_store(&w->module->checked, now);
		return true;
	}
	if (outcomes_get(m->context.outcomes, &w->own.hash, &w->own.spelling).marker != marker)
		return false;
	outcomes_checked(m->context.outcomes, &w->own.hash, &w->own.spelling, now);
	return true;
}

static void forget(struct modules *m, struct module_want *w)
{
	metric_add(M_INVALIDATIONS, 1);
	if (w->state == WANT_FOUND) {
		page_cache_remove(m->context.cache, &w->own.hash, w->module);
		module_want_release(w);
	} else {
		outcomes_forget(m->context.outcomes, &w->own.hash);
	}
	w->state = WANT_LOAD;
}

/* Applies memcached's answer. The question was asked after `now`, when the count of invalidations was `invalidations`.
 */
static void settle(struct modules *m, struct module_want *w, struct root_get *g, int64_t now, uint64_t invalidations)
{
	if (g->reached) {
		w->own.marker = g->marker;
		w->own.marker_seen = now;
	}
	/* A server that does not answer has invalidated nothing. If it has lost its memory, what is in use may still be
	 * right, and answers until it is known. */
	if (w->state != WANT_LOAD && g->reached && !still_holds(m, w, g->marker, now) &&
	        !(g->is_epoch && w->state == WANT_FOUND && refresh_later(&m->refresher, w)))
		forget(m, w);
	struct module *module = g->map ? module_new(&w->own.hash, g->map, LIFE_STORED) : NULL;
	if (!module)
		return;
	atomic_store(&module->checked, now);
	want_found(w, loads_cache_stored(&m->loads, module, invalidations));
}

void modules_resolve(struct modules *m, struct module_want *wants, size_t count, int64_t deadline)
{
	uint64_t invalidations = m->loads.invalidations;
	int64_t now = clock_now();
	size_t open = 0;
	struct mc_client *client = mc_enabled(m->context.servers) ? modules_memcached(m) : NULL;
	struct root_get *gets = calloc(count + 1, sizeof *gets);
	for (size_t i = 0; i < count; i++)
		if (is_open(m, &wants[i], now) && client && gets) {
			gets[open] =
			        (struct root_get){.hash = &wants[i].own.hash, .want_root = wants[i].state == WANT_LOAD};
			load_origins(&m->context, wants[i].kind, &gets[open++]);
		}
	if (open)
		page_memcached_roots(client, gets, open, deadline);
	for (size_t i = 0, k = 0; k < open; i++)
		if (gets[k].hash == &wants[i].own.hash)
			settle(m, &wants[i], &gets[k++], now, invalidations);
	free(gets);
}

/* ---- start and stop ---- */

static void make_room(void *cache, uint64_t bytes)
{
	page_cache_shrink(cache, bytes);
}

static bool open_context(struct load_context *context, const struct config *c, struct error *e)
{
	context->cache = page_cache_new(c->cache_size);
	context->outcomes = outcomes_new(c);
	context->blocks = block_pool_new(c->cache_size / 32 < BLOCKS_KEPT ? c->cache_size / 32 : BLOCKS_KEPT);
	if (!context->cache || !context->outcomes || !context->blocks)
		return !no_memory(e);
	account_on_full(make_room, context->cache);
	arena_take_blocks(context->blocks);
	context->servers = mc_servers_new(c, e);
	if (context->servers && *c->symbfile_store)
		context->store = symbfile_store_new(c, e);
	return context->servers && (context->store || !*c->symbfile_store);
}

/* Some ten thousand frames: real traffic asks for the same ones again and again. */
static uint64_t hot_frames_budget(const struct config *c)
{
	uint64_t budget = c->cache_size / 32;
	return budget > HOT_FRAMES_MAX ? HOT_FRAMES_MAX : budget < HOT_FRAMES_MIN ? 0 : budget;
}

static bool start_threads(struct modules *m, struct error *e)
{
	background_begin((unsigned)m->context.config->background_share);
	if (periodic_start(&m->periodic) && finishers_start(&m->finishers) && loaders_start(&m->finishers) &&
	        refresher_start(&m->refresher))
		return true;
	error_set(e, ERR_NO_MEMORY, "cannot start threads");
	return false;
}

struct modules *modules_start(
        const struct config *c, struct bucket_sources *sources, struct extractors *extractors, struct error *e)
{
	struct modules *m = calloc(1, sizeof *m);
	if (!m) {
		no_memory(e);
		return NULL;
	}
	m->context.config = c;
	m->context.sources = sources;
	pthread_key_create(&m->client_key, free_client);
	loads_init(&m->loads, &m->context, random_u64());
	finishers_init(&m->finishers, &m->loads);
	periodic_init(&m->periodic, &m->loads, &m->finishers);
	refresher_init(&m->refresher, &m->loads);
	bool ok = open_context(&m->context, c, e);
	m->hot_frames = hot_frames_new(hot_frames_budget(c), m->loads.seed);
	m->context.elf = (struct elf_sources){c, extractors, m->context.sources};
	if (ok && start_threads(m, e))
		return m;
	modules_stop(m);
	return NULL;
}

void modules_stop(struct modules *m)
{
	if (!m)
		return;
	atomic_store(&m->context.stopping, true);
	refresher_stop(&m->refresher);
	loaders_stop(&m->finishers);
	finishers_stop(&m->finishers);
	periodic_stop(&m->periodic);
	finishers_release(&m->finishers);
	mc_client_free(pthread_getspecific(m->client_key));
	pthread_key_delete(m->client_key);
	account_on_full(NULL, NULL);
	arena_take_blocks(NULL);
	hot_frames_free(m->hot_frames);
	page_cache_free(m->context.cache);
	outcomes_free(m->context.outcomes);
	block_pool_free(m->context.blocks);
	symbfile_store_free(m->context.store);
	mc_servers_free(m->context.servers);
	loads_release(&m->loads);
	free(m);
}

/* ---- the rest ---- */

enum load_result modules_load(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count)
{
	enum load_result result;
	while ((result = loads_get(&m->loads, wait, wants, count)) == LOAD_READY && look_further(m, wants, count))
		modules_resolve(m, wants, count, wait->deadline);
	return result;
}

void modules_leave(struct modules *m, struct load_wait *wait)
{
	loads_leave(&m->loads, wait);
}

void modules_lost_page(struct modules *m, struct module_want *w)
{
	bool whole = offmap_is_whole(w->module->map);
	bool again = w->module->lost_at && clock_now() - w->module->lost_at < LOST_PAUSE;
	metric_add(M_PAGES_RELOADED, whole);
	w->own.lost = !whole ? LOST_UNMADE : again ? LOST_AGAIN : LOST_PAGE;
	w->own.lost_at = clock_now();
	page_cache_remove(m->context.cache, &w->own.hash, w->module);
	module_want_release(w);
	w->state = WANT_LOAD;
}

void modules_made_page(struct modules *m, struct module *module, uint32_t number, struct page *p)
{
	finish_page(&m->finishers, module, number, p);
}

/* Writes the marker first, so that a load that starts later sees it. Running loads, and answers of memcached that are
 * under way, serve only requests that already wait for them. False: memcached did not take the marker. */
static bool forget_module(struct modules *m, const struct module_hash *hash)
{
	bool shared = mc_enabled(m->context.servers);
	struct mc_client *client = shared ? modules_memcached(m) : NULL;
	bool told = !shared || (client && page_memcached_invalidate(client, hash) == MC_OK);
	metric_add(M_INVALIDATIONS, 1);
	loads_forget(&m->loads, hash);
	return told;
}

/* The same; what memcached did not take is sent again later. */
static bool forget_later(struct modules *m, const struct module_hash *hash)
{
	bool told = forget_module(m, hash);
	if (!told)
		periodic_invalidate(&m->periodic, hash);
	return told;
}

enum err modules_invalidate(struct modules *m, struct str name, struct str id, struct error *e)
{
	struct module_want wants[3];
	struct file_id file_id;
	struct build_id_question question;
	unsigned count = 1;
	bool told = true, made = module_want_init(&wants[0], m->context.config->lookup, name, id);
	if (is_file_id(m, id, &file_id))
		made = module_want_init_file(&wants[count++], name, id, &file_id) && made;
	if (m->context.store && build_id_question_parse(&question, id))
		made = module_want_init_build_id(&wants[count++], name, id, &question) && made;
	if (!made)
		return no_memory(e);
	for (unsigned i = 0; i < count; i++)
		told = forget_later(m, &wants[i].own.hash) && told;
	if (!told)
		return error_set(e, ERR_UNAVAILABLE,
		        "invalidated in this process, but memcached does not answer: other processes and hosts may "
		        "keep using the old file; try again");
	return ERR_OK;
}

/* If out of memory, cached results may be used until they are as old as root_max_age. */
void modules_forget_file(struct modules *m, const struct file_id *file_id)
{
	struct module_want w;
	if (module_want_init_file(&w, str_from(""), str_from(""), file_id))
		forget_later(m, &w.own.hash);
}

void modules_forget_build_id(struct modules *m, const struct build_id *build_id)
{
	struct module_want w;
	struct build_id_question questions[BUILD_ID_QUESTIONS];
	build_id_questions(questions, build_id);
	for (unsigned i = 0; i < BUILD_ID_QUESTIONS; i++)
		if (module_want_init_build_id(&w, str_from(""), str_from(""), &questions[i]))
			forget_later(m, &w.own.hash);
}

void modules_probe(struct modules *m, void (*wrong)(void *arg, const struct error *e), void *arg)
{
	struct error e;
	const struct load_context *context = &m->context;
	unsigned servers = mc_servers_count(context->servers);
	struct mc_client *memcached = servers ? modules_memcached(m) : NULL;
	struct bucket_client *bucket = bucket_client_take(context->sources);
	struct store_client *store = context->store ? store_client_take(context->store) : NULL;
	for (unsigned i = 0; i < servers; i++)
		if (memcached ? mc_probe(memcached, i, &e) : no_memory(&e))
			wrong(arg, &e);
	for (unsigned i = 0; i < bucket_sources_count(context->sources); i++)
		if (bucket ? bucket_probe(bucket, i, &e) : no_memory(&e))
			wrong(arg, &e);
	if (context->store && (store ? store_probe(store, &e) : no_memory(&e)))
		wrong(arg, &e);
	bucket_client_give(bucket);
	store_client_give(store);
}
