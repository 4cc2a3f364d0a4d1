/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/wait.h"

void wait_join(struct load_wait *wait, struct module_want *w, struct waiters *waiters)
{
	w->own.wait = wait;
	w->own.pending = true;
	LIST_INSERT_HEAD(waiters, w, own.next);
	wait->pending++;
}

void wait_leave(struct module_want *w)
{
	LIST_REMOVE(w, own.next);
	w->own.pending = false;
	w->own.wait->pending--;
}

void wait_leave_all(struct load_wait *wait)
{
	for (size_t i = 0; i < wait->want_count && wait->pending; i++)
		if (wait->wants[i].own.pending)
			wait_leave(&wait->wants[i]);
}

bool wait_is_late(const struct load_wait *wait, int64_t now, bool look)
{
	return now >= wait->deadline || (look && wait->gone(wait));
}

void waits_begin(struct waits *all, struct load_wait *wait)
{
	wait->waiting = true;
	LIST_INSERT_HEAD(&all->list, wait, next);
	all->count++;
	if (wait->share)
		wait->share->waits++;
}

void waits_end(struct waits *all, struct load_wait *wait, struct wait_list *over)
{
	wait->waiting = false;
	LIST_REMOVE(wait, next);
	all->count--;
	if (wait->share)
		wait->share->waits--;
	LIST_INSERT_HEAD(over, wait, next);
}

void waits_call_done(struct wait_list *over)
{
	struct load_wait *wait;
	while ((wait = LIST_FIRST(over))) {
		LIST_REMOVE(wait, next);
		wait->done(wait);
	}
}
