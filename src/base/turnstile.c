/* SPDX-License-Identifier: Apache-2.0 */
/* Static functions are called with the lock of the turnstile held, unless they say otherwise. */
#include <config.h>

#include "base/turnstile.h"

#include "base/clock.h"
#include "base/held_back.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/process.h"

static const struct {
	const char *name;
	enum metric inside, waiting, refused;
} kinds[] = {
        [TURNSTILE_DOWNLOADS] = {"downloads", M_TURNSTILE_INSIDE_DOWNLOADS, M_TURNSTILE_WAITING_DOWNLOADS,
                M_TURNSTILE_REFUSED_DOWNLOADS},
        [TURNSTILE_UPLOADS] = {"uploads", M_TURNSTILE_INSIDE_UPLOADS, M_TURNSTILE_WAITING_UPLOADS,
                M_TURNSTILE_REFUSED_UPLOADS},
        [TURNSTILE_CODE] = {"code", M_TURNSTILE_INSIDE_CODE, M_TURNSTILE_WAITING_CODE, M_TURNSTILE_REFUSED_CODE},
        [TURNSTILE_SEGMENTS] = {"segments", M_TURNSTILE_INSIDE_SEGMENTS, M_TURNSTILE_WAITING_SEGMENTS,
                M_TURNSTILE_REFUSED_SEGMENTS},
        [TURNSTILE_FETCHES] = {"fetches", M_TURNSTILE_INSIDE_FETCHES, M_TURNSTILE_WAITING_FETCHES,
                M_TURNSTILE_REFUSED_FETCHES},
        [TURNSTILE_READS] = {"reads", M_TURNSTILE_INSIDE_READS, M_TURNSTILE_WAITING_READS, M_TURNSTILE_REFUSED_READS},
        [TURNSTILE_LOADS] = {"loads", M_TURNSTILE_INSIDE_LOADS, M_TURNSTILE_WAITING_LOADS, M_TURNSTILE_REFUSED_LOADS},
};

static const int64_t interval = 60 * SECOND; /* of log lines */

/* All turnstiles, for turnstiles_tick. Its lock comes before theirs. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, turnstile) all = LIST_HEAD_INITIALIZER(all);

const char *turnstile_name(enum turnstile_for what)
{
	return kinds[what].name;
}

void turnstile_init(struct turnstile *t, enum turnstile_for what, unsigned places, unsigned line_max, bool owned)
{
	*t = (struct turnstile){.what = what, .owned = owned, .line_max = line_max};
	pthread_mutex_init(&t->lock, NULL);
	clock_condition_init(&t->changed);
	turns_init(&t->turns, places, random_u64());
	TAILQ_INIT(&t->line);
	if (owned)
		return;
	pthread_mutex_lock(&all_lock);
	LIST_INSERT_HEAD(&all, t, all);
	pthread_mutex_unlock(&all_lock);
}

void turnstile_release(struct turnstile *t)
{
	if (!t->owned) {
		pthread_mutex_lock(&all_lock);
		LIST_REMOVE(t, all);
		pthread_mutex_unlock(&all_lock);
	}
	turns_destroy(&t->turns);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
}

/* ---- the line ---- */

static void note_inside(const struct turnstile *t, int more)
{
	metric_add(kinds[t->what].inside, more);
}

static void join_line(struct turnstile *t, struct visit *v)
{
	v->state = VISIT_WAITS;
	TAILQ_INSERT_TAIL(&t->line, v, next);
	t->line_length++;
	metric_add(kinds[t->what].waiting, 1);
}

static void leave_line(struct turnstile *t, struct visit *v)
{
	TAILQ_REMOVE(&t->line, v, next);
	t->line_length--;
	metric_add(kinds[t->what].waiting, -1);
}

/* It stands in no line and gets no place. */
static void drop(struct turnstile *t, struct visit *v)
{
	turns_drop(&t->turns, &v->turn);
	turns_shrink(&t->turns);
	v->state = VISIT_REFUSED;
}

