/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "map/memory.h"

bool offmap_charge(const struct offmap_options *o, enum account_kind kind, uint64_t has, int64_t bytes)
{
	if (bytes <= 0 || !o->take)
		account_add(kind, bytes);
	else if (!o->take(o->take_arg, kind, has, (uint64_t)bytes))
		return false;
	if (o->charge)
		o->charge(o->charge_arg, bytes);
	return true;
}
