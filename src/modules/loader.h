/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that run loads: look once more in memcached, take the lease or leave it to who has it, ask the sources,
 * and tell who waits. */
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
/* All loaders_max; false: not all could be started, and loaders_stop ends those that were. */
bool loaders_start(struct loaders *all);
/* Stopping is set, and the queue told. */
void loaders_stop(struct loaders *all);

#endif
