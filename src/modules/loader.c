/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/loader.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/metrics.h"

/* Loading gives way to requests that need no load; finishing, after the reply, gives way to both. */
enum load_step {
	LOAD_DONE,      /* the outcome is known */
	LOAD_ELSEWHERE, /* another host has the lease: check again later */
	LOAD_HERE,      /* no other host is loading it: run it here, as a transfer */
};

/* ---- the lease ---- */

/* Looks for a root that another host has stored meanwhile, and uses it if `believe` (trust that its pages are still
 * there), or if the map has become whole since a page was missed. Also reads the marker, and looks for a lease. */
static bool find_root(struct loader *r, struct load *l, bool believe, struct root_get *g)
{
	*g = (struct root_get){.hash = &l->hash, .want_root = true, .want_lease = true};
	l->outcome.checked = clock_now();
	page_memcached_roots(r->memcached, g, 1, INT64_MAX);
	l->outcome.marker = g->marker;
	bool made = g->map && l->lost == LOST_UNMADE && offmap_is_whole(g->map);
	if (!g->map || (!believe && !made)) {
		offmap_free(g->map);
		return false;
	}
	l->module = module_new(&l->hash, g->map);
	if (l->module)
		atomic_store(&l->module->stored, true);
	return l->module != NULL;
}

/* Takes the lease. LOAD_ELSEWHERE: another host has it, and we wait for its map, though not for ever. If memcached does
 * not answer, every host loads. */
static enum load_step ask_lease(struct loads *ls, struct loader *r, struct load *l)
{
	struct root_get g;
	bool waited = l->lease.until;
	enum mc_status status = lease_take(l, r->memcached);
	bool is_held = status == MC_OK;
	if (status == MC_DOWN)
		return LOAD_HERE;
	/* Looked for behind it: who had the lease until now has stored the module, lost page included. */
	bool found = find_root(r, l, !l->lost || (is_held && waited), &g);
	if (is_held)
		lease_hold(ls, l);
	if (found)
		return LOAD_DONE;
	if (status != MC_EXISTS || (waited && clock_now() >= l->lease.until))
		return LOAD_HERE;
	if (!waited) {
		l->lease.until = clock_now() + r->context->config->bucket_total_timeout;
		metric_add(M_LEASE_WAITS, 1);
	}
	return LOAD_ELSEWHERE;
}

/* Checks on a module that another host was loading. */
static enum load_step look_again(struct loader *r, struct load *l)
{
	struct root_get g;
	if (find_root(r, l, !l->lost, &g))
		return LOAD_DONE;
	return g.leased && clock_now() < l->lease.until ? LOAD_ELSEWHERE : LOAD_HERE;
}

/* ---- one load ---- */

/* Sets l->module, or l->outcome. */
static void load_from_sources(struct loader *r, struct load *l)
{
	metric_add(M_CACHE_ROOT_NONE, 1);
	if (l->kind == WANT_SYMBFILE)
		load_symbfile(r, l);
	else if (l->kind == WANT_BUILD_ID)
		load_build_id(r, l);
	else
		load_sym(r, l);
	metric_add(M_LOADS_TOTAL, l->module && !l->kept);
}

/* Another request may have put the module into the cache since the load was asked for. */
static bool take_cached(struct loader *r, struct load *l)
{
	struct module *module = l->lost ? NULL : page_cache_get(r->context->cache, &l->hash);
	if (!module || atomic_load(&module->checked) < l->since) {
		module_unref(module);
		return false;
	}
	l->module = module;
	l->kept = true;
	l->outcome.marker = module->map->marker;
	l->outcome.checked = atomic_load(&module->checked);
	return true;
}

static void take_module(struct loader *r, struct load *l)
{
	l->outcome.class = OUTCOME_NONE;
	atomic_store(&l->module->checked, l->outcome.checked);
	atomic_fetch_add(&l->module->holds, 1); /* until finish_load is done */
	if (!l->kept)
		l->module->lost_at = l->lost >= LOST_PAGE ? clock_now() : 0;
	if (l->text) {
		atomic_store(&l->module->shared, l->lost == LOST_UNMADE || (l->lease.held && l->lost < LOST_AGAIN));
		snprintf(l->module->label, sizeof l->module->label, "%s/%s", l->name, l->id);
	}
	outcomes_forget(r->context->outcomes, &l->hash);
}

