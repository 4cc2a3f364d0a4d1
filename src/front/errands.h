/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of exchanges that wait for somebody else (a bucket, a store, a helper, a reader) in calls that block, so
 * that no worker does. There are as many as such exchanges at a time, which turnstiles bound. */
#ifndef FRONT_ERRANDS_H
#define FRONT_ERRANDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct exchange_private;

struct errands {
	pthread_mutex_t lock;
	void (*run)(struct exchange_private *p); /* until it pauses or ends */
	STAILQ_HEAD(, exchange_private) queue;
	unsigned queued, idle, running; /* threads that have not ended */
	pthread_t *threads;             /* all that were started */
	size_t count;
	uint32_t cap;
	bool stopping;
	pthread_cond_t changed, ended;
};

/* Starts the first thread; the others start as they are needed. False: there is none. */
bool errands_start(struct errands *e, void (*run)(struct exchange_private *p));
/* To be run by a thread of them. For any thread, with any lock. */
void errands_add(struct errands *e, struct exchange_private *p);
/* Ends the threads when nothing is queued. False: not all had ended at that time (clock_now()), and e must stay. */
bool errands_stop(struct errands *e, int64_t until);

#endif
