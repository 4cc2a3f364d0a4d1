/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "map/memory.h"

enum { STEP = 1 << 20 }; /* smallest change that is reported, in bytes */

void offmap_memory_init(struct offmap_memory *m, const struct offmap_options *options)
{
	m->max = options->memory_max ? options->memory_max : UINT64_MAX;
	m->charge = options->charge;
	m->arg = options->charge_arg;
	atomic_init(&m->charged, 0);
}

void offmap_memory_release(struct offmap_memory *m)
{
	uint64_t charged = atomic_exchange(&m->charged, 0);
	if (charged)
		m->charge(m->arg, -(int64_t)charged);
}

bool offmap_memory_set(struct offmap_memory *m, uint64_t bytes)
{
	uint64_t charged = atomic_load_explicit(&m->charged, memory_order_relaxed);
	bool step = bytes > charged ? bytes - charged >= STEP : charged - bytes >= STEP;
	/* a thread that loses this race leaves it to the next call */
	if (step && m->charge && atomic_compare_exchange_strong(&m->charged, &charged, bytes))
		m->charge(m->arg, (int64_t)(bytes - charged));
	return bytes <= m->max;
}