/* Sets the outcome of l: from memcached if another host was faster, else from the sources. May take as long as the
 * timeouts allow. If l is no transfer, only checks on the other host. */
static enum load_step run_load(struct loads *ls, struct loader *r, struct load *l)
{
	enum load_step step = LOAD_HERE;
	struct root_get g;
	if (take_cached(r, l))
		step = LOAD_DONE;
	else if (l->lost == LOST_UNMADE) /* other hosts' loads do not help: each makes the pages that it needs */
		step = find_root(r, l, false, &g) ? LOAD_DONE : LOAD_HERE;
	else if (mc_enabled(r->context->servers))
		step = l->transferring ? ask_lease(ls, r, l) : look_again(r, l);
	if (step == LOAD_ELSEWHERE || (step == LOAD_HERE && !l->transferring))
		return step;
	if (step == LOAD_HERE)
		load_from_sources(r, l);
	if (l->no_room) { /* once more, when no other load has much memory */
		if (l->lease.held)
			lease_give_back(ls, l, r->memcached);
		l->outcome = (struct outcome){0};
		return LOAD_HERE;
	}
	if (l->module)
		take_module(r, l);
	return LOAD_DONE;
}

/* ---- threads ---- */

/* Opens the loader's clients. If memory runs out, tries again with the next load. */
static bool equip(struct loader *r)
{
	const struct load_context *context = r->context;
	if (!r->memcached)
		r->memcached = mc_client_new(context->servers);
	if (!r->bucket)
		r->bucket = bucket_client_new(context->sources);
	if (!r->store && context->store)
		r->store = store_client_new(context->store);
	return r->memcached && r->bucket && (r->store || !context->store);
}

static void *loader_main(void *arg);

/* False: there is no thread to be had. */
static bool start_another(struct loaders *all)
{
	pthread_mutex_lock(&all->lock);
	bool full = all->count == loaders_max(all->loads->context->config);
	bool started = full || pthread_create(&all->threads[all->count], NULL, loader_main, all) == 0;
	all->count += started && !full;
	pthread_mutex_unlock(&all->lock);
	return started;
}

static void *loader_main(void *arg)
{
	struct loaders *all = arg;
	struct loader r = {.context = all->loads->context};
	struct load *l;
	bool followed = false;
	background_enter();
	while ((l = loads_take(all->loads))) {
		enum load_step step = LOAD_DONE;
		followed = followed || start_another(all);
		l->outcome.checked = clock_now();
		if (equip(&r))
			step = run_load(all->loads, &r, l);
		else
			l->outcome.class = FAILURE_TEMPORARY;
		if (step == LOAD_DONE) {
			loads_publish(all->loads, l);
			finish_load(all->finishers, l, r.memcached);
		} else {
			loads_put_back(all->loads, l, step == LOAD_ELSEWHERE);
		}
	}
	mc_client_free(r.memcached);
	bucket_client_free(r.bucket);
	store_client_free(r.store);
	background_leave();
	return NULL;
}

bool loaders_start(struct loaders *all, struct loads *loads, struct finishers *finishers)
{
	unsigned most = loaders_max(loads->context->config);
	*all = (struct loaders){.loads = loads, .finishers = finishers, .threads = calloc(most, sizeof *all->threads)};
	pthread_mutex_init(&all->lock, NULL);
	return all->threads && start_another(all);
}

static bool has_started(struct loaders *all, unsigned number)
{
	pthread_mutex_lock(&all->lock);
	bool has = number < all->count;
	pthread_mutex_unlock(&all->lock);
	return has;
}

void loaders_stop(struct loaders *all)
{
	for (unsigned i = 0; has_started(all, i); i++) /* who has ended starts none */
		pthread_join(all->threads[i], NULL);
	pthread_mutex_destroy(&all->lock);
	free(all->threads);
}
