/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that need something loaded: they get a place, join loads that run or start new ones, and are told when their
 * wait is over. */
#ifndef MODULES_COLD_H
#define MODULES_COLD_H

#include "modules/gate.h"
#include "modules/load_queue.h"

struct cold {
	pthread_mutex_t *lock; /* of struct modules; guards the rest, but for what means guards itself */
	struct load_means *means;
	struct load_queue *queue;
	struct waits waits;
	struct gate gate;
};

void cold_init(struct cold *c, pthread_mutex_t *lock, struct load_means *means, struct load_queue *queue);

/* Without the lock. The first two are modules_load and modules_leave. */
enum load_result cold_load(struct cold *c, struct load_wait *wait, struct module_want *wants, size_t count);
void cold_leave(struct cold *c, struct load_wait *wait);
/* The load is done: takes it out of flight and tells everybody who waits for it. */
void cold_publish(struct cold *c, struct load *l);
/* Ends waits whose time is over and, with `look`, those of clients that have gone; lets in whom there is a place for.
 */
void cold_expire(struct cold *c, int64_t now, bool look);

#endif
