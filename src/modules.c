#include <config.h>

#include "modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "load.h"

enum { KEEPER_TICK_MS = 100 };
#define LOST_PAUSE (60 * SECOND)

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

void module_want_release(struct module_want *w)
{
	if (w->held)
		atomic_fetch_sub(&w->module->holds, 1);
	module_unref(w->module);
	w->module = NULL;
	w->held = false;
}

static void set_found(struct module_want *w, struct module *module)
{
	w->state = WANT_FOUND;
	w->module = module;
}

static void set_failed(struct module_want *w, enum failure_class class, unsigned retry_after)
{
	w->state = WANT_FAILED;
	w->failure = class;
	w->retry_after = retry_after;
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
		set_found(w, module);
		metric_add(M_CACHE_ROOT_PROCESS, 1);
		return !shared || now - atomic_load(&module->checked) < m->config->revalidate_after ? FRESH : STALE;
	}
	struct failure f = failures_get(m->failures, &w->hash, &w->spelling);
	if (f.class == FAILURE_NONE)
		return STALE;
	metric_add(M_CACHE_FAILURE_PROCESS, 1);
	set_failed(w, f.class, (unsigned)((f.until - now) / SECOND) + 1);
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

static void settle(struct modules *m, struct module_want *w, struct root_get *g, int64_t now)
{
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
	page_cache_put(m->cache, module);
	metric_add(M_CACHE_ROOT_MEMCACHED, 1);
	set_found(w, module);
}

void modules_resolve(struct modules *m, struct module_want *wants, size_t count)
{
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
		page_memcached_roots(client, gets, open);
		for (size_t i = 0; i < open; i++) {
			settle(m, &wants[index[i]], &gets[i], now);
			offmap_free(gets[i].map);
		}
	}
	free(gets);
	free(index);
}

/* ---- loads in flight; all under m->lock ---- */

static struct load **load_chain(struct modules *m, const struct module_hash *spelling)
{
	return &m->loads[(spelling->bytes[0] | spelling->bytes[1] << 8) % LOAD_CHAINS];
}

static struct load *find_load(struct modules *m, const struct module_want *w)
{
	struct load *l = *load_chain(m, &w->spelling);
	while (l && (l->stale || !module_hash_equal(&l->spelling, &w->spelling)))
		l = l->next;
	return l;
}

static void free_load(struct load *l)
{
	free(l->name);
	free(l->id);
	free(l);
}

/* NUL-terminated; NULL without memory. */
static char *copy_text(struct str s)
{
	char *copy = malloc(s.len + 1);
	if (copy) {
		memcpy(copy, s.data, s.len);
		copy[s.len] = 0;
	}
	return copy;
}

static struct load *start_load(struct modules *m, const struct module_want *w, struct load_wait *owner)
{
	struct load *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->name = copy_text(w->name);
	l->id = copy_text(w->id);
	if (!l->name || !l->id) {
		free_load(l);
		return NULL;
	}
	l->name_len = w->name.len;
	l->id_len = w->id.len;
	l->hash = w->hash;
	l->spelling = w->spelling;
	l->owner = owner;
	l->lost = w->lost;
	struct load **chain = load_chain(m, &w->spelling);
	l->next = *chain;
	l->link = chain;
	if (l->next)
		l->next->link = &l->next;
	*chain = l;
	l->queue_link = m->queue_end;
	*m->queue_end = l;
	m->queue_end = &l->queue_next;
	metric_add(M_LOADS_IN_FLIGHT, 1);
	pthread_cond_signal(&m->queued);
	return l;
}

static void join_load(struct load *l, struct module_want *w, struct load_wait *wait)
{
	w->load = l;
	w->wait = wait;
	w->next = l->waiters;
	w->link = &l->waiters;
	if (w->next)
		w->next->link = &w->next;
	l->waiters = w;
	wait->pending++;
}

static void leave_load(struct module_want *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	w->load = NULL;
	w->wait->pending--;
}

static void start_waiting(struct modules *m, struct load_wait *wait)
{
	wait->waiting = true;
	wait->next = m->waits;
	wait->link = &m->waits;
	if (wait->next)
		wait->next->link = &wait->next;
	m->waits = wait;
}

static void stop_waiting(struct load_wait *wait)
{
	wait->waiting = false;
	*wait->link = wait->next;
	if (wait->next)
		wait->next->link = wait->link;
}

static void leave_queue(struct modules *m, struct load_wait *wait)
{
	wait->queued = false;
	*wait->queue_link = wait->queue_next;
	if (wait->queue_next)
		wait->queue_next->queue_link = wait->queue_link;
	else
		m->cold_queue_end = wait->queue_link;
	m->cold_queued--;
	metric_add(M_COLD_QUEUED, -1);
}

