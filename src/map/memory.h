/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a map takes while it is built: limited, charged to the account, and reported to a callback. Private to
 * the builders of maps. */
#ifndef MAP_MEMORY_H
#define MAP_MEMORY_H

#include "base/account.h"
#include "map/offmap.h"

struct offmap_options {
	bool nearest;        /* lookup = nearest: the nearest symbol at or below answers, whatever its size */
	uint64_t memory_max; /* most bytes held while the map is made, else ERR_TOO_LARGE; 0: no limit */
	/* Called, on any thread, with each change in the bytes held; in the end the changes add up to 0. May be NULL.
	 */
	void (*charge)(void *arg, int64_t bytes);
	void *charge_arg;
	/* Takes bytes from the account, beside those that it `has`; false: there is no room, ERR_TOO_LARGE. NULL: goes
	 * on whatever the account says. */
	bool (*take)(void *arg, enum account_kind kind, uint64_t has, uint64_t bytes);
	void *take_arg;
};

/* Charges a change in what is held, to the account and by `charge`; more only if there is room. `has`: what is charged
 * so far. */
static inline bool offmap_charge(const struct offmap_options *o, enum account_kind kind, uint64_t has, int64_t bytes)
{
	if (bytes <= 0 || !o->take)
		account_add(kind, bytes);
	else if (!o->take(o->take_arg, kind, has, (uint64_t)bytes))
		return false;
	if (o->charge)
		o->charge(o->charge_arg, bytes);
	return true;
}

#endif
