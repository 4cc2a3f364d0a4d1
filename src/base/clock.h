/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in nanoseconds, and waiting for it. The wall clock is used for log lines only. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define MS ((int64_t)1000000)
#define SECOND ((int64_t)1000000000)

static inline int64_t clock_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

/* Makes a condition variable for clock_wait. */
static inline void clock_condition_init(pthread_cond_t *c)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(c, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* Waits for the condition until a given time of clock_now(); false when that time has come. */
static inline bool clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until)
{
	const struct timespec t = {.tv_sec = until / SECOND, .tv_nsec = until % SECOND};
	return pthread_cond_timedwait(c, lock, &t) == 0 || clock_now() < until;
}

#endif
