/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a module (enum life). It moves on only here, under the lock:
 *
 *   start                         loads_publish   loads_finishing       loads_made_whole
 *     └─► QUEUED ────► TAKEN ────────────► LOADED ◄────────► FINISHING ────────┬─► STORED   memcached has its pages
 *           ▲          │   ▲                 │                                 │     ▲
 *           │          ▼   │                 └─► it gave no module:            │     └── a root in memcached
 *           └──────────┴─ AWAY                   the outcome is remembered     └─► WHOLE    all stay in memory
 *
 *   QUEUED     until it is its request's turn and there is memory
 *   TAKEN      load.c runs it
 *   AWAY       another host has its lease: it is TAKEN every now and then, to look
 *   LOADED     its requests have it, the load is freed when the root is announced: pages are made as they are missed
 *   FINISHING  finish.c makes all
 *
 * Until it is LOADED it is a struct load, which nobody may wait for any more: that is dropped before it is QUEUED again
 * or TAKEN from AWAY. Then it is a struct module, which may leave the cache at any time. Where requests stand is in
 * want.h.
 *
 * Static functions are called with the lock held, unless they say otherwise.
 */
#include <config.h>

#include "modules/loads.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"

enum { LOOK_MS = 30 }; /* at a lease that another host has */

/* ---- waits ---- */

/* Makes the want wait for a load. The request waits until none of its wants does. */
static void join(struct load *l, struct load_wait *wait, struct module_want *w)
{
	w->own.wait = wait;
	LIST_INSERT_HEAD(&l->waiters, w, own.next);
	wait->pending++;
}

static void leave(struct module_want *w)
{
	LIST_REMOVE(w, own.next);
	w->own.wait->pending--;
	w->own.wait = NULL;
}

static void leave_all(struct load_wait *wait)
{
	for (size_t i = 0; i < wait->want_count && wait->pending; i++)
		if (wait->wants[i].own.wait)
			leave(&wait->wants[i]);
}

static void begin_wait(struct loads *ls, struct load_wait *wait)
{
	TAILQ_INSERT_TAIL(&ls->waits, wait, next);
}

/* It is told by unlock_and_tell. */
static void end_wait(struct loads *ls, struct load_wait *wait)
{
	TAILQ_REMOVE(&ls->waits, wait, next);
	TAILQ_INSERT_TAIL(&ls->over, wait, next);
}

/* Unlocks, and calls `done` for each wait that has ended. It may be freed as soon as that is called. */
static void unlock_and_tell(struct loads *ls)
{
	struct wait_list over = TAILQ_HEAD_INITIALIZER(over);
	struct load_wait *wait;
	TAILQ_CONCAT(&over, &ls->over, next);
	pthread_mutex_unlock(&ls->lock);
	turnstile_tell(&ls->places);
	while ((wait = TAILQ_FIRST(&over))) {
		TAILQ_REMOVE(&over, wait, next);
		wait->done(wait);
	}
}

/* ---- places ---- */

/* Whose turn it is gets a free place; nobody while memory is full. */
static void admit(struct loads *ls)
{
	turnstile_set_places(&ls->places, ls->memory_full ? 0 : (unsigned)ls->context->config->cold_requests);
}

/* Whether more is resident than may be; true until loads_note_memory says otherwise. */
static bool is_memory_full(struct loads *ls)
{
	uint64_t most = ls->context->config->memory;
	if (!ls->memory_full && most && account_resident() > most) {
		ls->memory_full = true;
		admit(ls);
	}
	return ls->memory_full;
}

static bool in_line(const struct load_wait *wait)
{
	return wait->visit.state == VISIT_WAITS;
}

static bool has_place(const struct load_wait *wait)
{
	return wait->visit.state == VISIT_INSIDE;
}

static struct load_wait *wait_of_visit(struct visit *v)
{
	return (struct load_wait *)((char *)v - offsetof(struct load_wait, visit));
}

static void placed(struct visit *v)
{
	struct load_wait *wait = wait_of_visit(v);
	end_wait(wait->loads, wait);
}

static enum visit_state visit(struct loads *ls, struct load_wait *wait, bool returns)
{
	wait->visit = (struct visit){.turn.client = wait->client,
	        .prefix = wait->client_prefix,
	        .patient = returns,
	        .called = placed,
	        .until = returns ? INT64_MAX : clock_now() + ls->context->config->cold_wait};
	return turnstile_enter(&ls->places, &wait->visit);
}

/* For a request without a place that needs loads. One that lacks nothing but what others load needs none, only memory:
 * its body is charged. LOAD_WAIT: it stands in line. */
static enum load_result enter(struct loads *ls, struct load_wait *wait)
{
	const bool full = is_memory_full(ls);
	if (!full && !wait->lacks)
		return LOAD_READY;
	switch (full ? VISIT_REFUSED : visit(ls, wait, false)) {
	case VISIT_INSIDE:
		return LOAD_READY;
	case VISIT_WAITS:
		begin_wait(ls, wait);
		return LOAD_WAIT;
	default:
		metric_add(M_COLD_REFUSED, 1);
		return LOAD_REFUSED;
	}
}

