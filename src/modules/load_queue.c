/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads in flight: who waits for which, whose turn it is, and the threads that run them. Each request has a queue of
 * its own, and loaders take from the queues in turn, so that one with a thousand modules does not stand before one with
 * a single module. A load that nobody waits for any more is dropped while it is queued, and ends where it runs.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/resident.h"
#include "modules/load.h"

enum {
	KEEPER_TICK_MS = 100,
	LEASE_POLL_MS = 30,
	TRIM_INTERVAL = 30, /* seconds */
};

/* ---- loads; all under m->lock ---- */

static struct load **load_chain(struct modules *m, const struct module_hash *spelling)
{
	return &m->loads[module_hash_seeded(spelling, m->seed) % LOAD_CHAINS];
}

static struct load *find_load(struct modules *m, const struct module_want *w)
{
	struct load *l = *load_chain(m, &w->spelling);
	while (l && (l->stale || !module_hash_equal(&l->spelling, &w->spelling)))
		l = l->next;
	return l;
}

void load_free(struct load *l)
{
	metric_add(M_LOADS_IN_FLIGHT, -1);
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

static void chain_load(struct modules *m, struct load *l)
{
	struct load **chain = load_chain(m, &l->spelling);
	l->next = *chain;
	l->link = chain;
	if (l->next)
		l->next->link = &l->next;
	*chain = l;
}

static void unchain_load(struct load *l)
{
	*l->link = l->next;
	if (l->next)
		l->next->link = l->link;
}

/* ---- whose turn it is ---- */

static void end_turn(struct modules *m, struct load_wait *wait)
{
	if (!wait->turn_link)
		return;
	*wait->turn_link = wait->turn_next;
	if (wait->turn_next)
		wait->turn_next->turn_link = wait->turn_link;
	else
		m->turns_end = wait->turn_link;
	wait->turn_link = NULL;
}

/* To the end of the turns, if it has anything queued. */
static void next_turn(struct modules *m, struct load_wait *wait)
{
	end_turn(m, wait);
	if (!wait->queued)
		return;
	wait->turn_next = NULL;
	wait->turn_link = m->turns_end;
	*m->turns_end = wait;
	m->turns_end = &wait->turn_next;
}

static void queue_load(struct modules *m, struct load *l, struct load_wait *owner)
{
	l->owner = owner;
	l->own_next = NULL;
	if (!owner->queued)
		owner->queued_end = &owner->queued;
	*owner->queued_end = l;
	owner->queued_end = &l->own_next;
	if (!owner->turn_link)
		next_turn(m, owner);
	pthread_cond_signal(&m->queued);
}

static void disown(struct load *l)
{
	*l->own_link = l->own_next;
	if (l->own_next)
		l->own_next->own_link = l->own_link;
	l->owner->running_count--;
	l->owner = NULL;
}

/* The next load, of the first whose turn it is and who has not too many running. */
static struct load *take_queued(struct modules *m)
{
	/* what is not finished has its share of memory, too */
	uint64_t unfinished = (uint64_t)page_cache_charged(m->cache) + m->finishing_bytes;
	bool room =
	        m->transfers < m->config->bucket_parallel && (!m->unfinished || unfinished < m->config->cache_size / 2);
	struct load_wait *owner = room ? m->turns : NULL;
	while (owner && owner->running_count >= m->config->bucket_parallel_request)
		owner = owner->turn_next;
	if (!owner)
		return NULL;
	struct load *l = owner->queued;
	owner->queued = l->own_next;
	next_turn(m, owner);
	l->own_next = owner->running;
	l->own_link = &owner->running;
	if (l->own_next)
		l->own_next->own_link = &l->own_next;
	owner->running = l;
	owner->running_count++;
	l->transferring = true;
	m->transfers++;
	m->unfinished++;
	return l;
}

/* ---- loads that other hosts have the leases of: they have neither a thread nor the place of a transfer ---- */

/* A load that was taken goes there. With many each is looked at less often, so that memcached is not asked more. */
static void wait_elsewhere(struct modules *m, struct load *l)
{
	m->unfinished--;
	l->look_at = clock_now() + LEASE_POLL_MS * MS * (1 + m->elsewhere_count / loaders_max(m->config));
	l->elsewhere_next = NULL;
	*m->elsewhere_end = l;
	m->elsewhere_end = &l->elsewhere_next;
	m->elsewhere_count++;
}

static struct load *leave_elsewhere(struct modules *m)
{
	struct load *l = m->elsewhere;
	m->elsewhere = l->elsewhere_next;
	if (!m->elsewhere)
		m->elsewhere_end = &m->elsewhere;
	m->elsewhere_count--;
	return l;
}

static void drop_load(struct load *l)
{
	unchain_load(l);
	load_free(l);
}

/* One that it is time to look at; those that nobody waits for any more are dropped. */
static struct load *take_elsewhere(struct modules *m)
{
	int64_t now = m->elsewhere ? clock_now() : 0;
	while (m->elsewhere && m->elsewhere->look_at <= now) {
		struct load *l = leave_elsewhere(m);
		if (l->waiters) {
			m->unfinished++;
			return l;
		}
		drop_load(l);
	}
	return NULL;
}

/* It is loaded here after all, when its turn comes. */
static void load_here(struct modules *m, struct load *l)
{
	m->unfinished--;
	if (l->waiters)
		queue_load(m, l, l->waiters->wait);
	else
		drop_load(l);
}

/* The owner goes: what runs goes on, what is queued goes to who else waits for it, if anybody does. */
static void abandon_loads(struct modules *m, struct load_wait *owner)
{
	while (owner->running)
		disown(owner->running);
	for (struct load *l = owner->queued, *next; l; l = next) {
		next = l->own_next;
		if (l->waiters)
			queue_load(m, l, l->waiters->wait);
		else
			drop_load(l);
	}
	owner->queued = NULL;
	end_turn(m, owner);
}

/* ---- who waits ---- */

static struct load *start_load(struct modules *m, const struct module_want *w, struct load_wait *owner)
{
	struct load *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	metric_add(M_LOADS_IN_FLIGHT, 1);
	l->name = copy_text(w->name);
	l->id = copy_text(w->id);
	if (!l->name || !l->id) {
		load_free(l);
		return NULL;
	}
	l->name_len = w->name.len;
	l->id_len = w->id.len;
	l->hash = w->hash;
	l->spelling = w->spelling;
	l->kind = w->kind;
	l->file_id = w->file_id;
	l->question = w->question;
	l->lost = w->lost;
	chain_load(m, l);
	queue_load(m, l, owner);
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

static void leave_loads(struct load_wait *wait)
{
	for (size_t i = 0; i < wait->want_count && wait->pending; i++)
		if (wait->wants[i].load)
			leave_load(&wait->wants[i]);
}

static void start_waiting(struct modules *m, struct load_wait *wait)
{
	wait->waiting = true;
	wait->next = m->waits;
	wait->link = &m->waits;
	if (wait->next)
		wait->next->link = &wait->next;
	m->waits = wait;
	m->wait_count++;
}

/* Over: its done is to be called, without the lock. */
static void end_wait(struct modules *m, struct load_wait *wait, struct load_wait **over)
{
	wait->waiting = false;
	*wait->link = wait->next;
	if (wait->next)
		wait->next->link = wait->link;
	m->wait_count--;
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

/* ---- places for requests that load ---- */

static void take_place(struct modules *m, struct load_wait *wait)
{
	wait->cold = true;
	m->cold_running++;
	metric_add(M_COLD_REQUESTS, 1);
}

static void enter_gate(struct modules *m, struct load_wait *wait)
{
	wait->gated = true;
	wait->gate_deadline = clock_now() + m->config->cold_wait;
	wait->gate_next = NULL;
	wait->gate_link = m->gate_end;
	*m->gate_end = wait;
	m->gate_end = &wait->gate_next;
	m->gated++;
	metric_add(M_COLD_QUEUED, 1);
}

static void leave_gate(struct modules *m, struct load_wait *wait)
{
	wait->gated = false;
	*wait->gate_link = wait->gate_next;
	if (wait->gate_next)
		wait->gate_next->gate_link = wait->gate_link;
	else
		m->gate_end = wait->gate_link;
	m->gated--;
	metric_add(M_COLD_QUEUED, -1);
}

/* Gives free places to those that wait for them. */
static void admit(struct modules *m, struct load_wait **over)
{
	while (m->gate && !m->memory_full && m->cold_running < m->config->cold_requests) {
		struct load_wait *wait = m->gate;
		leave_gate(m, wait);
		take_place(m, wait);
		end_wait(m, wait, over);
	}
}

static bool is_memory_full(struct modules *m)
{
	m->memory_full = m->memory_full || resident_bytes() > m->memory_max; /* until the keeper says otherwise */
	return m->memory_full;
}

/* What a request without a place gets that needs something loaded. */
static enum load_result find_place(struct modules *m, struct load_wait *wait, bool starts)
{
	uint64_t room = m->config->cold_requests + m->config->cold_queue;
	bool full = is_memory_full(m);
	if (!full && starts && m->cold_running < m->config->cold_requests) {
		take_place(m, wait);
		return LOAD_READY;
	}
	/* those that only join loads of others are many at most, too */
	if (full || m->stopping || m->wait_count >= 4 * room || (starts && m->gated >= m->config->cold_queue)) {
		metric_add(M_COLD_REFUSED, 1);
		return LOAD_REFUSED;
	}
	if (!starts)
		return LOAD_READY;
	enter_gate(m, wait);
	start_waiting(m, wait);
	return LOAD_WAIT;
}

/* ---- what requests call ---- */

/* A load may have ended between the look in the caches and now; but what began before the module was invalidated is
 * not for who has seen the new marker. */
static bool outdated(const struct module_want *w, uint64_t marker, int64_t marker_seen)
{
	return w->marker_seen > marker_seen && w->marker != marker;
}

static bool just_loaded(struct modules *m, struct module_want *w)
{
	struct module *module = page_cache_get(m->cache, &w->hash);
	/* one that memcached knew of has lost the same page; one that is not stored has all of them */
	if (module && ((w->lost && module->lost_at < w->lost_at && atomic_load(&module->stored)) ||
	                      outdated(w, module->map->marker, atomic_load(&module->checked)) ||
	                      atomic_load(&module->checked) < w->not_before)) {
		module_unref(module);
		return false;
	}
	if (module) {
		want_found(w, module);
		return true;
	}
	struct failure f = failures_get(m->failures, &w->hash, &w->spelling);
	if (f.class == FAILURE_NONE || outdated(w, f.marker, f.checked) ||
	        (f.class != FAILURE_TEMPORARY && f.checked < w->not_before))
		return false;
	want_failed(w, &f, failure_seconds(f.until, clock_now()));
	return true;
}

/* Whether any want needs a load, and (*starts) one that nobody runs yet. With a temporary failure the request is
 * refused, so nothing is needed. */
static bool needs_load(struct modules *m, struct module_want *wants, size_t count, bool *starts)
{
	bool needs = false;
	*starts = false;
	for (size_t i = 0; i < count; i++)
		if (wants[i].state == WANT_LOAD && !just_loaded(m, &wants[i])) {
			needs = true;
			*starts = *starts || !find_load(m, &wants[i]);
		} else if (wants[i].state == WANT_FAILED && wants[i].failure == FAILURE_TEMPORARY) {
			return false;
		}
	return needs;
}

static void get_loads(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count)
{
	uint64_t started = 0;
	for (size_t i = 0; i < count; i++) {
		struct module_want *w = &wants[i];
		if (w->state != WANT_LOAD)
			continue;
		struct load *l = find_load(m, w);
		if (!l && started < m->config->cold_modules && (l = start_load(m, w, wait)))
			started++;
		if (l)
			join_load(l, w, wait);
		else /* more than cold_modules: the next try finds those loaded now */
			want_failed(w, &(struct failure){.class = FAILURE_TEMPORARY}, 1);
	}
}

enum load_result modules_load(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count)
{
	enum load_result result = LOAD_READY;
	bool starts;
	wait->timed_out = wait->refused = false;
	wait->wants = wants;
	wait->want_count = count;
	pthread_mutex_lock(&m->lock);
	if (needs_load(m, wants, count, &starts)) {
		if (!wait->cold)
			result = find_place(m, wait, starts);
		if (result == LOAD_READY)
			get_loads(m, wait, wants, count);
		if (wait->pending) {
			start_waiting(m, wait);
			result = LOAD_WAIT;
		}
	}
	pthread_mutex_unlock(&m->lock);
	return result;
}

void modules_leave(struct modules *m, struct load_wait *wait)
{
	struct load_wait *over = NULL;
	pthread_mutex_lock(&m->lock);
	leave_loads(wait);
	abandon_loads(m, wait);
	if (wait->cold) {
		wait->cold = false;
		m->cold_running--;
		metric_add(M_COLD_REQUESTS, -1);
		admit(m, &over);
	}
	pthread_mutex_unlock(&m->lock);
	call_done(over);
}

/* ---- the end of a load ---- */

static struct failure failure_of(const struct load *l)
{
	struct failure f = {.class = l->failure, .marker = l->marker, .checked = l->marker_seen, .alias = l->alias};
	memcpy(f.why, l->why, sizeof f.why);
	return f;
}

/* One who waited learns how it ended. */
static void tell(struct modules *m, const struct load *l, struct module *module, struct module_want *w)
{
	w->loaded = true;
	w->download_bytes = l->download_bytes;
	w->download_time = l->download_time;
	w->parse_time = l->parse_time;
	w->fail_time = l->fail_time;
	w->parse_fail_time = l->parse_fail_time;
	if (!module) {
		const struct failure failure = failure_of(l);
		want_failed(w, &failure, l->retry_after);
	} else if (w->wait->held && is_memory_full(m)) {
		want_failed(w, &(struct failure){.class = FAILURE_TEMPORARY}, 1);
	} else {
		/* whatever the cache may have: without it the request could never be answered */
		module_ref(module);
		atomic_fetch_add(&module->holds, 1);
		w->held = true;
		w->wait->held++;
		want_found(w, module);
	}
}

static void end_transfer(struct modules *m, struct load *l)
{
	if (l->owner)
		disown(l);
	m->transfers -= l->transferring;
	l->transferring = false;
	pthread_cond_signal(&m->queued);
}

/* Takes l out of flight and tells everybody who waits for it. */
static void publish(struct modules *m, struct load *l)
{
	struct load_wait *over = NULL;
	const struct failure failure = failure_of(l);
	int64_t until = 0;
	pthread_mutex_lock(&m->lock);
	unchain_load(l);
	end_transfer(m, l);
	/* in the cache before it is out of flight, so that nobody falls between the two */
	if (!l->stale && l->module)
		page_cache_add(m->cache, l->module);
	if (!l->stale && l->failure != FAILURE_NONE)
		until = failures_set(m->failures, &l->hash, &l->spelling, &failure);
	l->retry_after = failure_seconds(until, clock_now());
	while (l->waiters) {
		struct module_want *w = l->waiters;
		struct load_wait *wait = w->wait;
		leave_load(w);
		if (!outdated(w, l->marker, l->marker_seen))
			tell(m, l, l->module, w);
		if (w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY)
			leave_loads(wait); /* the request is refused: it need not wait for the others */
		if (!wait->pending && wait->waiting)
			end_wait(m, wait, &over);
	}
	pthread_mutex_unlock(&m->lock);
	page_cache_evict(m->cache);
	call_done(over);
}

/* ---- threads ---- */

/* What a loader has may be missing for want of memory: then it tries again with each load. */
static bool equip(struct loader *r)
{
	if (!r->memcached)
		r->memcached = mc_client_new(r->modules->servers);
	if (!r->bucket)
		r->bucket = bucket_client_new(r->modules->sources);
	if (!r->store && r->modules->store)
		r->store = store_client_new(r->modules->store);
	return r->memcached && r->bucket && (r->store || !r->modules->store);
}

static void wait_for_load(struct modules *m)
{
	if (m->elsewhere) {
		struct timespec t = {m->elsewhere->look_at / SECOND, m->elsewhere->look_at % SECOND};
		pthread_cond_timedwait(&m->queued, &m->lock, &t);
	} else {
		pthread_cond_wait(&m->queued, &m->lock);
	}
}

/* A load that was taken and not done. */
static void put_back(struct modules *m, struct load *l, enum load_step step)
{
	pthread_mutex_lock(&m->lock);
	end_transfer(m, l);
	if (step == LOAD_ELSEWHERE)
		wait_elsewhere(m, l);
	else
		load_here(m, l);
	pthread_cond_broadcast(&m->queued);
	pthread_mutex_unlock(&m->lock);
}

static void *loader_main(void *arg)
{
	struct modules *m = arg;
	struct loader r = {.modules = m};
	for (;;) {
		struct load *l = NULL;
		enum load_step step = LOAD_DONE;
		pthread_mutex_lock(&m->lock);
		while (!m->stopping && !(l = take_elsewhere(m)) && !(l = take_queued(m)))
			wait_for_load(m);
		pthread_mutex_unlock(&m->lock);
		if (!l)
			break;
		if (equip(&r))
			step = load_run(&r, l);
		else
			l->failure = FAILURE_TEMPORARY;
		if (step == LOAD_DONE) {
			publish(m, l);
			load_finish(&r, l);
		} else {
			put_back(m, l, step);
		}
	}
	mc_client_free(r.memcached);
	bucket_client_free(r.bucket);
	store_client_free(r.store);
	return NULL;
}

/* Waits whose time is over or, when they are looked at, of clients that have gone. */
static void expire(struct modules *m, int64_t now, bool look, struct load_wait **over)
{
	for (struct load_wait *wait = m->waits, *next; wait; wait = next) {
		next = wait->next;
		bool late = now >= wait->deadline || (look && wait->gone(wait));
		if (wait->gated && (late || now >= wait->gate_deadline)) {
			bool starts;
			leave_gate(m, wait);
			/* what it would have loaded others may have loaded, or do so now */
			wait->refused = late || (needs_load(m, wait->wants, wait->want_count, &starts) && starts);
			metric_add(M_COLD_REFUSED, wait->refused);
			end_wait(m, wait, over);
		} else if (late) {
			leave_loads(wait);
			wait->timed_out = true;
			end_wait(m, wait, over);
		}
	}
}

/* Renews the leases of the loads that run. Their tokens are copied, since memcached is not spoken to under the lock. */
static void renew_leases(struct modules *m, struct mc_client *c)
{
	struct held {
		struct module_hash hash;
		uint64_t token, marker;
	} *held = NULL;
	size_t count = 0, all = 0;
	pthread_mutex_lock(&m->lock);
	for (struct load *l = m->leases; l; l = l->lease_next)
		all++;
	held = malloc((all + 1) * sizeof *held);
	for (struct load *l = m->leases; l && held; l = l->lease_next)
		if (!l->stale) /* who loads the new file need not wait for the old one */
			held[count++] = (struct held){l->hash, l->token, l->marker};
	pthread_mutex_unlock(&m->lock);
	for (size_t i = 0; i < count; i++) {
		enum mc_status status = page_memcached_lease_renew(c, &held[i].hash, held[i].token, held[i].marker);
		bool ended = true;
		pthread_mutex_lock(&m->lock);
		for (struct load *l = m->leases; l; l = l->lease_next)
			if (l->token == held[i].token) {
				ended = false;
				l->lease_lost |= status != MC_OK && status != MC_DOWN;
			}
		pthread_mutex_unlock(&m->lock);
		if (ended && status == MC_OK) /* its load gave it back meanwhile, and it may have been taken again */
			page_memcached_lease_release(c, &held[i].hash, held[i].token);
	}
	free(held);
}

/* What the keeper knows of memory. */
struct memory_watch {
	int64_t trimmed; /* when memory was given back */
	bool full;
};

/* Of what is too much, first what malloc keeps of freed memory goes, and then, when no request waits that could have
 * it, what the cache has. */
static void watch_memory(struct modules *m, int64_t now, struct memory_watch *w)
{
	uint64_t bytes = resident_bytes();
	bool trims = bytes > m->memory_max && now - w->trimmed >= SECOND;
	if (trims) {
		w->trimmed = now;
		resident_trim();
		bytes = resident_bytes();
	}
	pthread_mutex_lock(&m->lock);
	bool full = bytes > m->memory_max, idle = !m->wait_count, noticed = full || m->memory_full;
	m->memory_full = full;
	pthread_mutex_unlock(&m->lock);
	if (noticed != w->full)
		log_event(noticed ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, noticed ? "memory full" : "memory free",
		        "%llu of %llu MB are resident", (unsigned long long)bytes >> 20,
		        (unsigned long long)m->memory_max >> 20);
	w->full = noticed;
	if (trims && full && idle) /* the next one gives it back */
		page_cache_shrink(m->cache, bytes - m->memory_max + m->memory_max / 16);
}

static void *keeper_main(void *arg)
{
	struct modules *m = arg;
	struct mc_client *c = mc_client_new(m->servers);
	int64_t second = clock_now(), trimmed = second;
	struct memory_watch memory = {0};
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
		bool next_second = now - second >= SECOND;
		if (next_second)
			second = now;
		expire(m, now, next_second, &over);
		admit(m, &over);
		pthread_mutex_unlock(&m->lock);
		call_done(over);
		watch_memory(m, now, &memory);
		if (next_second)
			page_cache_evict(m->cache); /* what requests held until now */
		if (c && next_second) {
			renew_leases(m, c);
			modules_put_markers(m, c);
		}
		if (now - trimmed >= TRIM_INTERVAL * SECOND) {
			trimmed = now;
			block_pool_trim(m->blocks);
		}
		pthread_mutex_lock(&m->lock);
	}
	pthread_mutex_unlock(&m->lock);
	mc_client_free(c);
	return NULL;
}

bool loads_start(struct modules *m)
{
	m->keeper_runs = pthread_create(&m->keeper, NULL, keeper_main, m) == 0;
	while (m->keeper_runs && m->loader_count < loaders_max(m->config) &&
	        pthread_create(&m->loaders[m->loader_count], NULL, loader_main, m) == 0)
		m->loader_count++;
	return m->loader_count == loaders_max(m->config) && finishers_start(m);
}

void loads_stop(struct modules *m)
{
	pthread_mutex_lock(&m->lock);
	m->stopping = true;
	atomic_store(&m->cancel, true);
	pthread_cond_broadcast(&m->queued);
	pthread_cond_broadcast(&m->keeping);
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < m->loader_count; i++)
		pthread_join(m->loaders[i], NULL);
	while (m->elsewhere)
		drop_load(leave_elsewhere(m));
	finishers_stop(m);
	if (m->keeper_runs)
		pthread_join(m->keeper, NULL);
}
