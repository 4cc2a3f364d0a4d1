/* SPDX-License-Identifier: Apache-2.0 */
/* Invalidations that memcached could not be told yet. */
#ifndef MODULES_MARKERS_H
#define MODULES_MARKERS_H

#include <pthread.h>
#include <sys/queue.h>

#include "store/page_memcached.h"

SLIST_HEAD(marker_list, marker);

struct markers {
	pthread_mutex_t lock; /* of the rest */
	struct marker_list list;
	unsigned count;
};

void markers_init(struct markers *ms);
void markers_release(struct markers *ms);
/* To be told later. What is beyond 10,000, or finds no memory, is checked when it is as old as root_max_age. */
void markers_keep(struct markers *ms, const struct module_hash *hash);
/* Tries to put them all; those that memcached does not take stay. */
void markers_put(struct markers *ms, struct mc_client *c);

#endif
