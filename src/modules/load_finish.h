/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behind the reply: threads that give way to all others make all pages, write the map to memcached and let the text go.
 * Pages stay in the cache as far as there is room, and all of them where memcached does not get the map: raw up to a
 * quarter of the cache, the rest compressed. The text of the pages that stay goes at once.
 */
#ifndef MODULES_LOAD_FINISH_H
#define MODULES_LOAD_FINISH_H

#include "modules/load_queue.h"

enum { FINISHERS = 2 };

struct finishers {
	pthread_mutex_t *lock; /* of struct modules; guards what waits */
	struct load_means *means;
	struct leases *leases;
	struct load_queue *queue;
	pthread_cond_t added; /* a load waits to be finished, or stopping */
	STAILQ_HEAD(, load) waiting;
	pthread_t threads[FINISHERS];
	unsigned count;
};

void finishers_init(struct finishers *all, pthread_mutex_t *lock, struct load_means *means, struct leases *leases,
        struct load_queue *queue);
bool finishers_start(struct finishers *all);
/* Stopping is set, and the loaders have ended: what waits is given up quickly. */
void finishers_stop(struct finishers *all);

/* Sees to it that the other pages are made, the map is written to memcached and the lease given back: here with this
 * client, or in a thread of its own. Ends the load. */
void load_finish(struct finishers *all, struct load *l, struct mc_client *memcached);

#endif
