/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads in flight, and whose turn it is. Each request has its own queue. Clients have turns, and in each turn of
 * a client the next of its requests, so that a request with one module does not wait behind a thousand modules of
 * another. If no request waits for a load any
 * more, it is dropped while queued, but completes once it runs. Call these functions with the lock of struct modules
 * held.
 */
#ifndef MODULES_LOAD_QUEUE_H
#define MODULES_LOAD_QUEUE_H

#include <pthread.h>

#include "modules/load.h"

enum { LOAD_CHAINS = 1024 };

struct load_queue {
	struct load_means *means;
	struct leases *leases; /* their loads, which other hosts run, take no thread and are no transfer */
	uint64_t seed;         /* for hashing, so that clients cannot choose modules that share a chain */
	LIST_HEAD(, load) chains[LOAD_CHAINS];
	TAILQ_HEAD(, load_wait) turns; /* requests that have loads queued */
	uint64_t queues;               /* how many these are */
	uint64_t turn;                 /* counts them */
	unsigned transfers;            /* loads that count as transfers */
	unsigned unfinished;           /* loads taken but not finished */
	int64_t last_end;              /* clock_now() when one was finished */
	pthread_cond_t changed;        /* signalled when there may be a load to take, or when stopping */
};

/* Twice bucket_parallel, so that loaders can check on other hosts' loads while bucket_parallel of them transfer. */
static inline unsigned loaders_max(const struct config *c)
{
	return 2 * (unsigned)c->bucket_parallel;
}

void queue_init(struct load_queue *q, struct load_means *means, struct leases *leases, uint64_t seed);
/* Call when no loader runs any more. Drops the loads that wait for other hosts. */
void queue_release(struct load_queue *q);

/* A load in flight that the want can join, or NULL: one for its module, however the id is spelled. */
struct load *queue_find(struct load_queue *q, const struct module_want *w);
/* Queues a new load; NULL if out of memory. */
struct load *queue_start(struct load_queue *q, const struct module_want *w, struct load_wait *owner);
/* Call when the owner leaves. Its running loads go on; each queued load passes to another request that waits for it, or
 * is dropped. */
void queue_abandon(struct load_queue *q, struct load_wait *owner);
/* The module was invalidated: only requests that already wait get the results of its loads. */
void queue_forget(struct load_queue *q, const struct module_hash *hash);

/* Whether there is room for one more transfer. */
bool queue_has_room(const struct load_queue *q);
/* The next load to check on or, if `transferring` is set in it, to run; NULL: none at present. */
struct load *queue_take(struct load_queue *q);
/* Waits until there may be one. */
void queue_wait(struct load_queue *q, pthread_mutex_t *lock);
/* Call after `stopping` is set: wakes all loaders. */
void queue_wake(struct load_queue *q);
/* Returns a load that was taken but not done. `elsewhere`: another host has its lease; otherwise it is loaded here when
 * its turn comes, after a lack of memory (no_room) when no other load lacks it. */
void queue_put_back(struct load_queue *q, struct load *l, bool elsewhere);
/* Takes a load that is done out of flight. It still has to be finished. */
void queue_done(struct load_queue *q, struct load *l);
void queue_finished(struct load_queue *q);
/* Call when memory may have been freed: starts the next load if there is room. */
void queue_room(struct load_queue *q);

#endif
