/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that ends waits at their deadlines, watches memory, renews leases, and sends memcached the invalidations
 * that it missed. */
#ifndef MODULES_KEEPER_H
#define MODULES_KEEPER_H

#include "modules/cold.h"
#include "modules/lease.h"
#include "modules/markers.h"

struct keeper {
	struct cold *cold;
	struct leases *leases;
	struct markers *markers;
	pthread_cond_t stop; /* signalled when stopping; goes with the lock of struct modules */
	pthread_t thread;
	bool runs;
};

void keeper_init(struct keeper *k, struct cold *cold, struct leases *leases, struct markers *markers);
bool keeper_start(struct keeper *k);
/* Call after `stopping` is set, whether or not the keeper was started. */
void keeper_stop(struct keeper *k);

#endif
