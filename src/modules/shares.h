/* SPDX-License-Identifier: Apache-2.0 */
/* What each client holds of what all clients share, so that none takes everything. Call these functions with the lock
 * of struct modules held. */
#ifndef MODULES_SHARES_H
#define MODULES_SHARES_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/client_key.h"

/* A client that has requests for loads, or loads that run. */
struct share {
	struct client_key client;
	uint64_t users; /* requests and loads that refer to it */
	/* held: places to load, places in the line for them, waits, transfers; and requests that have loads queued */
	uint64_t places, lined, waits, transfers, queues;
	uint64_t turn; /* when it last had a turn; 0: never */
	LIST_ENTRY(share) chain;
};

enum { SHARE_CHAINS = 256 };
struct shares {
	uint64_t seed; /* so that clients cannot choose addresses that share a chain */
	LIST_HEAD(, share) chains[SHARE_CHAINS];
};

/* The client's share, with one user more; NULL if out of memory. */
struct share *shares_get(struct shares *all, struct client_key client);
/* One user less; NULL is fine. Frees it after the last one. */
void share_put(struct share *s);

/* Whether a client that holds `held` may have one more of `most`, of which `used` are in use by all: the last quarter
 * is for clients that hold none, and while others wait nobody gets more than half. */
bool share_allows(uint64_t held, uint64_t used, uint64_t most, bool others_wait);

#endif
