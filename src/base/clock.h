/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in nanoseconds. The wall clock is used for log lines only. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

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

#endif