static void leave_place(struct loads *ls, struct load_wait *wait)
{
	if (has_place(wait))
		turnstile_leave(&ls->places, &wait->visit);
}

bool loads_note_memory(struct loads *ls, bool full, bool *idle)
{
	pthread_mutex_lock(&ls->lock);
	bool noticed = full || ls->memory_full;
	ls->memory_full = full;
	*idle = TAILQ_EMPTY(&ls->waits);
	admit(ls);
	unlock_and_tell(ls);
	return noticed;
}

/* ---- loads in flight ---- */

/* Copies it to `to`, NUL-terminated. */
static struct str copy_text(char *to, struct str s)
{
	memcpy(to, s.data, s.len);
	to[s.len] = 0;
	return (struct str){to, s.len};
}

struct load *load_new(struct load_context *context, const struct module_want *w)
{
	struct load *l = malloc(sizeof *l + w->name.len + w->id.len + 2);
	if (!l)
		return NULL;
	char *text = (char *)(l + 1);
	*l = (struct load){.hash = w->own.hash,
	        .spelling = w->own.spelling,
	        .name = copy_text(text, w->name),
	        .id = copy_text(text + w->name.len + 1, w->id),
	        .kind = w->kind,
	        .file_id = w->file_id,
	        .question = w->question,
	        .lost = w->own.lost,
	        .since = clock_now(),
	        .context = context};
	metric_add(M_LOADS_IN_FLIGHT, 1);
	return l;
}

static void load_free(struct load *l)
{
	metric_add(M_LOADS_IN_FLIGHT, -1);
	free(l);
}

static uint32_t chain_of(const struct loads *ls, const struct module_hash *hash)
{
	return (uint32_t)(module_hash_seeded(hash, ls->seed) % LOAD_CHAINS);
}

/* A load in flight that the want can join, or NULL: one for its module, however the id is spelled, that has not been
 * cancelled. */
static struct load *find(struct loads *ls, const struct module_want *w)
{
	struct load *l;
	LIST_FOREACH(l, &ls->chains[chain_of(ls, &w->own.hash)], chain)
		if (!l->lease.stale && !atomic_load(&l->cancel) && module_hash_equal(&l->hash, &w->own.hash))
			break;
	return l;
}

/* A step of a module's life. */
static enum life step(enum life from, enum life to)
{
	static const unsigned may[] = {
	        [LIFE_QUEUED] = 1 << LIFE_QUEUED | 1 << LIFE_TAKEN,
	        [LIFE_TAKEN] = 1 << LIFE_QUEUED | 1 << LIFE_AWAY | 1 << LIFE_LOADED,
	        [LIFE_AWAY] = 1 << LIFE_TAKEN,
	        [LIFE_LOADED] = 1 << LIFE_FINISHING,
	        [LIFE_FINISHING] = 1 << LIFE_LOADED | 1 << LIFE_STORED | 1 << LIFE_WHOLE,
	        [LIFE_STORED] = 0,
	        [LIFE_WHOLE] = 0,
	};
	assert(may[from] & 1u << to);
	(void)may;
	return to;
}

/* It is in flight no more. */
static void land(struct loads *ls, struct load *l)
{
	LIST_REMOVE(l, chain);
	turns_shrink(&ls->transfers);
}

static void drop(struct loads *ls, struct load *l)
{
	assert(l->life != LIFE_LOADED);
	land(ls, l);
	load_free(l);
}

/* ---- whose turn it is ---- */

static void begin_turn(struct loads *ls, struct load_wait *owner)
{
	LIST_INSERT_HEAD(&ls->queues, owner, queue);
	ls->queue_count++;
	owner->turn = (struct turn){.client = owner->client, .since = clock_now()};
	turns_add(&ls->transfers, &owner->turn);
}

/* Its turn has come, or is dropped. */
static void end_turn(struct loads *ls, struct load_wait *owner)
{
	LIST_REMOVE(owner, queue);
	ls->queue_count--;
}

static void queue(struct loads *ls, struct load *l, struct load_wait *owner)
{
	l->owner = owner;
	if (STAILQ_EMPTY(&owner->queued)) {
		STAILQ_INIT(&owner->queued); /* a new wait is zeroed */
		begin_turn(ls, owner);
	}
	STAILQ_INSERT_TAIL(&owner->queued, l, queued);
	pthread_cond_signal(&ls->changed);
}

/* Queues a new load; NULL if out of memory. */
static struct load *start(struct loads *ls, const struct module_want *w, struct load_wait *owner)
{
	struct load *l = load_new(ls->context, w);
	if (!l || !turns_grow(&ls->transfers)) {
		if (l)
			load_free(l);
		return NULL;
	}
	LIST_INSERT_HEAD(&ls->chains[chain_of(ls, &l->hash)], l, chain);
	queue(ls, l, owner);
	return l;
}

/* Queues the load for another request that waits for it, or drops it if none does. */
static void pass_on(struct loads *ls, struct load *l)
{
	const struct module_want *w = LIST_FIRST(&l->waiters);
	if (!w) {
		drop(ls, l);
		return;
	}
	l->life = step(l->life, LIFE_QUEUED);
	queue(ls, l, w->own.wait);
}

