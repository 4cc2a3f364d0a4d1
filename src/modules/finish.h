/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After the reply. The root of a map goes to memcached at once, and its pages as they are made. When the module
 * is asked for again, or nothing else is loaded for a while, threads in the background make and store the rest and free
 * its records. If memcached takes the map, pages stay in the cache only while there is room; otherwise all of them
 * stay: raw up to a quarter of the cache, the rest compressed.
 */
#ifndef MODULES_FINISH_H
#define MODULES_FINISH_H

#include "modules/loads.h"

enum { FINISHERS = 2 };

struct finishers {
	struct loads *loads;          /* constant */
	struct store_options options; /* constant */
	pthread_mutex_t lock;         /* guards the rest */
	pthread_cond_t added;         /* signalled when a job is added, or at the end */
	struct finish_queue {
		STAILQ_HEAD(, finish_job) jobs;
		unsigned count; /* in the list, or in hand */
	} maps, pages;          /* pages: to be sent to memcached, by a thread of its own */
	bool ended; /* no load comes any more; until then the last loads are waited for, even when stopping */
	pthread_t threads[FINISHERS + 1];
	unsigned count;
};

void finishers_init(struct finishers *all, struct loads *loads);
bool finishers_start(struct finishers *all);
/* Call after `stopping` is set and the loaders have ended. Jobs that still wait are given up quickly. */
void finishers_stop(struct finishers *all);
/* Call when no thread looks for what can be finished any more. */
void finishers_release(struct finishers *all);

/* Ends a load that is published: announces its root, gives its lease back and frees it. */
void finish_load(struct finishers *all, struct load *l, struct mc_client *memcached);
/* The module was asked for again: it is finished if it is not. */
void finish_module(struct finishers *all, struct module *m);
/* Finishes a module if nothing was loaded for finish_after; and when it is done the next, as long as that holds. To be
 * called once a second. */
void finish_when_idle(struct finishers *all, int64_t now);
/* Sends a page that was made to memcached, if its root is there; later, and perhaps not at all. */
void finish_page(struct finishers *all, struct module *m, uint32_t number, struct page *p);

#endif
