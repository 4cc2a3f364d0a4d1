/* SPDX-License-Identifier: Apache-2.0 */
/* One request's wait for its loads. Whoever calls these functions holds the lock of struct modules, but for
 * waits_call_done. */
#ifndef MODULES_WAIT_H
#define MODULES_WAIT_H

#include "modules/want.h"

struct load;

struct load_wait {
	void (*done)(struct load_wait *w); /* the caller's; called once for each modules_load that returned LOAD_WAIT,
	                                      on another thread */
	bool (*gone)(const struct load_wait *w); /* the caller's: nobody is there any more who could be answered. Asked
	                                            once a second while it waits, on another thread; must not wait */
	int64_t deadline;                        /* the caller's; clock_now() */
	/* out, when done */
	bool timed_out; /* the deadline passed; what was loaded until then is there */
	bool refused;   /* too many requests were loading, or memory was full, for too long */
	/* not the caller's */
	struct module_want *wants;
	size_t want_count;
	size_t pending; /* wants that wait for a load */
	size_t held;    /* that hold what was just loaded */
	bool waiting;
	LIST_ENTRY(load_wait) next; /* of all that wait, or of those whose wait is over */
	struct {
		bool placed; /* has a place to load */
		bool lined;  /* waits for one */
		int64_t deadline;
		TAILQ_ENTRY(load_wait) next;
	} gate;
	struct {
		STAILQ_HEAD(, load) queued; /* loads that it owns */
		LIST_HEAD(, load) running;
		unsigned running_count;
		bool in_turn; /* it has loads queued */
		TAILQ_ENTRY(load_wait) next;
	} queue;
};

LIST_HEAD(wait_list, load_wait);
LIST_HEAD(waiters, module_want); /* of one load */

/* All that wait. */
struct waits {
	struct wait_list list;
	uint64_t count;
};

/* The want waits for a load, and the request until it has no such want. */
void wait_join(struct load_wait *wait, struct module_want *w, struct waiters *waiters);
void wait_leave(struct module_want *w);
void wait_leave_all(struct load_wait *wait);
/* Whether it need not wait any more: its time is over or, when that is looked at, its client has gone. */
bool wait_is_late(const struct load_wait *wait, int64_t now, bool look);

void waits_begin(struct waits *all, struct load_wait *wait);
/* Over: its done is to be called. */
void waits_end(struct waits *all, struct load_wait *wait, struct wait_list *over);
/* Without the lock. A wait that is told may be gone at once. */
void waits_call_done(struct wait_list *over);

#endif
