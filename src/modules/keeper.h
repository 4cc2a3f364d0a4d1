/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads. One ends waits at their deadlines and watches memory. The other may have to wait for memcached: it
 * renews leases and sends the invalidations that memcached missed. */
#ifndef MODULES_KEEPER_H
#define MODULES_KEEPER_H

#include "modules/cold.h"
#include "modules/lease.h"
#include "modules/load_finish.h"
#include "modules/markers.h"

struct keeper {
	struct cold *cold;
	struct leases *leases;
	struct markers *markers;
	struct finishers *finishers;
	pthread_cond_t stop; /* signalled when stopping; goes with the lock of struct modules */
	pthread_t threads[2];
	unsigned running;
};

void keeper_init(struct keeper *k, struct cold *cold, struct leases *leases, struct markers *markers,
        struct finishers *finishers);
bool keeper_start(struct keeper *k);
/* Call after `stopping` is set, whether or not the keeper was started. Sends memcached the invalidations a last time,
 * and logs it if some remain. */
void keeper_stop(struct keeper *k);

#endif