static void disown(struct load *l)
{
	LIST_REMOVE(l, running);
	l->owner->running_count--;
	l->owner = NULL;
}

/* The owner's running loads go on; each queued load passes to another request that waits for it, or is dropped. */
static void abandon(struct loads *ls, struct load_wait *owner)
{
	struct load *l;
	while ((l = LIST_FIRST(&owner->running)))
		disown(l);
	if (!STAILQ_EMPTY(&owner->queued)) {
		turns_drop(&ls->transfers, &owner->turn);
		end_turn(ls, owner);
	}
	while ((l = STAILQ_FIRST(&owner->queued))) {
		STAILQ_REMOVE_HEAD(&owner->queued, queued);
		pass_on(ls, l);
	}
}

/* A load begins if there is room for a small one; how large it is shows only while it runs. */
static bool has_memory(void)
{
	uint64_t total = account_total(), used = account_used();
	return total == UINT64_MAX || used + load_small_bytes() <= total;
}

/* The same for one whose request holds modules, beside so many that run: what is left for small needs is for those that
 * hold none. */
static bool has_more_memory(uint64_t running)
{
	uint64_t left = account_left(), each = load_small_bytes(); /* may both be 0 */
	return left == UINT64_MAX || (left && left >= (running + 1) * each);
}

static bool has_room(const struct loads *ls)
{
	return ls->transfers.busy < ls->transfers.places && (!ls->unfinished || has_memory());
}

/* Whether a queued load cannot begin before memory is given back. */
static bool queue_lacks_memory(const struct loads *ls)
{
	const bool any = !ls->unfinished || has_memory(), more = has_more_memory(0);
	const struct load_wait *wait;
	LIST_FOREACH(wait, &ls->queues, queue)
		if (!(wait->held ? more : any))
			return true;
	return false;
}

/* Wakes a loader if a load may begin. */
static void wake_one(struct loads *ls)
{
	if (ls->queue_count && has_room(ls))
		pthread_cond_signal(&ls->changed);
}

bool loads_begin_at_once(struct loads *ls)
{
	pthread_mutex_lock(&ls->lock);
	bool begins = !is_memory_full(ls) && turnstile_has_place(&ls->places) && has_room(ls);
	pthread_mutex_unlock(&ls->lock);
	return begins;
}

/* The first load of a request that may run now: one that lacked memory, when no other has much. `more`: there is memory
 * for those that hold modules. */
static struct load *next_of(const struct loads *ls, const struct load_wait *owner, bool more)
{
	struct load *l;
	if (owner->running_count >= ls->context->config->bucket_parallel_request || (owner->held && !more))
		return NULL;
	STAILQ_FOREACH(l, &owner->queued, queued)
		if (!l->large || !atomic_load(&ls->context->heavy))
			break;
	return l;
}

struct next_load {
	const struct loads *of;
	bool more;
	struct load *load; /* out */
};

static bool may_run(const struct turn *turn, void *arg)
{
	struct next_load *next = arg;
	const char *owner = (const char *)turn - offsetof(struct load_wait, turn);
	next->load = next_of(next->of, (const struct load_wait *)(const void *)owner, next->more);
	return next->load;
}

/* The next load of the client, and of its request, whose turn it is. */
static struct load *take_queued(struct loads *ls)
{
	struct next_load next = {.of = ls, .more = has_more_memory(ls->transfers.busy)};
	struct turn_client *client;
	if (!has_room(ls) || !turns_next_that(&ls->transfers, may_run, &next, &client))
		return NULL;
	struct load *l = next.load;
	struct load_wait *owner = l->owner;
	l->life = step(l->life, LIFE_TAKEN);
	STAILQ_REMOVE(&owner->queued, l, load, queued);
	end_turn(ls, owner);
	if (!STAILQ_EMPTY(&owner->queued)) /* it comes last */
		begin_turn(ls, owner);
	LIST_INSERT_HEAD(&owner->running, l, running);
	owner->running_count++;
	l->client = client;
	return l;
}

/* A load on another host that is due for a look. Drops those that no request waits for any more. */
static struct load *take_elsewhere(struct loads *ls, int64_t now)
{
	struct load *l;
	while ((l = TAILQ_FIRST(&ls->elsewhere)) && l->lease.look_at <= now) {
		TAILQ_REMOVE(&ls->elsewhere, l, lease.elsewhere);
		ls->elsewhere_count--;
		l->life = step(l->life, LIFE_TAKEN);
		if (!LIST_EMPTY(&l->waiters))
			return l;
		drop(ls, l);
	}
	return NULL;
}

/* NULL: none at present. */
static struct load *take(struct loads *ls)
{
	struct load *l = take_elsewhere(ls, clock_now());
	if (!l)
		l = take_queued(ls);
	ls->unfinished += l != NULL;
	if (l)
		wake_one(ls); /* there may be more */
	return l;
}