static void enter_queue(struct modules *m, struct load_wait *wait)
{
	wait->queued = true;
	wait->queue_deadline = clock_now() + m->config->cold_wait;
	wait->queue_next = NULL;
	wait->queue_link = m->cold_queue_end;
	*m->cold_queue_end = wait;
	m->cold_queue_end = &wait->queue_next;
	m->cold_queued++;
	metric_add(M_COLD_QUEUED, 1);
}

static void take_place(struct modules *m, struct load_wait *wait)
{
	wait->cold = true;
	m->cold_running++;
	metric_add(M_COLD_REQUESTS, 1);
}

/* Whether the wants need a load that nobody runs yet. */
static bool needs_new_load(struct modules *m, const struct module_want *wants, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (wants[i].state == WANT_LOAD && !find_load(m, &wants[i]))
			return true;
	return false;
}

/* A load may have ended between the look in the caches and now. */
static bool just_loaded(struct modules *m, struct module_want *w)
{
	struct module *module = page_cache_get(m->cache, &w->hash);
	/* one that memcached knew of has lost the same page */
	if (module && w->lost && module->lost_at < w->lost_at) {
		module_unref(module);
		return false;
	}
	if (module) {
		set_found(w, module);
		return true;
	}
	struct failure f = failures_get(m->failures, &w->hash, &w->spelling);
	if (f.class != FAILURE_NONE)
		set_failed(w, f.class, (unsigned)((f.until - clock_now()) / SECOND) + 1);
	return f.class != FAILURE_NONE;
}

enum load_result modules_load(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count)
{
	enum load_result result = LOAD_READY;
	uint64_t started = 0;
	wait->timed_out = wait->refused = false;
	wait->pending = 0;
	pthread_mutex_lock(&m->lock);
	if (!wait->cold && needs_new_load(m, wants, count)) {
		if (m->cold_running < m->config->cold_requests) {
			take_place(m, wait);
		} else if (m->cold_queued >= m->config->cold_queue || m->stopping) {
			metric_add(M_COLD_REFUSED, 1);
			result = LOAD_REFUSED;
			goto out;
		} else {
			enter_queue(m, wait);
			start_waiting(m, wait);
			result = LOAD_WAIT;
			goto out;
		}
	}
	for (size_t i = 0; i < count; i++) {
		struct module_want *w = &wants[i];
		if (w->state != WANT_LOAD || just_loaded(m, w))
			continue;
		struct load *l = find_load(m, w);
		if (!l && started < m->config->cold_modules && (l = start_load(m, w, wait)))
			started++;
		if (l)
			join_load(l, w, wait);
		else
			set_failed(w, FAILURE_TEMPORARY,
			        1); /* more than cold_modules: the next try finds those loaded now */
	}
	if (wait->pending) {
		start_waiting(m, wait);
		result = LOAD_WAIT;
	}
out:
	pthread_mutex_unlock(&m->lock);
	return result;
}

/* Waits that are over and whose done is to be called without the lock. */
static void end_wait(struct load_wait *wait, struct load_wait **over)
{
	stop_waiting(wait);
	wait->next = *over;
	*over = wait;
}

static void call_done(struct load_wait *over)
{
	while (over) {
		struct load_wait *next = over->next;
		over->done(over);
		over = next;
	}
}

/* Gives free places to those that queue for them. */
static void admit(struct modules *m, struct load_wait **over)
{
	while (m->cold_queue && m->cold_running < m->config->cold_requests) {
		struct load_wait *wait = m->cold_queue;
		leave_queue(m, wait);
		take_place(m, wait);
		end_wait(wait, over);
	}
}

void modules_leave(struct modules *m, struct load_wait *wait)
{
	struct load_wait *over = NULL;
	pthread_mutex_lock(&m->lock);
	if (wait->cold) {
		wait->cold = false;
		m->cold_running--;
		metric_add(M_COLD_REQUESTS, -1);
		for (unsigned i = 0; i < LOAD_CHAINS; i++)
			for (struct load *l = m->loads[i]; l; l = l->next)
				if (l->owner == wait)
					l->owner = NULL;
		admit(m, &over);
	}
	pthread_mutex_unlock(&m->lock);
	call_done(over);
}

