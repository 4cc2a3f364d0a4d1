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
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/held_back.h"
#include "base/metrics.h"

enum { LOOK_MS = 30 }; /* at a lease that another host has */

/* ---- clients ---- */

/* The client's share, with one user more; NULL if out of memory. */
static struct share *share_get(struct loads *ls, struct client_key client)
{
	struct share *s;
	unsigned chain = (unsigned)(client_key_hash(client, ls->seed) % SHARE_CHAINS);
	LIST_FOREACH(s, &ls->shares[chain], chain)
		if (client_key_equal(s->client, client))
			break;
	if (!s) {
		if (!(s = calloc(1, sizeof *s)))
			return NULL;
		s->client = client;
		LIST_INSERT_HEAD(&ls->shares[chain], s, chain);
	}
	s->users++;
	return s;
}

static void share_put(struct share *s)
{
	if (!s || --s->users)
		return;
	LIST_REMOVE(s, chain);
	free(s);
}

/* Counts one more, or with -1 one less, for the client and for all. */
static void hold(struct loads *ls, struct share *s, enum held what, int more)
{
	ls->held[what] += (uint64_t)more;
	s->held[what] += (uint64_t)more;
	if (what == HELD_PLACES || what == HELD_LINE)
		metric_add(what == HELD_PLACES ? M_COLD_REQUESTS : M_COLD_QUEUED, more);
}

/* Whether a client may have one more of `most`; queue: what those hold who wait for it. A client without a share holds
 * nothing. */
static bool may_hold(const struct loads *ls, const struct share *s, enum held what, uint64_t most, enum held queue)
{
	return client_may_have(s ? s->held[what] : 0, ls->held[what], most, s && ls->held[queue] != s->held[queue]);
}

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
	LIST_INSERT_HEAD(&ls->waits, wait, next);
	hold(ls, wait->share, HELD_WAITS, 1);
}

/* Moves it to `over`, for call_done. */
static void end_wait(struct loads *ls, struct load_wait *wait, struct wait_list *over)
{
	LIST_REMOVE(wait, next);
	hold(ls, wait->share, HELD_WAITS, -1);
	LIST_INSERT_HEAD(over, wait, next);
}

/* Unlocks, and calls `done` for each. Each wait may be freed as soon as its `done` is called. */
static void unlock_and_tell(struct loads *ls, struct wait_list *over)
{
	struct load_wait *wait;
	pthread_mutex_unlock(&ls->lock);
	while ((wait = LIST_FIRST(over))) {
		LIST_REMOVE(wait, next);
		wait->done(wait);
	}
}

/* ---- places ---- */

/* Whether more is resident than may be; true until loads_note_memory says otherwise. */
static bool is_memory_full(struct loads *ls)
{
	uint64_t most = ls->context->config->memory;
	return ls->memory_full = ls->memory_full || (most && account_resident() > most);
}

static bool may_place(const struct loads *ls, const struct share *share)
{
	return may_hold(ls, share, HELD_PLACES, ls->context->config->cold_requests, HELD_LINE);
}

static bool in_line(const struct load_wait *wait)
{
	return wait->state == WAIT_LINE || wait->state == WAIT_LINE_AGAIN;
}

static bool has_place(const struct load_wait *wait)
{
	return wait->state == WAIT_PLACED || wait->state == WAIT_PLACED_AGAIN;
}

/* Moves a request: out of the line or its place, and into another. */
static void move(struct loads *ls, struct load_wait *wait, enum wait_state to)
{
	static const bool may[][5] = {
	        [WAIT_AWAY] = {[WAIT_AWAY] = true, [WAIT_LINE] = true, [WAIT_PLACED] = true, [WAIT_LINE_AGAIN] = true},
	        [WAIT_LINE] = {[WAIT_AWAY] = true, [WAIT_PLACED] = true},
	        [WAIT_PLACED] = {[WAIT_AWAY] = true, [WAIT_LINE_AGAIN] = true},
	        [WAIT_LINE_AGAIN] = {[WAIT_AWAY] = true, [WAIT_PLACED_AGAIN] = true},
	        [WAIT_PLACED_AGAIN] = {[WAIT_AWAY] = true, [WAIT_LINE_AGAIN] = true},
	};
	assert(may[wait->state][to]);
	if (in_line(wait)) {
		TAILQ_REMOVE(&ls->line, wait, line);
		hold(ls, wait->share, HELD_LINE, -1);
	}
	if (has_place(wait))
		hold(ls, wait->share, HELD_PLACES, -1);
	ls->gave_back += (uint64_t)(to == WAIT_LINE_AGAIN) - (wait->state == WAIT_LINE_AGAIN);
	wait->state = to;
	if (in_line(wait)) {
		TAILQ_INSERT_TAIL(&ls->line, wait, line);
		hold(ls, wait->share, HELD_LINE, 1);
	}
	if (has_place(wait))
		hold(ls, wait->share, HELD_PLACES, 1);
}