struct load *loads_take(struct loads *ls)
{
	struct load *l = NULL;
	pthread_mutex_lock(&ls->lock);
	while (!ls->context->stopping && !(l = take(ls))) {
		const struct load *first = TAILQ_FIRST(&ls->elsewhere);
		if (first)
			clock_wait(&ls->changed, &ls->lock, first->lease.look_at);
		else
			pthread_cond_wait(&ls->changed, &ls->lock);
	}
	pthread_mutex_unlock(&ls->lock);
	return l;
}

static void end_transfer(struct loads *ls, struct load *l)
{
	if (l->owner)
		disown(l);
	if (l->client)
		turns_done(&ls->transfers, l->client);
	l->client = NULL;
	pthread_cond_signal(&ls->changed);
}

/* The more loads there are elsewhere, the rarer each is looked at, so that memcached gets no more requests. */
static void wait_elsewhere(struct loads *ls, struct load *l)
{
	unsigned rarer = 1 + ls->elsewhere_count / loaders_max(ls->context->config);
	l->life = step(l->life, LIFE_AWAY);
	l->lease.look_at = clock_now() + LOOK_MS * MS * rarer;
	TAILQ_INSERT_TAIL(&ls->elsewhere, l, lease.elsewhere);
	ls->elsewhere_count++;
}

void loads_put_back(struct loads *ls, struct load *l, bool elsewhere)
{
	pthread_mutex_lock(&ls->lock);
	end_transfer(ls, l);
	ls->unfinished--;
	l->large = l->large || l->no_room;
	l->no_room = false;
	if (elsewhere)
		wait_elsewhere(ls, l);
	else
		pass_on(ls, l);
	pthread_cond_broadcast(&ls->changed);
	pthread_mutex_unlock(&ls->lock);
}

void loads_finished(struct loads *ls, struct load *l)
{
	load_free(l);
	pthread_mutex_lock(&ls->lock);
	ls->unfinished--;
	ls->last_end = clock_now();
	wake_one(ls);
	pthread_mutex_unlock(&ls->lock);
}

uint64_t loads_note_held_up(struct loads *ls)
{
	pthread_mutex_lock(&ls->lock);
	uint64_t queued = ls->queue_count, line = ls->places.line_length, hosts = ls->elsewhere_count;
	uint64_t gave_back = ls->gave_back;
	bool memory_full = is_memory_full(ls);
	bool full = ls->transfers.busy >= ls->transfers.places;
	bool lacks = memory_full || (!full && queue_lacks_memory(ls));
	pthread_mutex_unlock(&ls->lock);
	uint64_t needy = atomic_load(&ls->context->needy_waits); /* it runs, and cannot go on */
	metric_set(M_HELD_UP_MEMORY, (int64_t)(needy + gave_back + (lacks ? queued : 0) + (memory_full ? line : 0)));
	metric_set(M_HELD_UP_PLACES, (int64_t)(memory_full ? 0 : line));
	metric_set(M_HELD_UP_TRANSFERS, (int64_t)(full && !lacks ? queued : 0));
	metric_set(M_HELD_UP_SHARE, (int64_t)(full || lacks ? 0 : queued));
	metric_set(M_HELD_UP_HOSTS, (int64_t)hosts);
	return needy + gave_back + queued + line + hosts;
}

/* ---- what requests call ---- */

/* A module in memcached has lost the same page, or nobody has made it; any other has, or makes, all its pages. */
static bool lacks_the_same(const struct module_want *w, struct module *module)
{
	if (!w->own.lost || atomic_load(&module->life) != LIFE_STORED)
		return false;
	return w->own.lost == LOST_UNMADE ? !offmap_is_whole(module->map) : module->lost_at < w->own.lost_at;
}

/* A load may have ended since the request looked in the caches. A result from before an invalidation that the want has
 * seen does not count. */
static bool just_loaded(struct loads *ls, struct module_want *w)
{
	struct module *module = page_cache_get(ls->context->cache, &w->own.hash);
	if (module &&
	        (lacks_the_same(w, module) || want_outdates(w, module->map->marker, atomic_load(&module->checked)) ||
	                atomic_load(&module->checked) < w->own.not_before)) {
		module_unref(module);
		module = NULL; /* that it is there says nothing of what failed since */
	}
	if (module) {
		want_found(w, module);
		return true;
	}
	struct outcome f = outcomes_get(ls->context->outcomes, &w->own.hash, &w->own.spelling);
	if (f.class == OUTCOME_NONE || want_outdates(w, f.marker, f.checked) ||
	        (f.class != FAILURE_TEMPORARY && f.checked < w->own.not_before))
		return false;
	want_settle(w, &f);
	return true;
}

static bool failed_for_now(const struct module_want *w)
{
	return w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY;
}

/* Whether any want needs a load; sets the first whose load nobody has started. After a temporary failure the request is
 * refused, so it needs none. */
static bool needs_load(struct loads *ls, struct load_wait *wait)
{
	bool needs = false;
	wait->lacks = NULL;
	for (struct module_want *w = wait->wants; w < wait->wants + wait->want_count; w++)
		if (w->state == WANT_LOAD && !just_loaded(ls, w)) {
			needs = true;
			if (!wait->lacks && !find(ls, w))
				wait->lacks = w;
		} else if (failed_for_now(w)) {
			return false;
		}
	return needs;
}

