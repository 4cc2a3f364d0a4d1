/* SPDX-License-Identifier: Apache-2.0 */
/* Invalidations still to be sent to memcached, because it did not answer. */
#ifndef MODULES_MARKERS_H
#define MODULES_MARKERS_H

#include <pthread.h>
#include <sys/queue.h>

#include "cache/page_memcached.h"

SLIST_HEAD(marker_list, marker);

struct markers {
	pthread_mutex_t lock; /* guards the rest */
	struct marker_list list;
	unsigned count;
	unsigned dropped; /* since the log last told of them */
};

void markers_init(struct markers *ms);
void markers_release(struct markers *ms);
/* Keeps one to be sent later, unless it is there already. If there are 10,000, or no memory, it is dropped: other
 * processes may then use the old module for up to root_max_age. */
void markers_keep(struct markers *ms, const struct module_hash *hash);
/* Tries to send them all; those that memcached does not take stay. Logs how many were dropped. */
void markers_put(struct markers *ms, struct mc_client *c);
/* At the end: logs how many memcached was never told. */
void markers_note_left(struct markers *ms);

#endif
