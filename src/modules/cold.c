/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/cold.h"

#include "base/clock.h"
#include "base/metrics.h"

void cold_init(struct cold *c, pthread_mutex_t *lock, struct load_means *means, struct load_queue *queue, uint64_t seed)
{
	*c = (struct cold){.lock = lock, .means = means, .queue = queue, .shares.seed = seed};
	gate_init(&c->gate, means->config);
}

/* ---- what requests call ---- */

/* A module in memcached has lost the same page, or nobody has made it; one that is not stored has all its pages. */
static bool lacks_the_same(const struct module_want *w, struct module *module)
{
	if (!w->own.lost || !atomic_load(&module->stored))
		return false;
	return w->own.lost == LOST_UNMADE ? !offmap_is_whole(module->map) : module->lost_at < w->own.lost_at;
}

/* A load may have ended since the request looked in the caches. A result from before an invalidation that the want has
 * seen does not count. */
static bool just_loaded(struct cold *c, struct module_want *w)
{
	struct module *module = page_cache_get(c->means->cache, &w->own.hash);
	if (module &&
	        (lacks_the_same(w, module) || want_outdates(w, module->map->marker, atomic_load(&module->checked)) ||
	                atomic_load(&module->checked) < w->own.not_before)) {
		module_unref(module);
		return false;
	}
	if (module) {
		want_found(w, module);
		return true;
	}
	struct failure f = failures_get(c->means->failures, &w->own.hash, &w->own.spelling);
	if (f.class == FAILURE_NONE || want_outdates(w, f.marker, f.checked) ||
	        (f.class != FAILURE_TEMPORARY && f.checked < w->own.not_before))
		return false;
	want_failed(w, &f, failure_seconds(f.until, clock_now()));
	return true;
}

/* Whether any want needs a load; *starts: whether any needs a load that nobody has started. After a temporary failure
 * the request is refused, so it needs none. */
static bool needs_load(struct cold *c, struct load_wait *wait, bool *starts)
{
	bool needs = false;
	*starts = false;
	for (size_t i = 0; i < wait->want_count; i++) {
		struct module_want *w = &wait->wants[i];
		if (w->state == WANT_LOAD && !just_loaded(c, w)) {
			needs = true;
			*starts = *starts || !queue_find(c->queue, w);
		} else if (w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY) {
			return false;
		}
	}
	return needs;
}

static void get_loads(struct cold *c, struct load_wait *wait)
{
	uint64_t started = 0;
	for (size_t i = 0; i < wait->want_count; i++) {
		struct module_want *w = &wait->wants[i];
		if (w->state != WANT_LOAD)
			continue;
		struct load *l = queue_find(c->queue, w);
		if (!l && started < c->means->config->cold_modules && (l = queue_start(c->queue, w, wait)))
			started++;
		if (l)
			wait_join(wait, w, &l->waiters);
		else /* more than cold_modules: when the client tries again, those loaded now are in the cache */
			want_failed(w, &(struct failure){.class = FAILURE_TEMPORARY}, 1);
	}
}

enum load_result cold_load(struct cold *c, struct load_wait *wait, struct module_want *wants, size_t count)
{
	enum load_result result = LOAD_READY;
	bool starts;
	wait->timed_out = wait->refused = false;
	wait->wants = wants;
	wait->want_count = count;
	pthread_mutex_lock(c->lock);
	if (needs_load(c, wait, &starts)) {
		if (!wait->share)
			wait->share = shares_get(&c->shares, wait->client);
		if (!wait->share)
			result = LOAD_REFUSED;
		else if (!wait->gate.placed)
			result = gate_enter(&c->gate, &c->waits, wait, starts);
		if (result == LOAD_READY)
			get_loads(c, wait);
		if (wait->pending) {
			waits_begin(&c->waits, wait);
			result = LOAD_WAIT;
		}
	}
	pthread_mutex_unlock(c->lock);
	return result;
}

