/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that nobody waits for, because its holder may lose its core to a load, for tens of milliseconds. It guards
 * what a request can do without. Starts zeroed. */
#ifndef BASE_TRY_LOCK_H
#define BASE_TRY_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

struct try_lock {
	atomic_bool held;
};

/* False: another thread holds it. */
static inline bool try_lock(struct try_lock *l)
{
	return !atomic_exchange_explicit(&l->held, true, memory_order_acquire);
}

static inline void try_unlock(struct try_lock *l)
{
	atomic_store_explicit(&l->held, false, memory_order_release);
}

#endif
