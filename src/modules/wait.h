/* SPDX-License-Identifier: Apache-2.0 */
/* A request's wait for its loads. Call these functions with the lock of struct modules held, except waits_call_done. */
#ifndef MODULES_WAIT_H
#define MODULES_WAIT_H

#include "modules/shares.h"
#include "modules/want.h"

struct load;

struct load_wait {
	void (*done)(struct load_wait *w); /* set by the caller; called on another thread, once for each modules_load
	                                      that returned LOAD_WAIT */
	bool (*gone)(const struct load_wait *w); /* set by the caller: whether the client has gone. Called on another
	                                            thread once a second during the wait; must not block */
	int64_t deadline;                        /* set by the caller; clock_now() */
	struct client_key client;                /* set by the caller: whose request it is */
	/* out, when done */
	bool timed_out; /* the deadline passed; modules loaded until then are set */
	bool refused;   /* too many requests were loading, or memory was full, for too long */
	/* private */
	struct module_want *wants;
	size_t want_count;
	size_t pending; /* wants that wait for a load */
	size_t held;    /* wants that hold a module just loaded */
	bool waiting;
	struct share *share;        /* its client's, from the first load that it needs until modules_leave */
	LIST_ENTRY(load_wait) next; /* in the list of all waits, or of those that are over */
	struct {
		bool placed; /* has a place to load */
		bool lined;  /* stands in line for one */
		int64_t deadline;
		TAILQ_ENTRY(load_wait) next;
	} gate;
	struct {
		STAILQ_HEAD(, load) queued; /* loads that this request owns */
		LIST_HEAD(, load) running;
		unsigned running_count;
		bool in_turn; /* it has loads queued */
		TAILQ_ENTRY(load_wait) next;
	} queue;
};

LIST_HEAD(wait_list, load_wait);
LIST_HEAD(waiters, module_want); /* the wants that wait for one load */

struct waits {
	struct wait_list list;
	uint64_t count;
};

/* Makes the want wait for a load. The request waits until none of its wants does. */
void wait_join(struct load_wait *wait, struct module_want *w, struct waiters *waiters);
void wait_leave(struct module_want *w);
void wait_leave_all(struct load_wait *wait);
/* Whether the wait should end: its deadline has passed or, if `look`, its client has gone. */
bool wait_is_late(const struct load_wait *wait, int64_t now, bool look);

void waits_begin(struct waits *all, struct load_wait *wait);
/* Ends a wait; moves it to `over` for waits_call_done. */
void waits_end(struct waits *all, struct load_wait *wait, struct wait_list *over);
/* Calls `done` for each. Call without the lock. Each wait may be freed as soon as its `done` is called. */
void waits_call_done(struct wait_list *over);

#endif
