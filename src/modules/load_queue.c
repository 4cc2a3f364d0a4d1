/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/load_queue.h"

#include "base/account.h"
#include "base/clock.h"

void queue_init(struct load_queue *q, struct load_means *means, struct leases *leases, uint64_t seed)
{
	*q = (struct load_queue){.means = means, .leases = leases, .seed = seed};
	TAILQ_INIT(&q->turns);
	clock_condition_init(&q->changed);
}

/* ---- loads in flight ---- */

static uint32_t chain_of(const struct load_queue *q, const struct module_hash *hash)
{
	return (uint32_t)(module_hash_seeded(hash, q->seed) % LOAD_CHAINS);
}

struct load *queue_find(struct load_queue *q, const struct module_want *w)
{
	struct load *l;
	LIST_FOREACH(l, &q->chains[chain_of(q, &w->own.hash)], chain)
		if (!l->lease.stale && module_hash_equal(&l->lease.hash, &w->own.hash))
			break;
	return l;
}

void queue_forget(struct load_queue *q, const struct module_hash *hash)
{
	struct load *l;
	LIST_FOREACH(l, &q->chains[chain_of(q, hash)], chain)
		if (module_hash_equal(&l->lease.hash, hash))
			l->lease.stale = true;
}

static void drop_load(struct load *l)
{
	LIST_REMOVE(l, chain);
	load_free(l);
}

/* ---- whose turn it is ---- */

static void end_turn(struct load_queue *q, struct load_wait *owner)
{
	if (!owner->queue.in_turn)
		return;
	TAILQ_REMOVE(&q->turns, owner, queue.next);
	owner->queue.in_turn = false;
	q->queues--;
	if (owner->share)
		owner->share->queues--;
}

/* Puts the owner at the end of the turns if it has loads queued. */
static void next_turn(struct load_queue *q, struct load_wait *owner)
{
	end_turn(q, owner);
	if (STAILQ_EMPTY(&owner->queue.queued))
		return;
	TAILQ_INSERT_TAIL(&q->turns, owner, queue.next);
	owner->queue.in_turn = true;
	q->queues++;
	if (owner->share)
		owner->share->queues++;
}

static void add_load(struct load_queue *q, struct load *l, struct load_wait *owner)
{
	l->owner = owner;
	if (STAILQ_EMPTY(&owner->queue.queued)) /* a new wait is zeroed, so its list may not be initialised */
		STAILQ_INIT(&owner->queue.queued);
	STAILQ_INSERT_TAIL(&owner->queue.queued, l, queued);
	if (!owner->queue.in_turn)
		next_turn(q, owner);
	pthread_cond_signal(&q->changed);
}

struct load *queue_start(struct load_queue *q, const struct module_want *w, struct load_wait *owner)
{
	struct load *l = load_new(q->means, w);
	if (!l)
		return NULL;
	LIST_INSERT_HEAD(&q->chains[chain_of(q, &l->lease.hash)], l, chain);
	add_load(q, l, owner);
	return l;
}

/* Queues the load for another request that waits for it, or drops it if none does. */
static void pass_on(struct load_queue *q, struct load *l)
{
	const struct module_want *w = LIST_FIRST(&l->waiters);
	if (w)
		add_load(q, l, w->own.wait);
	else
		drop_load(l);
}

static void disown(struct load *l)
{
	LIST_REMOVE(l, running);
	l->owner->queue.running_count--;
	l->owner = NULL;
}

void queue_abandon(struct load_queue *q, struct load_wait *owner)
{
	struct load *l;
	while ((l = LIST_FIRST(&owner->queue.running)))
		disown(l);
	while ((l = STAILQ_FIRST(&owner->queue.queued))) {
		STAILQ_REMOVE_HEAD(&owner->queue.queued, queued);
		pass_on(q, l);
	}
	end_turn(q, owner);
}

/* ---- taken and put back ---- */

/* A load begins if there is room for a small one; how large it is shows only while it runs. */
static bool has_memory(void)
{
	uint64_t total = account_total(), used = account_used();
	return total == UINT64_MAX || used + load_small_bytes() <= total;
}

bool queue_has_room(const struct load_queue *q)
{
	return q->transfers < q->means->config->bucket_parallel && (!q->unfinished || has_memory());
}