/* For a request without a place that needs a load. `starts`: one that nobody has started; a request that only joins
 * other requests' loads needs no place, only memory: its body is charged. LOAD_WAIT: it stands in line. *held_back: it
 * waits, or is refused, only for what its client holds. */
static enum load_result enter(struct loads *ls, struct load_wait *wait, bool starts, bool *held_back)
{
	const struct config *c = ls->context->config;
	const struct share *share = wait->share;
	bool full = is_memory_full(ls);
	if (!full && starts && may_place(ls, share)) {
		move(ls, wait, WAIT_PLACED);
		return LOAD_READY;
	}
	bool refused = full || (starts && !may_hold(ls, share, HELD_LINE, c->cold_queue, HELD_LINE));
	*held_back = !full && starts && ls->held[HELD_PLACES] < c->cold_requests;
	if (refused) {
		metric_add(M_COLD_REFUSED, 1);
		return LOAD_REFUSED;
	}
	if (!starts)
		return LOAD_READY;
	wait->line_end = clock_now() + c->cold_wait;
	move(ls, wait, WAIT_LINE);
	begin_wait(ls, wait);
	return LOAD_WAIT;
}

/* Of those that may have a place, the first whose client holds fewest; NULL: nobody may. again: one that has given back
 * what it held may have one, too. */
static struct load_wait *next_in_line(const struct loads *ls, bool again)
{
	struct load_wait *wait, *best = NULL;
	TAILQ_FOREACH(wait, &ls->line, line)
		if ((again || wait->state == WAIT_LINE) && may_place(ls, wait->share) &&
		        (!best || wait->share->held[HELD_PLACES] < best->share->held[HELD_PLACES]))
			best = wait;
	return best;
}

/* Gives free places to requests in line, whose waits then end; with `again` to one that has given back what it held. */
static void admit(struct loads *ls, bool again, struct wait_list *over)
{
	struct load_wait *wait;
	while (!ls->memory_full && (wait = next_in_line(ls, again))) {
		again = again && wait->state == WAIT_LINE;
		move(ls, wait, wait->state == WAIT_LINE ? WAIT_PLACED : WAIT_PLACED_AGAIN);
		end_wait(ls, wait, over);
	}
}

