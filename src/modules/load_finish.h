/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the reply, low-priority threads make all remaining pages, write the map to memcached and free the text. If
 * memcached takes the map, pages stay in the cache only while there is room; otherwise all of them stay: raw up to a
 * quarter of the cache, the rest compressed. The text of a page that stays is freed at once.
 */
#ifndef MODULES_LOAD_FINISH_H
#define MODULES_LOAD_FINISH_H

#include "modules/load_queue.h"

enum { FINISHERS = 2 };

struct finishers {
	pthread_mutex_t *lock; /* of struct modules; guards `waiting` and `ended` */
	struct load_means *means;
	struct leases *leases;
	struct load_queue *queue;
	pthread_cond_t added; /* signalled when a load is added, or when stopping */
	STAILQ_HEAD(, load) waiting;
	bool ended; /* no load comes any more; until then the last loads are waited for, even when stopping */
	pthread_t threads[FINISHERS];
	unsigned count;
};

void finishers_init(struct finishers *all, pthread_mutex_t *lock, struct load_means *means, struct leases *leases,
        struct load_queue *queue);
bool finishers_start(struct finishers *all);
/* Call after `stopping` is set and the loaders have ended. Loads that still wait are given up quickly. */
void finishers_stop(struct finishers *all);

/* Makes the remaining pages, writes the map to memcached, gives the lease back and frees the load: at once with this
 * client if the map is stored already or there is none, else in a finisher's thread. */
void load_finish(struct finishers *all, struct load *l, struct mc_client *memcached);

#endif