/* Whether a request in line needs a place no longer: others have loaded what it lacked, or are loading it. Looks on
 * from where it looked last, so that a long line of long requests costs little. */
static bool lacks_none(struct loads *ls, struct load_wait *wait)
{
	for (struct module_want *w = wait->lacks; w < wait->wants + wait->want_count; w++) {
		if (w->state == WANT_LOAD && !just_loaded(ls, w) && !find(ls, w)) {
			wait->lacks = w;
			return false;
		}
		if (failed_for_now(w))
			return true;
	}
	return true;
}

static void get_each(struct loads *ls, struct load_wait *wait)
{
	uint64_t started = 0;
	for (size_t i = 0; i < wait->want_count; i++) {
		struct module_want *w = &wait->wants[i];
		if (w->state != WANT_LOAD)
			continue;
		struct load *l = find(ls, w);
		if (!l && started < ls->context->config->cold_modules && (l = start(ls, w, wait)))
			started++;
		if (l)
			join(l, wait, w);
		else /* more than cold_modules: when the client tries again, those loaded now are in the cache */
			want_settle(w, &(struct outcome){.class = FAILURE_TEMPORARY});
	}
}

static void note_begun(struct loads *ls, struct load_wait *wait)
{
	if (wait->began)
		return;
	wait->began = ++ls->began;
	TAILQ_INSERT_TAIL(&ls->by_age, wait, by_age);
}

/* Most requests find all modules in memory. They take no lock: its holder may have lost its core. */
enum load_result loads_get(struct loads *ls, struct load_wait *wait, struct module_want *wants, size_t count)
{
	enum load_result result = LOAD_READY;
	wait->timed_out = wait->refused = false;
	wait->wants = wants;
	wait->want_count = count;
	if (!wants_need_load(wants, count))
		return LOAD_READY;
	pthread_mutex_lock(&ls->lock);
	if (needs_load(ls, wait)) {
		wait->loads = ls;
		if (!has_place(wait))
			result = enter(ls, wait);
		if (result == LOAD_READY) {
			note_begun(ls, wait);
			get_each(ls, wait);
		}
		if (wait->pending) {
			begin_wait(ls, wait);
			result = LOAD_WAIT;
		}
	}
	unlock_and_tell(ls);
	return result;
}

void loads_leave(struct loads *ls, struct load_wait *wait)
{
	if (!wait->loads) /* it has needed no load */
		return;
	pthread_mutex_lock(&ls->lock);
	leave_all(wait);
	abandon(ls, wait);
	leave_place(ls, wait);
	if (wait->began)
		TAILQ_REMOVE(&ls->by_age, wait, by_age);
	wait->began = 0;
	wait->loads = NULL;
	unlock_and_tell(ls);
}

/* ---- how waits end ---- */

/* Gives a want the result of its load. */
static void give_result(struct loads *ls, const struct load *l, struct load_wait *wait, struct module_want *w)
{
	w->loaded = true;
	w->costs = l->costs;
	if (!l->module) {
		want_settle(w, &l->outcome);
	} else if (wait->held && is_memory_full(ls)) {
		want_settle(w, &(struct outcome){.class = FAILURE_TEMPORARY});
	} else {
		/* hold it even if the cache is full: otherwise it could be evicted before the request is answered,
		 * again and again */
		module_ref(l->module);
		atomic_fetch_add(&l->module->holds, 1);
		want_found(w, l->module);
		w->own.held = &wait->held;
		wait->held++;
	}
}

/* Puts the result into the cache or among the outcomes. Call this before the load leaves flight, so that every request
 * finds one or the other. */
static void remember(struct loads *ls, struct load *l)
{
	if (!l->lease.stale && l->module)
		page_cache_add(ls->context->cache, l->module);
	bool cut_off = atomic_load(&l->cancel) && l->outcome.class == FAILURE_TEMPORARY;
	if (!l->lease.stale && l->outcome.class != OUTCOME_NONE && !cut_off)
		l->outcome.until = outcomes_set(ls->context->outcomes, &l->hash, &l->spelling, &l->outcome);
}

/* Whether the result is the want's too. If not, its request loads the module again: it was invalidated meanwhile, or
 * the file may be there under the id as this want spells it. */
static bool settles(const struct load *l, const struct module_want *w)
{
	bool other_file = !l->module && l->outcome.class != FAILURE_TEMPORARY &&
	                  !module_hash_equal(&l->spelling, &w->own.spelling);
	return !other_file && !want_outdates(w, l->outcome.marker, l->outcome.checked);
}

static void set_gave_back(struct loads *ls, struct load_wait *wait, bool gave_back)
{
	wait->gave_back = gave_back;
	ls->gave_back += gave_back ? 1 : -1u;
}

static bool lacked_only(struct loads *ls, struct load_wait *wait, const struct module_hash *hash)
{
	return module_hash_equal(&wait->lacks->own.hash, hash) && lacks_none(ls, wait);
}

