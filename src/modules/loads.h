/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All loads of the process under one mutex: which requests wait for them and which may begin some, whose turn it is,
 * and the leases. Requests that load pass a turnstile (`cold_requests`), and their loads take turns for
 * `bucket_parallel` transfers: by client, and of each client its requests, so that a request with one module does not
 * wait behind a thousand modules of another. None begins while memory is full.
 *
 * A request holds the modules that were loaded for it until it is answered. If that fills the memory, those that began
 * last give back what they hold, and stand in line again: otherwise all would wait for each other. Who began first goes
 * on, so each is answered in the end.
 */
#ifndef MODULES_LOADS_H
#define MODULES_LOADS_H

#include <pthread.h>

#include "modules/load.h"

enum { LOAD_CHAINS = 1024 };

TAILQ_HEAD(wait_list, load_wait);

struct loads {
	pthread_mutex_t lock; /* taken only in loads.c. Guards all that follows, except what is constant, and the lives
	                         of modules. Never held across network or disk access */
	struct load_context *context; /* constant; guards itself */
	uint64_t seed;                /* constant; for chains, so that clients cannot choose what shares one */
	/* requests */
	struct turnstile places;      /* of those that load; it has no places while memory is full */
	struct wait_list waits, over; /* over: have ended, but were not told */
	struct wait_list by_age;      /* those that have begun to load; the one that began last comes last */
	unsigned gave_back;           /* so many have given back what they held */
	bool memory_full;             /* more than `memory` was resident when it was looked at last */
	uint64_t began;               /* counts requests that have begun to load */
	int64_t stuck_since; /* clock_now() when the only request that holds modules could not go on; 0: it can */
	/* loads */
	LIST_HEAD(, load) chains[LOAD_CHAINS]; /* in flight */
	LIST_HEAD(, load_wait) queues;         /* requests that have loads queued */
	unsigned queue_count;
	struct turns transfers;         /* each request in `queues` has a turn */
	unsigned unfinished;            /* loads taken but not finished */
	int64_t last_end;               /* clock_now() when one was finished */
	_Atomic uint64_t invalidations; /* counted in this process; read without the lock, too */
	/* the threads that run them, for load.c: how many (for the last that was started), and the first, if it is
	 * `started`; each joins the one that it has started */
	unsigned loaders;
	bool started;
	pthread_t first_loader;
	pthread_cond_t changed; /* there may be a load to take, or the process is stopping */
	/* leases */
	TAILQ_HEAD(, load) leased;    /* the one that was renewed last comes last */
	TAILQ_HEAD(, load) elsewhere; /* other hosts have their leases: they take no thread. In the order of look_at */
	unsigned elsewhere_count;
};

/* Twice bucket_parallel, so that other hosts' loads can be looked at while bucket_parallel of them transfer. */
static inline unsigned loaders_max(const struct config *c)
{
	return 2 * (unsigned)c->bucket_parallel;
}

void loads_init(struct loads *ls, struct load_context *context, uint64_t seed);
/* Call when no thread uses it any more. Drops the loads that wait for other hosts. */
void loads_release(struct loads *ls);

/* A load for this want; NULL if out of memory. */
struct load *load_new(struct load_context *context, const struct module_want *w);

/* These are modules_load and modules_leave. */
enum load_result loads_get(struct loads *ls, struct load_wait *wait, struct module_want *wants, size_t count);
void loads_leave(struct loads *ls, struct load_wait *wait);
/* Whether a load would begin at once, for a client that holds nothing. */
bool loads_begin_at_once(struct loads *ls);
/* Ends waits that are past their deadline and, with `look`, those whose client has gone; lets requests give back what
 * they hold if others lack memory; gives free places to requests in line; and lets loads begin for which there is
 * memory now. To be called ten times a second. */
void loads_tick(struct loads *ls, int64_t now, bool look);
/* Records whether more is resident than may be. Returns whether requests are refused for that: now, or since the last
 * call. *idle: no request waits. */
bool loads_note_memory(struct loads *ls, bool full, bool *idle);
/* How many requests wait, and for what: memory, places to load, transfers; a larger share of these than their client
 * may have while others wait; or a module that another host loads. Sets the gauges of that. Returns their sum. */
uint64_t loads_note_held_up(struct loads *ls);

/* Waits for the next load: one to look at, or, if it has a share, to run. NULL: the process is stopping. */
struct load *loads_take(struct loads *ls);
/* Returns a load that was taken but not done. `elsewhere`: another host has its lease; otherwise it runs here when its
 * turn comes, after a lack of memory when no other load lacks it. */
void loads_put_back(struct loads *ls, struct load *l, bool elsewhere);
/* Ends a load: it is in flight no more, the caches have its result, and so has every want that waits for it. It still
 * has to be finished. */
void loads_publish(struct loads *ls, struct load *l);
/* Frees a load that is published and finished. */
void loads_finished(struct loads *ls, struct load *l);
/* Call after `stopping` is set: those that wait or run end soon. */
void loads_cancel(struct loads *ls);
/* Whether no load is unfinished, and none has been for `finish_after`. */
bool loads_are_idle(struct loads *ls, int64_t now);

/* Moves a module on to FINISHING, or back to LOADED if nobody can finish it; false: it is elsewhere in its life. */
bool loads_finishing(struct loads *ls, struct module *m, bool begins);
/* From FINISHING to where all its pages are: STORED or WHOLE. Frees its records. */
void loads_made_whole(struct loads *ls, struct module *m, enum life where);
/* Whether other processes may have what the load gave: the module was not invalidated, its lease not lost. */
bool loads_may_share(struct loads *ls, const struct load *l);

/* A lease that was taken is held, or given back. */
void lease_hold(struct loads *ls, struct load *l);
/* If c is NULL, the lease runs out by itself. */
void lease_give_back(struct loads *ls, struct load *l, struct mc_client *c);
void leases_renew(struct loads *ls, struct mc_client *c);

/* The module was invalidated: the caches forget it, only requests that already wait get the results of its loads, and
 * its leases are not renewed. */
void loads_forget(struct loads *ls, const struct module_hash *hash);
/* Takes a reference to a module that came from memcached, and returns one to the module to use: this one, or one that
 * another request has cached or loaded meanwhile. Caches it, unless any module was invalidated since `invalidations`,
 * as it may have been this one. */
struct module *loads_cache_stored(struct loads *ls, struct module *module, uint64_t invalidations);

#endif