bool loads_note_memory(struct loads *ls, bool full, bool *idle)
{
	pthread_mutex_lock(&ls->lock);
	bool noticed = full || ls->memory_full;
	ls->memory_full = full;
	*idle = !ls->held[HELD_WAITS];
	pthread_mutex_unlock(&ls->lock);
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

static void drop(struct load *l)
{
	assert(l->life != LIFE_LOADED);
	LIST_REMOVE(l, chain);
	load_free(l);
}

/* ---- whose turn it is ---- */

static void begin_turn(struct loads *ls, struct load_wait *owner)
{
	TAILQ_INSERT_TAIL(&ls->turns, owner, turn);
	hold(ls, owner->share, HELD_QUEUES, 1);
}

static void end_turn(struct loads *ls, struct load_wait *owner)
{
	TAILQ_REMOVE(&ls->turns, owner, turn);
	hold(ls, owner->share, HELD_QUEUES, -1);
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
	if (!l)
		return NULL;
	LIST_INSERT_HEAD(&ls->chains[chain_of(ls, &l->hash)], l, chain);
	queue(ls, l, owner);
	return l;
}

/* Queues the load for another request that waits for it, or drops it if none does. */
static void pass_on(struct loads *ls, struct load *l)
{
	const struct module_want *w = LIST_FIRST(&l->waiters);
	if (!w) {
		drop(l);
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
	if (!STAILQ_EMPTY(&owner->queued))
		end_turn(ls, owner);
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
	return ls->held[HELD_TRANSFERS] < ls->context->config->bucket_parallel && (!ls->unfinished || has_memory());
}

/* Whether a queued load cannot begin before memory is given back. */
static bool queue_lacks_memory(const struct loads *ls)
{
	const bool any = !ls->unfinished || has_memory(), more = has_more_memory(0);
	const struct load_wait *wait;
	TAILQ_FOREACH(wait, &ls->turns, turn)
		if (!(wait->held ? more : any))
			return true;
	return false;
}

/* Wakes a loader if a load may begin. */
static void wake_one(struct loads *ls)
{
	if (!TAILQ_EMPTY(&ls->turns) && has_room(ls))
		pthread_cond_signal(&ls->changed);
}

bool loads_begin_at_once(struct loads *ls)
{
	pthread_mutex_lock(&ls->lock);
	bool begins = may_place(ls, NULL) && has_room(ls) && !is_memory_full(ls);
	pthread_mutex_unlock(&ls->lock);
	return begins;
}

/* The first load of a request that may run now: one that lacked memory, when no other has much. `more`: there is memory
 * for those that hold modules. */
static struct load *next_of(const struct loads *ls, const struct load_wait *owner, bool more)
{
	struct load *l;
	const struct config *c = ls->context->config;
	if (owner->running_count >= c->bucket_parallel_request || (owner->held && !more) ||
	        !may_hold(ls, owner->share, HELD_TRANSFERS, c->bucket_parallel, HELD_QUEUES))
		return NULL;
	STAILQ_FOREACH(l, &owner->queued, queued)
		if (!l->large || !atomic_load(&ls->context->heavy))
			break;
	return l;
}

/* The next load of the client whose last turn was longest ago, and of its request that has waited longest. */
static struct load *take_queued(struct loads *ls)
{
	struct load_wait *owner = NULL, *one;
	struct load *l = NULL, *next;
	const bool more = has_more_memory(ls->held[HELD_TRANSFERS]);
	if (!has_room(ls))
		return NULL;
	TAILQ_FOREACH(one, &ls->turns, turn)
		if ((!owner || one->share->turn < owner->share->turn) && (next = next_of(ls, one, more))) {
			owner = one;
			l = next;
		}
	if (!l)
		return NULL;
	l->life = step(l->life, LIFE_TAKEN);
	STAILQ_REMOVE(&owner->queued, l, load, queued);
	end_turn(ls, owner);
	if (!STAILQ_EMPTY(&owner->queued)) /* it comes last */
		begin_turn(ls, owner);
	LIST_INSERT_HEAD(&owner->running, l, running);
	owner->running_count++;
	l->share = owner->share;
	l->share->users++;
	l->share->turn = ++ls->turn;
	hold(ls, l->share, HELD_TRANSFERS, 1);
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
		drop(l);
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
	if (l->share)
		hold(ls, l->share, HELD_TRANSFERS, -1);
	share_put(l->share);
	l->share = NULL;
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
	uint64_t queued = ls->held[HELD_QUEUES], line = ls->held[HELD_LINE], hosts = ls->elsewhere_count;
	uint64_t gave_back = ls->gave_back;
	bool memory_full = is_memory_full(ls);
	bool full = ls->held[HELD_TRANSFERS] >= ls->context->config->bucket_parallel;
	bool lacks = memory_full || (!full && queue_lacks_memory(ls));
	pthread_mutex_unlock(&ls->lock);
	uint64_t needy = atomic_load(&ls->context->needy_waits); /* it runs, and cannot go on */
	metric_set(M_HELD_UP_MEMORY, (int64_t)(needy + (lacks ? queued : 0) + (memory_full ? line : gave_back)));
	metric_set(M_HELD_UP_PLACES, (int64_t)(memory_full ? 0 : line - gave_back));
	metric_set(M_HELD_UP_TRANSFERS, (int64_t)(full && !lacks ? queued : 0));
	metric_set(M_HELD_UP_SHARE, (int64_t)(full || lacks ? 0 : queued));
	metric_set(M_HELD_UP_HOSTS, (int64_t)hosts);
	return needy + queued + line + hosts;
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

/* Most requests find all modules in memory. They take no lock: its holder may have lost its core. */
enum load_result loads_get(struct loads *ls, struct load_wait *wait, struct module_want *wants, size_t count)
{
	enum load_result result = LOAD_READY;
	bool held_back = false;
	const struct client_key client = wait->client; /* a wait that is told may be gone */
	const unsigned prefix = wait->client_prefix;
	wait->timed_out = wait->refused = false;
	wait->wants = wants;
	wait->want_count = count;
	if (!wants_need_load(wants, count))
		return LOAD_READY;
	pthread_mutex_lock(&ls->lock);
	if (needs_load(ls, wait)) {
		if (!wait->share)
			wait->share = share_get(ls, wait->client);
		if (!wait->share)
			result = LOAD_REFUSED;
		else if (!has_place(wait))
			result = enter(ls, wait, wait->lacks, &held_back);
		if (result == LOAD_READY) {
			wait->began = wait->began ? wait->began : ++ls->began;
			get_each(ls, wait);
		}
		if (wait->pending) {
			begin_wait(ls, wait);
			result = LOAD_WAIT;
		}
	}
	pthread_mutex_unlock(&ls->lock);
	if (held_back)
		held_back_note(client, 1, prefix);
	return result;
}

void loads_leave(struct loads *ls, struct load_wait *wait)
{
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	if (!wait->share) /* it has needed no load */
		return;
	pthread_mutex_lock(&ls->lock);
	leave_all(wait);
	abandon(ls, wait);
	if (has_place(wait)) {
		move(ls, wait, WAIT_AWAY);
		admit(ls, false, &over);
	}
	share_put(wait->share);
	wait->share = NULL;
	unlock_and_tell(ls, &over);
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

/* Ends the waits in line that lacked only this module. */
static void tell_line(struct loads *ls, const struct module_hash *hash, struct wait_list *over)
{
	for (struct load_wait *wait = TAILQ_FIRST(&ls->line), *next; wait; wait = next) {
		next = TAILQ_NEXT(wait, line);
		if (!module_hash_equal(&wait->lacks->own.hash, hash) || !lacks_none(ls, wait))
			continue;
		move(ls, wait, WAIT_AWAY);
		end_wait(ls, wait, over);
	}
}

void loads_publish(struct loads *ls, struct load *l)
{
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	struct module_want *w;
	pthread_mutex_lock(&ls->lock);
	remember(ls, l);
	l->life = step(l->life, LIFE_LOADED);
	LIST_REMOVE(l, chain);
	end_transfer(ls, l);
	while ((w = LIST_FIRST(&l->waiters))) {
		struct load_wait *wait = w->own.wait;
		leave(w);
		if (settles(l, w))
			give_result(ls, l, wait, w);
		if (w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY)
			leave_all(wait); /* the request is refused: no need to wait for its other loads */
		if (!wait->pending)
			end_wait(ls, wait, &over);
	}
	tell_line(ls, &l->hash, &over);
	unlock_and_tell(ls, &over);
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

static void expire(struct loads *ls, struct load_wait *wait, int64_t now, bool look, struct wait_list *over)
{
	bool gone = look && wait->gone(wait), late = now >= wait->deadline || gone;
	if (in_line(wait) && (late || now >= wait->line_end)) {
		move(ls, wait, WAIT_AWAY);
		wait->refused = late || !lacks_none(ls, wait);
		metric_add(M_COLD_REFUSED, wait->refused);
	} else if (late) {
		leave_all(wait);
		if (gone)
			cancel_unwanted(ls, wait);
		wait->timed_out = true;
	} else {
		return;
	}
	end_wait(ls, wait, over);
}

/* ---- memory that requests hold ---- */

/* So long others may take to give memory back. */
#define STUCK_TIME (5 * SECOND)

/* Whether a load cannot begin, or go on, before memory is given back. */
static bool lacks_memory(const struct loads *ls)
{
	return atomic_load(&ls->context->needy_waits) || queue_lacks_memory(ls);
}

/* Of the requests that wait and hold modules, the one that began last; *count: how many there are. */
static struct load_wait *last_holder(const struct loads *ls, unsigned *count)
{
	struct load_wait *wait, *last = NULL;
	*count = 0;
	LIST_FOREACH(wait, &ls->waits, next)
		if (wait->held && wait->pending) {
			++*count;
			if (!last || wait->began > last->began)
				last = wait;
		}
	return last;
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

/* The request begins anew when it comes to its place again; or at once, if it needs none by now. */
static void give_back(struct loads *ls, struct load_wait *wait, struct wait_list *over)
{
	release_held(ls, wait);
	leave_all(wait);
	abandon(ls, wait);
	if (!needs_load(ls, wait) || !wait->lacks) {
		move(ls, wait, WAIT_AWAY);
		end_wait(ls, wait, over);
		return;
	}
	wait->line_end = INT64_MAX;
	move(ls, wait, WAIT_LINE_AGAIN);
}

/* The only request that holds modules needs more memory than there is. It is refused, unless others end soon. */
static void give_up(struct loads *ls, struct load_wait *wait, int64_t now, struct wait_list *over)
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
	end_wait(ls, wait, over);
}

/* Of the requests that have given back what they held, when the first began; UINT64_MAX: none has. */
static uint64_t first_to_come_back(const struct loads *ls)
{
	const struct load_wait *wait;
	uint64_t first = UINT64_MAX;
	TAILQ_FOREACH(wait, &ls->line, line)
		if (wait->state == WAIT_LINE_AGAIN && wait->began < first)
			first = wait->began;
	return first;
}

/* Whether a request that has given back what it held may come back: one after the other, and when all that began before
 * it have ended, unless half the memory is free. Those that began later do not keep it waiting, or it would wait as
 * long as there are new ones.
 */
static bool may_come_back(const struct loads *ls)
{
	const struct load_wait *wait;
	const uint64_t first = first_to_come_back(ls);
	if (account_left() > account_total() / 2)
		return true;
	LIST_FOREACH(wait, &ls->waits, next)
		if (wait->pending && (wait->state == WAIT_PLACED_AGAIN || (wait->held && wait->began < first)))
			return false;
	return true;
}

/* Lets requests give back what they hold, those that began last first, until loads can go on. Returns whether they
 * cannot. */
static bool relieve(struct loads *ls, int64_t now, struct wait_list *over)
{
	struct load_wait *last = NULL;
	unsigned holders;
	bool lacks, gave = false;
	while ((lacks = lacks_memory(ls)) && (last = last_holder(ls, &holders)) && holders > 1) {
		if (gave && !queue_lacks_memory(ls) && has_more_memory(0))
			break; /* a running load may be able to go on, but has to look first */
		give_back(ls, last, over);
		gave = true;
	}
	give_up(ls, lacks ? last : NULL, now, over);
	return lacks;
}

void loads_tick(struct loads *ls, int64_t now, bool look)
{
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	pthread_mutex_lock(&ls->lock);
	if (lacks_memory(ls)) {
		pthread_mutex_unlock(&ls->lock);
		page_cache_shrink(ls->context->cache, load_small_bytes()); /* first what nobody uses */
		pthread_mutex_lock(&ls->lock);
	}
	for (struct load_wait *wait = LIST_FIRST(&ls->waits), *next; wait; wait = next) {
		next = LIST_NEXT(wait, next);
		expire(ls, wait, now, look, &over);
	}
	bool lacks = relieve(ls, now, &over);
	atomic_store(&ls->context->short_of_memory, lacks);
	admit(ls, !lacks && may_come_back(ls), &over);
	wake_one(ls); /* a request may have let records go, and tells nobody */
	unlock_and_tell(ls, &over);
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
	*ls = (struct loads){.context = context, .seed = seed};
	pthread_mutex_init(&ls->lock, NULL);
	TAILQ_INIT(&ls->line);
	TAILQ_INIT(&ls->turns);
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
		drop(l);
	}
	pthread_cond_destroy(&ls->changed);
	pthread_mutex_destroy(&ls->lock);
}