/* Ends the waits for a place, and of those that gave back what they held, that lacked only this module. */
static void tell_line(struct loads *ls, const struct module_hash *hash)
{
	for (struct visit *v = TAILQ_FIRST(&ls->places.line), *next; v; v = next) {
		next = TAILQ_NEXT(v, next);
		if (!lacked_only(ls, wait_of_visit(v), hash))
			continue;
		turnstile_withdraw(&ls->places, v, false);
		end_wait(ls, wait_of_visit(v));
	}
	struct load_wait *wait = ls->gave_back ? TAILQ_FIRST(&ls->by_age) : NULL;
	for (; wait; wait = TAILQ_NEXT(wait, by_age))
		if (wait->gave_back && lacked_only(ls, wait, hash)) {
			set_gave_back(ls, wait, false);
			end_wait(ls, wait);
		}
}

void loads_publish(struct loads *ls, struct load *l)
{
	struct module_want *w;
	pthread_mutex_lock(&ls->lock);
	remember(ls, l);
	l->life = step(l->life, LIFE_LOADED);
	end_transfer(ls, l);
	land(ls, l);
	while ((w = LIST_FIRST(&l->waiters))) {
		struct load_wait *wait = w->own.wait;
		leave(w);
		if (settles(l, w))
			give_result(ls, l, wait, w);
		if (w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY)
			leave_all(wait); /* the request is refused: no need to wait for its other loads */
		if (!wait->pending)
			end_wait(ls, wait);
	}
	tell_line(ls, &l->hash);
	unlock_and_tell(ls);
	page_cache_evict(ls->context->cache);
}

/* Whose client has gone no longer waits: executables that nobody else waits for are fetched and read no further. What
 * takes longer than a request may goes on, so that the next one finds it. */
static void cancel_unwanted(struct loads *ls, const struct load_wait *wait)
{
	for (const struct module_want *w = wait->wants; w < wait->wants + wait->want_count; w++) {
		struct load *l = w->state == WANT_LOAD ? find(ls, w) : NULL;
		if (l && LIST_EMPTY(&l->waiters) && atomic_load(&l->fetches))
			atomic_store(&l->cancel, true);
	}
}

static void expire(struct loads *ls, struct load_wait *wait, int64_t now, bool look)
{
	bool gone = look && wait->gone(wait), late = now >= wait->deadline || gone;
	if (in_line(wait) && (late || now >= wait->visit.until)) {
		wait->refused = late || !lacks_none(ls, wait);
		turnstile_withdraw(&ls->places, &wait->visit, wait->refused && !gone && !ls->memory_full);
	} else if (late && wait->gave_back) {
		wait->refused = true;
		set_gave_back(ls, wait, false);
	} else if (late) {
		leave_all(wait);
		if (gone)
			cancel_unwanted(ls, wait);
		wait->timed_out = true;
	} else {
		return;
	}
	metric_add(M_COLD_REFUSED, wait->refused);
	end_wait(ls, wait);
}

/* ---- memory that requests hold ---- */

/* So long others may take to give memory back. */
#define STUCK_TIME (5 * SECOND)

/* Whether a load cannot begin, or go on, before memory is given back. */
static bool lacks_memory(const struct loads *ls)
{
	return atomic_load(&ls->context->needy_waits) || queue_lacks_memory(ls);
}

/* It waits: what it holds changes only under the lock. */
static bool waits_and_holds(const struct load_wait *wait)
{
	return wait->pending && wait->held;
}

/* The first such from this one on, towards those that began before it. */
static struct load_wait *holder_from(struct load_wait *wait)
{
	while (wait && !waits_and_holds(wait))
		wait = TAILQ_PREV(wait, wait_list, by_age);
	return wait;
}

/* Releases the modules that were loaded for the request and, where no other holds them, takes them out of the cache:
 * they have just been used, so they would stay. */
static void release_held(struct loads *ls, struct load_wait *wait)
{
	for (struct module_want *w = wait->wants; w < wait->wants + wait->want_count && wait->held; w++) {
		struct module *m = w->module;
		if (!w->own.held)
			continue;
		module_ref(m);
		module_want_release(w);
		w->state = WANT_LOAD;
		if (!atomic_load(&m->holds))
			page_cache_remove(ls->context->cache, &m->hash, m);
		module_unref(m);
	}
}

/* The request begins anew when it comes back; or at once, if it needs no place by now. */
static void give_back(struct loads *ls, struct load_wait *wait)
{
	release_held(ls, wait);
	leave_all(wait);
	abandon(ls, wait);
	leave_place(ls, wait);
	if (!needs_load(ls, wait) || !wait->lacks) {
		end_wait(ls, wait);
		return;
	}
	set_gave_back(ls, wait, true);
}

/* The only request that holds modules needs more memory than there is. It is refused, unless others end soon. */
static void give_up(struct loads *ls, struct load_wait *wait, int64_t now)
{
	bool stuck = wait && !wait->running_count && !STAILQ_EMPTY(&wait->queued) && !has_more_memory(0);
	if (!stuck || !ls->stuck_since)
		ls->stuck_since = stuck ? now : 0;
	if (!stuck || now - ls->stuck_since < STUCK_TIME)
		return;
	ls->stuck_since = 0;
	wait->refused = true;
	metric_add(M_COLD_REFUSED, 1);
	leave_all(wait);
	end_wait(ls, wait);
}

