/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that run loads. For each: look in memcached once more, take the lease or wait for the host that has it,
 * ask the sources, and tell the requests that wait. */
#ifndef MODULES_LOADER_H
#define MODULES_LOADER_H

#include "modules/finish.h"

struct loaders {
	struct loads *loads;
	struct finishers *finishers;
	pthread_mutex_t lock; /* guards what follows */
	pthread_t *threads;
	unsigned count;
};

/* Starts the first of at most loaders_max threads; each starts one more when it gets its first load, so that one is
 * idle. False if it could not be started; call loaders_stop all the same. */
bool loaders_start(struct loaders *all, struct loads *loads, struct finishers *finishers);
/* Call after `stopping` is set and loads_wake. */
void loaders_stop(struct loaders *all);

#endif
