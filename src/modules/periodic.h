/* SPDX-License-Identifier: Apache-2.0 */
/* What is done every now and then, by three threads. One ends waits at their deadlines and watches memory. One may have
 * to wait for memcached: it renews leases and sends the invalidations that memcached missed. One sees to it that
 * threads in the background get their share. */
#ifndef MODULES_PERIODIC_H
#define MODULES_PERIODIC_H

#include "modules/finish.h"

enum { PERIODIC_THREADS = 3 };

struct periodic {
	struct loads *loads; /* constant, as the next */
	struct finishers *finishers;
	pthread_mutex_t lock;       /* guards the rest */
	struct module_hash *missed; /* invalidations that memcached has not taken */
	uint32_t missed_count, missed_cap;
	unsigned dropped;    /* since the log last told of them */
	pthread_cond_t stop; /* signalled when stopping */
	atomic_bool ended;   /* no thread is left in the background */
	pthread_t threads[PERIODIC_THREADS];
	unsigned running;
};

void periodic_init(struct periodic *p, struct loads *loads, struct finishers *finishers);
bool periodic_start(struct periodic *p);
/* Call after `stopping` is set and the threads in the background have ended, which need their share until then; whether
 * or not it was started. Sends memcached the invalidations a last time, and logs it if some remain. */
void periodic_stop(struct periodic *p);
/* Keeps an invalidation that memcached did not take, to be sent later. If there are 10,000, or no memory, it is
 * dropped: other processes may then use the old module for up to root_max_age. */
void periodic_invalidate(struct periodic *p, const struct module_hash *hash);

#endif
