/* SPDX-License-Identifier: Apache-2.0 */
/* Large work that threads which are idle may help with. */
#ifndef BASE_HELP_H
#define BASE_HELP_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/yield.h"

struct help_work {
	/* Does a share of the work, on a thread of the helper's, beside others that do the same. Returns when nothing
	 * is left, or soon after yield_now(y) was false: others need the thread. */
	void (*run)(struct help_work *w, const struct yield *y);
	/* The helper's own. */
	LIST_ENTRY(help_work) next;
	unsigned helpers;
	bool is_listed;
};

struct help {
	/* From now on until take_back returns run may be called. take_back waits for those that still run. NULL: nobody
	 * helps. */
	void (*offer)(void *arg, struct help_work *w);
	void (*take_back)(void *arg, struct help_work *w);
	void *arg;
};

#endif