/* If places are free, it gets none only because its client has others: notes that once, and returns true. */
static bool note_held_back(struct turnstile *t, struct visit *v)
{
	if (t->turns.busy >= t->turns.places)
		return false;
	turns_note_held_back(&t->turns, &v->turn);
	return true;
}

/* The same for one that is waited for. */
static void refuse(struct turnstile *t, struct visit *v)
{
	t->lacking += !note_held_back(t, v);
	metric_add(kinds[t->what].refused, 1);
	drop(t, v);
}

/* Whether one more of the client may wait; it counts among those already. */
static bool line_has_room(const struct turnstile *t, struct client_key client)
{
	unsigned has = turns_waiting(&t->turns, client) - 1;
	return client_may_have(has, t->line_length, t->line_max, t->line_length > has);
}

/* Gives free places to those whose turn it is. They leave the line for `called`, but for `own`, which is in none. */
static void admit(struct turnstile *t, const struct visit *own, struct visit_list *called)
{
	struct turn_client *client;
	struct turn *turn;
	while ((turn = turns_next(&t->turns, &client))) {
		struct visit *v = (struct visit *)turn;
		if (v != own) {
			leave_line(t, v);
			TAILQ_INSERT_TAIL(called, v, next);
		}
		v->holder = client;
		v->state = VISIT_INSIDE;
		note_inside(t, 1);
	}
}

/* How many were refused because all places were taken, if it is time to tell; else 0. */
static unsigned to_tell(struct turnstile *t)
{
	const unsigned lacking = t->lacking;
	const int64_t now = lacking ? clock_now() : 0;
	if (!lacking || (t->told && now - t->told < interval))
		return 0;
	t->told = now;
	t->lacking = 0;
	return lacking;
}

/* Without a lock. A visit may be gone as soon as it is called. */
static void call_each(struct visit_list *called)
{
	struct visit *v;
	while ((v = TAILQ_FIRST(called))) {
		TAILQ_REMOVE(called, v, next);
		v->called(v);
	}
}

void turnstile_tell(struct turnstile *t)
{
	pthread_mutex_lock(&t->lock);
	const struct client_key client = t->turns.held_back;
	const unsigned count = t->turns.held_back_count, lacking = to_tell(t), places = t->turns.places,
	               prefix = t->prefix;
	t->turns.held_back_count = 0;
	pthread_mutex_unlock(&t->lock);
	if (count)
		held_back_note(client, count, prefix);
	if (lacking)
		log_event(LOG_LEVEL_WARNING, "too many at a time", "%s: %u found none of %u places in time",
		        kinds[t->what].name, lacking, places);
}

/* Unlocks, and leaves those that are to be called. Who is in turnstile_wait looks himself, so he is told before the
 * lock is given up. */
static void unlock(struct turnstile *t, struct visit_list *called)
{
	struct visit *v, *next;
	for (v = TAILQ_FIRST(called); v; v = next) {
		next = TAILQ_NEXT(v, next);
		if (v->called)
			continue;
		TAILQ_REMOVE(called, v, next);
		pthread_cond_broadcast(&t->changed);
	}
	const bool tells = !t->owned && (t->turns.held_back_count || t->lacking);
	pthread_mutex_unlock(&t->lock);
	if (tells)
		turnstile_tell(t);
}

static void unlock_and_call(struct turnstile *t, struct visit_list *called)
{
	unlock(t, called);
	call_each(called);
}

void turnstile_set_places(struct turnstile *t, unsigned places)
{
	struct visit_list called = TAILQ_HEAD_INITIALIZER(called);
	pthread_mutex_lock(&t->lock);
	t->turns.places = places;
	admit(t, NULL, &called);
	unlock_and_call(t, &called);
}

bool turnstile_has_place(struct turnstile *t)
{
	pthread_mutex_lock(&t->lock);
	const bool has = client_may_have(0, t->turns.busy, t->turns.places, false);
	pthread_mutex_unlock(&t->lock);
	return has;
}

/* ---- visits ---- */

