/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "map/memory.h"

enum { STEP = 1 << 20 }; /* smallest change that is charged, in bytes */

static bool take(const struct offmap_options *o, enum account_kind kind, uint64_t has, uint64_t bytes)
{
	if (o->take)
		return o->take(o->take_arg, kind, has, bytes);
	account_add(kind, (int64_t)bytes);
	return true;
}

bool offmap_charge(const struct offmap_options *o, enum account_kind kind, uint64_t has, int64_t bytes)
{
	if (bytes <= 0)
		account_add(kind, bytes);
	else if (!take(o, kind, has, (uint64_t)bytes))
		return false;
	if (o->charge)
		o->charge(o->charge_arg, bytes);
	return true;
}

void offmap_memory_init(struct offmap_memory *m, const struct offmap_options *options)
{
	m->options = *options;
	m->max = options->memory_max ? options->memory_max : UINT64_MAX;
	atomic_init(&m->charged, 0);
}

void offmap_memory_release(struct offmap_memory *m)
{
	uint64_t charged = atomic_exchange(&m->charged, 0);
	if (charged)
		offmap_charge(&m->options, ACCOUNT_RECORDS, 0, -(int64_t)charged);
}

bool offmap_memory_set(struct offmap_memory *m, uint64_t bytes)
{
	uint64_t charged = atomic_load_explicit(&m->charged, memory_order_relaxed);
	bool step = bytes > charged ? bytes - charged >= STEP : charged - bytes >= STEP;
	if (bytes > m->max)
		return false;
	/* a thread that loses this race leaves it to the next call */
	if (!step || !atomic_compare_exchange_strong(&m->charged, &charged, bytes))
		return true;
	if (offmap_charge(&m->options, ACCOUNT_RECORDS, charged, (int64_t)(bytes - charged)))
		return true;
	atomic_store(&m->charged, charged);
	return false;
}
