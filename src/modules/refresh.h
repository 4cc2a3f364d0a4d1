/* SPDX-License-Identifier: Apache-2.0 */
/* Loads modules once more while requests still use the old ones: of which nobody knows whether they still hold, since
 * memcached has lost its memory. By a thread of its own, which is one client among others. */
#ifndef MODULES_REFRESH_H
#define MODULES_REFRESH_H

#include "modules/loads.h"

enum { REFRESH_WAITING_MAX = 4096, REFRESH_AT_ONCE = 32 };

struct refresh; /* of one module */
struct refresher {
	struct loads *loads;  /* constant */
	pthread_mutex_t lock; /* guards the rest. Never taken with another lock, never held across network or disk
	                         access */
	pthread_cond_t change;
	TAILQ_HEAD(, refresh) waiting;
	unsigned count; /* of these, and of those that are being loaded */
	bool ended;
	bool started;
	pthread_t thread;
};

void refresher_init(struct refresher *r, struct loads *loads);
bool refresher_start(struct refresher *r);
/* Call after `stopping` is set, and before the loaders end. */
void refresher_stop(struct refresher *r);
/* The want is FOUND, and has seen another marker than its module has: the module is loaded once more, unless that is
 * under way already. What comes of it takes the old one's place; after a temporary failure the old one stays. False:
 * too many wait, or there is no memory. */
bool refresh_later(struct refresher *r, const struct module_want *w);

#endif
