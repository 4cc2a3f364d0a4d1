/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that run loads. For each: look in memcached once more, take the lease or wait for the host that has it,
 * ask the sources, and tell the requests that wait. */
#ifndef MODULES_LOADER_H
#define MODULES_LOADER_H

#include "modules/finish.h"

struct loaders {
	struct loads *loads;
	struct finishers *finishers;
	pthread_t *threads;
	unsigned count;
};

/* Starts loaders_max threads. False if not all could be started; loaders_stop ends those that were. */
bool loaders_start(struct loaders *all, struct loads *loads, struct finishers *finishers);
/* Call after `stopping` is set and loads_wake. */
void loaders_stop(struct loaders *all);

#endif