/* Tells everybody who waits for l how it ended. */
static void publish(struct modules *m, struct load *l)
{
	struct load_wait *over = NULL;
	pthread_mutex_lock(&m->lock);
	*l->link = l->next;
	if (l->next)
		l->next->link = l->link;
	if (l->owner)
		l->owner->running--;
	l->owner = NULL;
	/* in the cache before it is out of flight, so that nobody falls between the two */
	if (!l->stale && l->module)
		page_cache_put(m->cache, l->module);
	if (!l->stale && l->failure != FAILURE_NONE)
		failures_set(m->failures, &l->hash, &l->spelling, l->failure, l->marker, l->marker_seen);
	while (l->waiters) {
		struct module_want *w = l->waiters;
		struct load_wait *wait = w->wait;
		leave_load(w);
		w->loaded = true;
		w->download_bytes = l->download_bytes;
		w->download_time = l->download_time;
		w->parse_time = l->parse_time;
		w->fail_time = l->fail_time;
		w->parse_fail_time = l->parse_fail_time;
		if (l->module) {
			module_ref(l->module);
			atomic_fetch_add(&l->module->holds, 1);
			w->held = true;
			set_found(w, l->module);
		} else {
			set_failed(w, l->failure, l->retry_after);
		}
		if (!wait->pending && wait->waiting)
			end_wait(wait, &over);
	}
	pthread_cond_signal(&m->queued); /* the owner may have another one running now */
	pthread_mutex_unlock(&m->lock);
	call_done(over);
}

/* ---- threads ---- */

/* The first queued load whose owner has not too many running. */
static struct load *take_queued(struct modules *m)
{
	for (struct load *l = m->queue; l; l = l->queue_next) {
		if (l->owner && l->owner->running >= m->config->bucket_parallel_request)
			continue;
		*l->queue_link = l->queue_next;
		if (l->queue_next)
			l->queue_next->queue_link = l->queue_link;
		else
			m->queue_end = l->queue_link;
		if (l->owner)
			l->owner->running++;
		return l;
	}
	return NULL;
}

static void *loader_main(void *arg)
{
	struct modules *m = arg;
	struct loader r = {m, mc_client_new(m->servers), bucket_client_new(m->sources)};
	for (;;) {
		struct load *l = NULL;
		pthread_mutex_lock(&m->lock);
		while (!(l = take_queued(m)) && !m->stopping)
			pthread_cond_wait(&m->queued, &m->lock);
		pthread_mutex_unlock(&m->lock);
		if (!l)
			break;
		if (r.memcached && r.bucket) {
			load_run(&r, l);
		} else {
			l->failure = FAILURE_TEMPORARY;
			l->retry_after = 1;
		}
		publish(m, l);
		load_store(&r, l);
		metric_add(M_LOADS_IN_FLIGHT, -1);
		free_load(l);
	}
	mc_client_free(r.memcached);
	bucket_client_free(r.bucket);
	return NULL;
}

/* Waits whose time is over. */
static void expire(struct modules *m, int64_t now, struct load_wait **over)
{
	for (struct load_wait *wait = m->waits, *next; wait; wait = next) {
		next = wait->next;
		bool late = now >= wait->deadline;
		if (wait->queued && (late || now >= wait->queue_deadline)) {
			metric_add(M_COLD_REFUSED, 1);
			leave_queue(m, wait);
			wait->refused = true;
			end_wait(wait, over);
		} else if (late) {
			for (unsigned i = 0; i < LOAD_CHAINS && wait->pending; i++)
				for (struct load *l = m->loads[i]; l; l = l->next)
					for (struct module_want *w = l->waiters, *follower; w; w = follower) {
						follower = w->next;
						if (w->wait == wait)
							leave_load(w);
					}
			wait->timed_out = true;
			end_wait(wait, over);
		}
	}
}

/* Renews the leases of the loads that run. Their tokens are copied, since memcached is not spoken to under the lock. */
static void renew_leases(struct modules *m, struct mc_client *c)
{
	struct held {
		struct module_hash hash;
		uint64_t token;
	} held[1024]; /* as many as there can be loaders */
	unsigned count = 0;
	pthread_mutex_lock(&m->lock);
	for (struct load *l = m->leases; l && count < sizeof held / sizeof *held; l = l->lease_next)
		if (!l->stale) /* who loads the new file need not wait for the old one */
			held[count++] = (struct held){l->hash, l->token};
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < count; i++) {
		enum mc_status status = page_memcached_lease_renew(c, &held[i].hash, held[i].token);
		if (status == MC_OK)
			continue;
		pthread_mutex_lock(&m->lock);
		for (struct load *l = m->leases; l; l = l->lease_next)
			if (l->token == held[i].token && status != MC_DOWN)
				l->lease_lost = true;
		pthread_mutex_unlock(&m->lock);
	}
}

