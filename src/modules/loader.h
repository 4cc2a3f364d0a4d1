/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that run loads. For each: look in memcached once more, take the lease or wait for the host that has it,
 * ask the sources, and tell the requests that wait. */
#ifndef MODULES_LOADER_H
#define MODULES_LOADER_H

#include "modules/cold.h"
#include "modules/load_finish.h"

struct loaders {
	struct cold *cold;
	struct leases *leases;
	struct finishers *finishers;
	pthread_t *threads;
	unsigned count;
};

void loaders_init(struct loaders *all, struct cold *cold, struct leases *leases, struct finishers *finishers);
/* Starts loaders_max threads. False if not all could be started; loaders_stop ends those that were. */
bool loaders_start(struct loaders *all);
/* Call after `stopping` is set and queue_wake. */
void loaders_stop(struct loaders *all);

#endif
