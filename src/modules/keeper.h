/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that ends waits whose time is over, watches memory, renews leases and tells memcached what it could not be
 * told before. */
#ifndef MODULES_KEEPER_H
#define MODULES_KEEPER_H

#include "modules/cold.h"
#include "modules/lease.h"
#include "modules/markers.h"

struct keeper {
	struct cold *cold;
	struct leases *leases;
	struct markers *markers;
	pthread_cond_t stop; /* with the lock of struct modules: stopping */
	pthread_t thread;
	bool runs;
};

void keeper_init(struct keeper *k, struct cold *cold, struct leases *leases, struct markers *markers);
bool keeper_start(struct keeper *k);
/* Stopping is set. Whether or not it was started. */
void keeper_stop(struct keeper *k);

#endif