/* The first load of a request that may run now: one that lacked memory, when no other has much. */
static struct load *next_of(const struct load_queue *q, const struct load_wait *owner)
{
	struct load *l;
	const struct share *share = owner->share;
	if (owner->queue.running_count >= q->means->config->bucket_parallel_request ||
	        (share && !share_allows(share->transfers, q->transfers, q->means->config->bucket_parallel,
	                          q->queues > share->queues)))
		return NULL;
	STAILQ_FOREACH(l, &owner->queue.queued, queued)
		if (!l->large || !atomic_load(&q->means->heavy))
			break;
	return l;
}

static uint64_t turn_of(const struct load_wait *owner)
{
	return owner->share ? owner->share->turn : 0;
}

/* The next load of the client whose last turn was longest ago, and of its request that has waited longest. */
static struct load *take_queued(struct load_queue *q)
{
	struct load_wait *owner = NULL, *one;
	struct load *l = NULL, *next;
	if (!queue_has_room(q))
		return NULL;
	TAILQ_FOREACH(one, &q->turns, queue.next)
		if ((!owner || turn_of(one) < turn_of(owner)) && (next = next_of(q, one))) {
			owner = one;
			l = next;
		}
	if (!l)
		return NULL;
	if ((l->share = owner->share)) {
		l->share->users++;
		l->share->transfers++;
		l->share->turn = ++q->turn;
	}
	STAILQ_REMOVE(&owner->queue.queued, l, load, queued);
	next_turn(q, owner);
	LIST_INSERT_HEAD(&owner->queue.running, l, running);
	owner->queue.running_count++;
	l->transferring = true;
	q->transfers++;
	return l;
}

/* A load on another host that is due for a check. Drops those that no request waits for any more. */
static struct load *take_elsewhere(struct load_queue *q)
{
	struct lease *lease;
	int64_t now = clock_now();
	while ((lease = leases_due(q->leases, now))) {
		struct load *l = load_of_lease(lease);
		if (!LIST_EMPTY(&l->waiters))
			return l;
		drop_load(l);
	}
	return NULL;
}

struct load *queue_take(struct load_queue *q)
{
	struct load *l = take_elsewhere(q);
	if (!l)
		l = take_queued(q);
	q->unfinished += l != NULL;
	if (l) /* wakes another loader: there may be more loads */
		queue_room(q);
	return l;
}

void queue_wait(struct load_queue *q, pthread_mutex_t *lock)
{
	const struct lease *first = TAILQ_FIRST(&q->leases->elsewhere);
	if (first)
		clock_wait(&q->changed, lock, first->look_at);
	else
		pthread_cond_wait(&q->changed, lock);
}

void queue_wake(struct load_queue *q)
{
	pthread_cond_broadcast(&q->changed);
}

static void end_transfer(struct load_queue *q, struct load *l)
{
	if (l->owner)
		disown(l);
	q->transfers -= l->transferring;
	if (l->share)
		l->share->transfers--;
	share_put(l->share);
	l->share = NULL;
	l->transferring = false;
	pthread_cond_signal(&q->changed);
}

void queue_put_back(struct load_queue *q, struct load *l, bool elsewhere)
{
	end_transfer(q, l);
	q->unfinished--;
	l->large = l->large || l->no_room;
	l->no_room = false;
	if (elsewhere)
		leases_wait(q->leases, &l->lease, clock_now());
	else
		pass_on(q, l);
	pthread_cond_broadcast(&q->changed);
}

void queue_done(struct load_queue *q, struct load *l)
{
	LIST_REMOVE(l, chain);
	end_transfer(q, l);
}

/* ---- until it is finished ---- */

void queue_room(struct load_queue *q)
{
	if (!TAILQ_EMPTY(&q->turns) && queue_has_room(q))
		pthread_cond_signal(&q->changed);
}

void queue_finished(struct load_queue *q)
{
	q->unfinished--;
	q->last_end = clock_now();
	queue_room(q);
}

void queue_release(struct load_queue *q)
{
	struct lease *lease;
	while ((lease = leases_due(q->leases, INT64_MAX)))
		drop_load(load_of_lease(lease));
	pthread_cond_destroy(&q->changed);
}
