/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/held_back.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

static const int64_t interval = 60 * SECOND;

void held_back_note(struct client_key client, uint64_t count, unsigned prefix)
{
	static _Atomic int64_t told;    /* when; 0: never */
	static _Atomic uint64_t untold; /* requests since then */
	char text[CLIENT_KEY_TEXT];
	int64_t now = clock_now(), before = atomic_load(&told);
	metric_add(M_HELD_BACK, (int64_t)count);
	atomic_fetch_add(&untold, count);
	if ((before && now - before < interval) || !atomic_compare_exchange_strong(&told, &before, now))
		return;
	log_event(LOG_LEVEL_WARNING, "client held back",
	        "%s: the last of %llu requests that waited or were refused because their client has many others",
	        client_key_text(text, client, prefix), (unsigned long long)atomic_exchange(&untold, 0));
}
