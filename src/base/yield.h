/* SPDX-License-Identifier: Apache-2.0 */
/* What long work calls now and then, between two steps, so that others get their turn. */
#ifndef BASE_YIELD_H
#define BASE_YIELD_H

#include <stdbool.h>
#include <stddef.h>

/* call may take long, and return on another thread; so no lock is held. Cheap if nobody waits. NULL: do nothing. */
struct yield {
	bool (*call)(void *arg); /* false: nobody needs the work any more */
	void *arg;
};

static inline bool yield_now(const struct yield *y)
{
	return !y || !y->call || y->call(y->arg);
}

#endif
