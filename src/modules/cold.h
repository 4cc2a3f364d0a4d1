/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that need loads: each gets a place, joins running loads or starts new ones, and is told when its wait is
 * over. */
#ifndef MODULES_COLD_H
#define MODULES_COLD_H

#include "modules/gate.h"
#include "modules/load_queue.h"

struct cold {
	pthread_mutex_t *lock; /* of struct modules; guards the rest, except what means guards itself */
	struct load_means *means;
	struct load_queue *queue;
	struct waits waits;
	struct shares shares; /* of the clients of these */
	struct gate gate;
};

void cold_init(
        struct cold *c, pthread_mutex_t *lock, struct load_means *means, struct load_queue *queue, uint64_t seed);

/* Call these without the lock. The first two are modules_load and modules_leave. */
enum load_result cold_load(struct cold *c, struct load_wait *wait, struct module_want *wants, size_t count);
void cold_leave(struct cold *c, struct load_wait *wait);
/* Ends a load: takes it out of flight and gives its result to all wants that wait for it. */
void cold_publish(struct cold *c, struct load *l);
/* Ends waits that are past their deadline and, with `look`, those whose client has gone. Gives free places to requests
 * in line. */
void cold_expire(struct cold *c, int64_t now, bool look);

#endif
