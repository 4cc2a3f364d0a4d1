/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a place where objects are written: S3's, or a file server's. All hosts that write there count by it,
 * whatever their own say. Times are nanoseconds since 1970. Private to objects. */
#ifndef OBJECTS_PLACE_CLOCK_H
#define OBJECTS_PLACE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"

/* How far it is ahead of this machine's, as far as is known; shared by all threads. 0 at first. */
struct place_clock {
	atomic_llong ahead;
};

/* What every kind of place and source begins with. */
struct bucket_place {
	char *name; /* its URL without secrets */
	struct place_clock clock;
};

/* By this machine's own clock. */
static inline int64_t machine_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

static inline int64_t place_now(const struct place_clock *c)
{
	return machine_now() + atomic_load(&c->ahead);
}

/* S3 tells whole seconds, and a busy server may look at its clock some seconds late. */
static const int64_t date_unit = SECOND, date_late = 2 * SECOND;

/* The place said between `sent` and `now` of this machine that it is `told` there, which may be up to `unit` too early,
 * and now and then up to `late` more. What is known changes only if it does not agree with that, and then as little as
 * may be: so it stays the same from one upload to the next, it is 0 for a machine whose clock agrees, and it follows a
 * clock that is set anew. */
static inline void place_clock_hear(
        struct place_clock *c, int64_t sent, int64_t now, int64_t told, int64_t unit, int64_t late)
{
	int64_t least = told - now, most = told + unit - sent, known = atomic_load(&c->ahead);
	if (known < least || known > most + late)
		atomic_store(&c->ahead, known < least ? least : most);
}

#endif