void cold_leave(struct cold *c, struct load_wait *wait)
{
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	pthread_mutex_lock(c->lock);
	wait_leave_all(wait);
	queue_abandon(c->queue, wait);
	if (wait->gate.placed) {
		gate_leave(&c->gate, wait);
		gate_admit(&c->gate, &c->waits, &over);
	}
	share_put(wait->share);
	wait->share = NULL;
	pthread_mutex_unlock(c->lock);
	waits_call_done(&over);
}

/* ---- how waits end ---- */

/* Gives a waiting want the result of its load. */
static void end_wait(struct cold *c, const struct load *l, struct module_want *w)
{
	w->loaded = true;
	w->costs = l->costs;
	if (!l->module) {
		want_failed(w, &l->failure, l->retry_after);
	} else if (w->own.wait->held && gate_memory_full(&c->gate)) {
		want_failed(w, &(struct failure){.class = FAILURE_TEMPORARY}, 1);
	} else {
		/* hold it even if the cache is full: otherwise it could be evicted before the request is answered,
		 * again and again */
		module_ref(l->module);
		want_found(w, l->module);
		want_hold(w, &w->own.wait->held);
	}
}

/* Puts the result into the cache or among the failures. Call this before the load leaves flight, so that every request
 * finds one or the other. */
static void remember(struct cold *c, struct load *l)
{
	int64_t until = 0;
	if (!l->lease.stale && l->module)
		page_cache_add(c->means->cache, l->module);
	if (!l->lease.stale && l->failure.class != FAILURE_NONE)
		until = failures_set(c->means->failures, &l->lease.hash, &l->spelling, &l->failure);
	l->retry_after = failure_seconds(until, clock_now());
}

/* Whether the result is the want's too. If not, its request loads the module again: it was invalidated meanwhile, or
 * the file may be there under the id as this want spells it. */
static bool settles(const struct load *l, const struct module_want *w)
{
	bool other_file = !l->module && l->failure.class != FAILURE_TEMPORARY &&
	                  !module_hash_equal(&l->spelling, &w->own.spelling);
	return !other_file && !want_outdates(w, l->failure.marker, l->failure.checked);
}

void cold_publish(struct cold *c, struct load *l)
{
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	struct module_want *w;
	pthread_mutex_lock(c->lock);
	remember(c, l);
	queue_done(c->queue, l);
	while ((w = LIST_FIRST(&l->waiters))) {
		struct load_wait *wait = w->own.wait;
		wait_leave(w);
		if (settles(l, w))
			end_wait(c, l, w);
		if (w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY)
			wait_leave_all(wait); /* the request is refused: no need to wait for its other loads */
		if (!wait->pending && wait->waiting)
			waits_end(&c->waits, wait, &over);
	}
	pthread_mutex_unlock(c->lock);
	page_cache_evict(c->means->cache);
	waits_call_done(&over);
}

static void expire(struct cold *c, struct load_wait *wait, int64_t now, bool look, struct wait_list *over)
{
	bool starts, late = wait_is_late(wait, now, look);
	if (wait->gate.lined && (late || now >= wait->gate.deadline)) {
		gate_leave_line(&c->gate, wait);
		/* other requests may have loaded its modules, or be loading them */
		wait->refused = late || (needs_load(c, wait, &starts) && starts);
		metric_add(M_COLD_REFUSED, wait->refused);
		waits_end(&c->waits, wait, over);
	} else if (late) {
		wait_leave_all(wait);
		wait->timed_out = true;
		waits_end(&c->waits, wait, over);
	}
}

void cold_expire(struct cold *c, int64_t now, bool look)
{
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	pthread_mutex_lock(c->lock);
	for (struct load_wait *wait = LIST_FIRST(&c->waits.list), *next; wait; wait = next) {
		next = LIST_NEXT(wait, next);
		expire(c, wait, now, look, &over);
	}
	gate_admit(&c->gate, &c->waits, &over);
	pthread_mutex_unlock(c->lock);
	waits_call_done(&over);
}