/* Of the requests that have given back what they held, the one that may come back: one after the other, and when all
 * that hold modules and began before it have ended, unless half the memory is free. Those that began later do not keep
 * it waiting, or it would wait as long as there are new ones. */
static struct load_wait *next_to_come_back(const struct loads *ls)
{
	const bool half = account_left() > account_total() / 2;
	struct load_wait *wait, *first = NULL;
	TAILQ_FOREACH(wait, &ls->by_age, by_age)
		if (wait->gave_back && !first)
			first = wait;
		else if (!half && wait->visit.patient && (wait->pending || in_line(wait)))
			return NULL;
		else if (!half && !first && waits_and_holds(wait))
			return NULL;
	return first;
}

static void come_back(struct loads *ls)
{
	struct load_wait *first = ls->gave_back && !ls->memory_full ? next_to_come_back(ls) : NULL;
	if (!first)
		return;
	const enum visit_state state = visit(ls, first, true);
	if (state == VISIT_NO_MEMORY)
		return;
	set_gave_back(ls, first, false);
	if (state == VISIT_INSIDE)
		end_wait(ls, first);
}

/* Lets requests give back what they hold, those that began last first, until loads can go on. Returns whether they
 * cannot. */
static bool relieve(struct loads *ls, int64_t now)
{
	struct load_wait *last = holder_from(TAILQ_LAST(&ls->by_age, wait_list)), *before;
	bool lacks = lacks_memory(ls), gave = false;
	while (lacks && last && (before = holder_from(TAILQ_PREV(last, wait_list, by_age)))) {
		if (gave && !queue_lacks_memory(ls) && has_more_memory(0))
			break; /* a running load may be able to go on, but has to look first */
		give_back(ls, last);
		gave = true;
		last = before;
		lacks = lacks_memory(ls);
	}
	give_up(ls, lacks ? last : NULL, now);
	return lacks;
}

void loads_tick(struct loads *ls, int64_t now, bool look)
{
	pthread_mutex_lock(&ls->lock);
	if (lacks_memory(ls)) {
		pthread_mutex_unlock(&ls->lock);
		page_cache_shrink(ls->context->cache, load_small_bytes()); /* first what nobody uses */
		pthread_mutex_lock(&ls->lock);
	}
	for (struct load_wait *wait = TAILQ_FIRST(&ls->waits), *next; wait; wait = next) {
		next = TAILQ_NEXT(wait, next);
		expire(ls, wait, now, look);
	}
	bool lacks = relieve(ls, now);
	atomic_store(&ls->context->short_of_memory, lacks);
	admit(ls); /* others' shares may be larger now */
	if (!lacks)
		come_back(ls);
	wake_one(ls); /* a request may have let records go, and tells nobody */
	unlock_and_tell(ls);
}

/* ---- leases ---- */

void lease_hold(struct loads *ls, struct load *l)
{
	pthread_mutex_lock(&ls->lock);
	l->lease.lost = false; /* only the lease before it was */
	l->lease.marker = l->outcome.marker;
	TAILQ_INSERT_HEAD(&ls->leased, l, lease.next);
	pthread_mutex_unlock(&ls->lock);
	l->lease.held = true;
}

void lease_give_back(struct loads *ls, struct load *l, struct mc_client *c)
{
	pthread_mutex_lock(&ls->lock);
	TAILQ_REMOVE(&ls->leased, l, lease.next);
	pthread_mutex_unlock(&ls->lock);
	l->lease.held = false;
	if (c)
		page_memcached_lease_release(c, &l->hash, l->lease.token);
}

/* The lease that was renewed longest ago, at the end of the list now; NULL: all have been since `round` began. */
static struct load *next_renewal(struct loads *ls, int64_t round)
{
	struct load *l = TAILQ_FIRST(&ls->leased);
	if (!l || l->lease.renewed_at == round)
		return NULL;
	TAILQ_REMOVE(&ls->leased, l, lease.next);
	TAILQ_INSERT_TAIL(&ls->leased, l, lease.next);
	l->lease.renewed_at = round;
	return l;
}

/* Records what came of a renewal. Returns whether the lease is still held. */
static bool note_renewal(struct loads *ls, uint64_t token, enum mc_status status)
{
	struct load *l;
	TAILQ_FOREACH(l, &ls->leased, lease.next)
		if (l->lease.token == token)
			break;
	if (l && status != MC_OK && status != MC_DOWN)
		l->lease.lost = true;
	return l;
}