enum visit_state turnstile_enter(struct turnstile *t, struct visit *v)
{
	struct visit_list called = TAILQ_HEAD_INITIALIZER(called);
	v->turn = (struct turn){.client = v->turn.client, .since = clock_now()};
	pthread_mutex_lock(&t->lock);
	if (!turns_grow(&t->turns)) {
		pthread_mutex_unlock(&t->lock);
		return v->state = VISIT_NO_MEMORY;
	}
	t->prefix = v->prefix;
	turns_add(&t->turns, &v->turn);
	v->state = VISIT_NONE;
	admit(t, v, &called);
	if (v->state != VISIT_INSIDE && (v->patient || line_has_room(t, v->turn.client))) {
		join_line(t, v);
		note_held_back(t, v);
	} else if (v->state != VISIT_INSIDE) {
		refuse(t, v);
	}
	const enum visit_state state = v->state;
	unlock_and_call(t, &called);
	return state;
}

void turnstile_leave(struct turnstile *t, struct visit *v)
{
	struct visit_list called = TAILQ_HEAD_INITIALIZER(called);
	pthread_mutex_lock(&t->lock);
	turns_done(&t->turns, v->holder);
	turns_shrink(&t->turns);
	note_inside(t, -1);
	v->state = VISIT_NONE;
	admit(t, NULL, &called);
	unlock_and_call(t, &called);
}

/* One in the line, which it leaves. */
static void withdraw(struct turnstile *t, struct visit *v, bool refused)
{
	leave_line(t, v);
	if (refused)
		refuse(t, v);
	else
		drop(t, v);
}

void turnstile_withdraw(struct turnstile *t, struct visit *v, bool refused)
{
	struct visit_list called = TAILQ_HEAD_INITIALIZER(called);
	pthread_mutex_lock(&t->lock);
	withdraw(t, v, refused);
	unlock(t, &called);
}

bool turnstile_wait(struct turnstile *t, struct visit *v, const atomic_bool *cancel)
{
	struct visit_list called = TAILQ_HEAD_INITIALIZER(called);
	v->called = NULL;
	v->gone = NULL;
	const enum visit_state state = turnstile_enter(t, v);
	if (state == VISIT_REFUSED || state == VISIT_NO_MEMORY)
		return false;
	pthread_mutex_lock(&t->lock);
	while (v->state == VISIT_WAITS) {
		int64_t now = clock_now();
		const bool cancelled = cancel && atomic_load(cancel);
		if (cancelled || now >= v->until)
			withdraw(t, v, !cancelled);
		else /* nobody tells when *cancel changes */
			clock_wait(&t->changed, &t->lock, now + SECOND < v->until ? now + SECOND : v->until);
	}
	const bool inside = v->state == VISIT_INSIDE;
	unlock_and_call(t, &called);
	return inside;
}

/* Takes the lock. Adds those that are to be called to `all_called`. */
static void tick(struct turnstile *t, int64_t now, struct visit_list *all_called)
{
	struct visit_list called = TAILQ_HEAD_INITIALIZER(called);
	pthread_mutex_lock(&t->lock);
	for (struct visit *v = TAILQ_FIRST(&t->line), *next; v; v = next) {
		next = TAILQ_NEXT(v, next);
		const bool gone = v->called && v->gone && v->gone(v);
		if (!v->called || (now < v->until && !gone))
			continue;
		withdraw(t, v, !gone);
		TAILQ_INSERT_TAIL(&called, v, next);
	}
	/* whose share another's wait had halved may have more now */
	admit(t, NULL, &called);
	unlock(t, &called);
	TAILQ_CONCAT(all_called, &called, next);
}

void turnstiles_tick(int64_t now)
{
	struct visit_list called = TAILQ_HEAD_INITIALIZER(called);
	struct turnstile *t;
	pthread_mutex_lock(&all_lock);
	LIST_FOREACH(t, &all, all)
		tick(t, now, &called);
	pthread_mutex_unlock(&all_lock);
	call_each(&called);
}