static void *keeper_main(void *arg)
{
	struct modules *m = arg;
	struct mc_client *c = mc_client_new(m->servers);
	int64_t renewed = clock_now();
	pthread_mutex_lock(&m->lock);
	while (!m->stopping) {
		struct load_wait *over = NULL;
		struct timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		t.tv_nsec += KEEPER_TICK_MS * 1000000L;
		if (t.tv_nsec >= SECOND) {
			t.tv_nsec -= SECOND;
			t.tv_sec++;
		}
		pthread_cond_timedwait(&m->keeping, &m->lock, &t);
		int64_t now = clock_now();
		expire(m, now, &over);
		pthread_mutex_unlock(&m->lock);
		call_done(over);
		if (c && now - renewed >= SECOND) {
			renewed = now;
			renew_leases(m, c);
		}
		pthread_mutex_lock(&m->lock);
	}
	pthread_mutex_unlock(&m->lock);
	mc_client_free(c);
	return NULL;
}

static void init_condition(pthread_cond_t *c)
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
		error_set(e, ERR_NO_MEMORY, "out of memory");
		return NULL;
	}
	m->config = c;
	m->queue_end = &m->queue;
	m->cold_queue_end = &m->cold_queue;
	pthread_mutex_init(&m->lock, NULL);
	init_condition(&m->queued);
	init_condition(&m->keeping);
	pthread_key_create(&m->client_key, free_client);
	m->cache = page_cache_new(c->cache_size);
	m->failures = failures_new(c);
	m->loaders = calloc(c->bucket_parallel, sizeof *m->loaders);
	m->servers = mc_servers_new(c, e);
	m->sources = m->servers ? bucket_sources_new(c, e) : NULL;
	if (!m->sources)
		goto failed;
	error_set(e, ERR_NO_MEMORY, "cannot start threads");
	if (!m->cache || !m->failures || !m->loaders)
		goto failed;
	m->keeper_runs = pthread_create(&m->keeper, NULL, keeper_main, m) == 0;
	while (m->keeper_runs && m->loader_count < c->bucket_parallel &&
	        pthread_create(&m->loaders[m->loader_count], NULL, loader_main, m) == 0)
		m->loader_count++;
	if (m->loader_count == c->bucket_parallel)
		return m;
failed:
	modules_stop(m);
	return NULL;
}

void modules_stop(struct modules *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->stopping = true;
	atomic_store(&m->cancel, true);
	pthread_cond_broadcast(&m->queued);
	pthread_cond_broadcast(&m->keeping);
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < m->loader_count; i++)
		pthread_join(m->loaders[i], NULL);
	if (m->keeper_runs)
		pthread_join(m->keeper, NULL);
	mc_client_free(pthread_getspecific(m->client_key));
	pthread_key_delete(m->client_key);
	page_cache_free(m->cache);
	failures_free(m->failures);
	bucket_sources_free(m->sources);
	mc_servers_free(m->servers);
	pthread_cond_destroy(&m->queued);
	pthread_cond_destroy(&m->keeping);
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

enum err modules_invalidate(struct modules *m, struct str name, struct str id, struct error *e)
{
	struct module_want w;
	if (!module_want_init(&w, m, name, id))
		return error_set(e, ERR_NO_MEMORY, "out of memory");
	metric_add(M_INVALIDATIONS, 1);
	struct mc_client *client = mc_enabled(m->servers) ? modules_memcached(m) : NULL;
	/* The marker first: a load that starts behind it sees it. */
	bool told = !mc_enabled(m->servers) || (client && page_memcached_invalidate(client, &w.hash) == MC_OK);
	pthread_mutex_lock(&m->lock);
	for (unsigned i = 0; i < LOAD_CHAINS; i++)
		for (struct load *l = m->loads[i]; l; l = l->next)
			if (module_hash_equal(&l->hash, &w.hash))
				l->stale = true;
	page_cache_remove(m->cache, &w.hash, NULL);
	failures_forget(m->failures, &w.hash);
	pthread_mutex_unlock(&m->lock);
	if (!told)
		return error_set(e, ERR_UNAVAILABLE,
		        "forgotten in this process, but memcached does not answer: other processes and hosts may go on "
		        "with the old file; try again");
	return ERR_OK;
}

enum err modules_probe(struct modules *m, struct error *e)
{
	enum err err = ERR_OK;
	struct mc_client *client = mc_enabled(m->servers) ? modules_memcached(m) : NULL;
	if (client)
		err = mc_probe(client, e);
	struct bucket_client *bucket = err ? NULL : bucket_client_new(m->sources);
	for (unsigned i = 0; bucket && !err && i < bucket_sources_count(m->sources); i++)
		err = bucket_probe(bucket, i, e);
	bucket_client_free(bucket);
	return err;
}