void leases_renew(struct loads *ls, struct mc_client *c)
{
	struct load *l;
	int64_t round = clock_now();
	pthread_mutex_lock(&ls->lock);
	while ((l = next_renewal(ls, round))) {
		const struct module_hash hash = l->hash;
		uint64_t token = l->lease.token, marker = l->lease.marker;
		if (l->lease.stale) /* so that whoever loads the new file need not wait for the old one */
			continue;
		pthread_mutex_unlock(&ls->lock);
		enum mc_status status = page_memcached_lease_renew(c, &hash, token, marker);
		pthread_mutex_lock(&ls->lock);
		if (note_renewal(ls, token, status) || status != MC_OK)
			continue;
		pthread_mutex_unlock(&ls->lock);
		page_memcached_lease_release(c, &hash, token); /* given back meanwhile: this took it anew */
		pthread_mutex_lock(&ls->lock);
	}
	pthread_mutex_unlock(&ls->lock);
}

/* ---- what caches have ---- */

void loads_forget(struct loads *ls, const struct module_hash *hash)
{
	struct load *l;
	pthread_mutex_lock(&ls->lock);
	ls->invalidations++;
	LIST_FOREACH(l, &ls->chains[chain_of(ls, hash)], chain)
		if (module_hash_equal(&l->hash, hash))
			l->lease.stale = true;
	TAILQ_FOREACH(l, &ls->leased, lease.next) /* some are in flight no more, but their modules are being stored */
		if (module_hash_equal(&l->hash, hash))
			l->lease.stale = true;
	page_cache_remove(ls->context->cache, hash, NULL);
	outcomes_forget(ls->context->outcomes, hash);
	pthread_mutex_unlock(&ls->lock);
}

struct module *loads_cache_stored(struct loads *ls, struct module *module, uint64_t invalidations)
{
	pthread_mutex_lock(&ls->lock);
	struct module *cached = page_cache_get(ls->context->cache, &module->hash);
	bool as_new = cached && (cached->map->marker == module->map->marker ||
	                                atomic_load(&cached->checked) > atomic_load(&module->checked));
	if (!as_new && ls->invalidations == invalidations)
		page_cache_add(ls->context->cache, module);
	pthread_mutex_unlock(&ls->lock);
	metric_add(as_new ? M_CACHE_ROOT_PROCESS : M_CACHE_ROOT_MEMCACHED, 1);
	module_unref(as_new ? module : cached);
	page_cache_evict(ls->context->cache);
	return as_new ? cached : module;
}

/* ---- how a module goes on ---- */

bool loads_finishing(struct loads *ls, struct module *m, bool begins)
{
	const enum life from = begins ? LIFE_LOADED : LIFE_FINISHING;
	if (atomic_load(&m->life) != from) /* what most warm requests find: they take no lock */
		return false;
	pthread_mutex_lock(&ls->lock);
	bool moves = atomic_load(&m->life) == from;
	if (moves)
		atomic_store(&m->life, step(from, begins ? LIFE_FINISHING : LIFE_LOADED));
	pthread_mutex_unlock(&ls->lock);
	return moves;
}

void loads_made_whole(struct loads *ls, struct module *m, enum life where)
{
	pthread_mutex_lock(&ls->lock);
	atomic_store(&m->life, step(atomic_load(&m->life), where));
	pthread_mutex_unlock(&ls->lock);
	module_drop_records(m);
}

bool loads_may_share(struct loads *ls, const struct load *l)
{
	pthread_mutex_lock(&ls->lock);
	bool may = !l->lease.stale && !l->lease.lost;
	pthread_mutex_unlock(&ls->lock);
	return may;
}

bool loads_are_idle(struct loads *ls, int64_t now)
{
	pthread_mutex_lock(&ls->lock);
	bool idle = !ls->unfinished && now - ls->last_end >= ls->context->config->finish_after;
	pthread_mutex_unlock(&ls->lock);
	return idle;
}

/* ---- start and stop ---- */

void loads_init(struct loads *ls, struct load_context *context, uint64_t seed)
{
	const struct config *c = context->config;
	*ls = (struct loads){.context = context, .seed = seed};
	pthread_mutex_init(&ls->lock, NULL);
	turnstile_init(&ls->places, TURNSTILE_LOADS, (unsigned)c->cold_requests, (unsigned)c->cold_queue, true);
	turns_init(&ls->transfers, (unsigned)c->bucket_parallel, seed);
	TAILQ_INIT(&ls->waits);
	TAILQ_INIT(&ls->over);
	TAILQ_INIT(&ls->by_age);
	TAILQ_INIT(&ls->leased);
	TAILQ_INIT(&ls->elsewhere);
	clock_condition_init(&ls->changed);
}

void loads_cancel(struct loads *ls)
{
	struct load *l;
	pthread_mutex_lock(&ls->lock);
	for (unsigned i = 0; i < LOAD_CHAINS; i++)
		LIST_FOREACH(l, &ls->chains[i], chain)
			atomic_store(&l->cancel, true);
	pthread_cond_broadcast(&ls->changed);
	pthread_mutex_unlock(&ls->lock);
}

void loads_release(struct loads *ls)
{
	struct load *l;
	while ((l = TAILQ_FIRST(&ls->elsewhere))) {
		TAILQ_REMOVE(&ls->elsewhere, l, lease.elsewhere);
		drop(ls, l);
	}
	turns_destroy(&ls->transfers);
	turnstile_release(&ls->places);
	pthread_cond_destroy(&ls->changed);
	pthread_mutex_destroy(&ls->lock);
}
