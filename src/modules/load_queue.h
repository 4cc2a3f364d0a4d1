/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads in flight, and whose turn it is. Each request has a queue of its own, and loaders take from the queues in turn,
 * so that one with a thousand modules does not stand before one with a single module. A load that nobody waits for any
 * more is dropped while it is queued, and ends where it runs. Whoever calls these functions holds the lock of struct
 * modules.
 */
#ifndef MODULES_LOAD_QUEUE_H
#define MODULES_LOAD_QUEUE_H

#include <pthread.h>

#include "modules/load.h"

enum { LOAD_CHAINS = 1024 };

struct load_queue {
	struct load_means *means;
	struct leases *leases; /* those elsewhere: their loads have neither a thread nor the place of a transfer */
	uint64_t seed;         /* of the chains, so that nobody can choose modules that fall into one */
	LIST_HEAD(, load) chains[LOAD_CHAINS];
	TAILQ_HEAD(, load_wait) turns; /* who has loads queued */
	unsigned transfers;            /* loads that have the place of one */
	unsigned unfinished;           /* loads that are taken, until they are finished */
	uint64_t finishing_bytes;      /* of those that wait to be finished or are being so, their texts aside */
	pthread_cond_t changed;        /* there may be something to take, or stopping */
};

/* Half of the loaders may ask memcached for what other hosts load while the others transfer. */
static inline unsigned loaders_max(const struct config *c)
{
	return 2 * (unsigned)c->bucket_parallel;
}

void queue_init(struct load_queue *q, struct load_means *means, struct leases *leases, uint64_t seed);
/* No loader is left: drops what it still had to look at. */
void queue_release(struct load_queue *q);

/* The load in flight that the want can join, or NULL. */
struct load *queue_find(struct load_queue *q, const struct module_want *w);
/* Queues a new one; NULL: no memory. */
struct load *queue_start(struct load_queue *q, const struct module_want *w, struct load_wait *owner);
/* The owner goes: what runs goes on, what is queued goes to who else waits for it, if anybody does. */
void queue_abandon(struct load_queue *q, struct load_wait *owner);
/* What runs of the module is for those alone who wait for it. */
void queue_forget(struct load_queue *q, const struct module_hash *hash);

/* The next load to look at or, with the place of a transfer, to run; NULL: none at present. */
struct load *queue_take(struct load_queue *q);
/* Until there may be one. */
void queue_wait(struct load_queue *q, pthread_mutex_t *lock);
/* Stopping is set: nobody waits any more. */
void queue_wake(struct load_queue *q);
/* One that was taken and not done: another host has its lease, or it is loaded here after all, when its turn comes. */
void queue_put_back(struct load_queue *q, struct load *l, bool elsewhere);
/* One that was taken is done: out of flight, but not finished. */
void queue_done(struct load_queue *q, struct load *l);
void queue_finishing(struct load_queue *q, uint64_t bytes);
void queue_finished(struct load_queue *q, uint64_t bytes);
/* Memory may have become free: the next load begins if there is room for it. */
void queue_room(struct load_queue *q);

#endif
