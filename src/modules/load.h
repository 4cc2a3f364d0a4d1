/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load: what it is of, and the way from the sources of symbol files to a map. The thread that receives a symbol
 * file's text also indexes it: when the text has arrived and is whole, there is the map, and its pages are made of the
 * text by whoever misses them.
 */
#ifndef MODULES_LOAD_H
#define MODULES_LOAD_H

#include "format/symmap.h"
#include "modules/lease.h"
#include "modules/wait.h"
#include "store/bucket.h"

/* What all loads are made with. Set at the start; locks of their own guard what changes. */
struct load_means {
	const struct config *config;
	struct page_cache *cache;
	struct failures *failures;
	struct mc_servers *servers;
	struct bucket_sources *sources;
	struct symbfile_store *store; /* NULL: none is configured */
	struct block_pool *blocks;    /* of the text of symbol files */
	struct symstore_budget texts; /* of all of them */
	atomic_bool stopping;         /* set under the lock; what runs ends soon */
};

/* A load in flight or queued. Under the lock of struct modules, but for what only its loader touches. */
struct load {
	struct lease lease; /* first: load_of_lease; its hash is the module's */
	struct module_hash spelling;
	char *name, *id;     /* end in NUL */
	enum want_kind kind; /* as in the want, and what follows */
	struct file_id file_id;
	struct build_id_question question;
	size_t name_len, id_len;
	unsigned lost; /* why it is loaded: see module_want */
	struct waiters waiters;
	/* of load_queue.c */
	struct load_wait *owner;   /* whose queue it is or was in; NULL: gone */
	STAILQ_ENTRY(load) queued; /* of the owner; then of those that wait to be finished */
	LIST_ENTRY(load) running;  /* of the owner */
	LIST_ENTRY(load) chain;    /* of loads in flight */
	bool transferring;         /* it has the place of a transfer */
	/* outcome */
	struct module *module;
	struct symmap *text;    /* of a symbol file just loaded; a reference */
	bool kept;              /* it is the one that was in the cache, and still right */
	uint64_t module_bytes;  /* that it has in memory, its text aside */
	struct failure failure; /* marker and checked: as they were at the start, whatever came of it */
	unsigned retry_after;
	struct load_costs costs;
};

/* Bytes that texts and maps which are not finished may have together: above them no further load begins, and text is
 * compressed. A request that waits for its load is worse than a page that has to come from memcached again. */
static inline uint64_t unfinished_max(const struct config *c)
{
	return c->cache_size / 8 * 7;
}

/* For what the want asks; NULL: no memory. */
struct load *load_new(const struct module_want *w);
void load_free(struct load *l);
static inline struct load *load_of_lease(struct lease *l)
{
	return (struct load *)l;
}

/* What one loader thread has. */
struct loader {
	struct load_means *means;
	struct mc_client *memcached;
	struct bucket_client *bucket;
	struct store_client *store; /* NULL: none is configured */
};

/* How maps are built: their memory is charged to the cache, and has a bound. */
struct offmap_options load_options(const struct load_means *means);
extern const char load_too_large[]; /* for the log, when a map is above it */

/* Asks the sources in order: sets l->module and l->text, or l->failure. May take as long as the timeouts allow. */
void load_sym(struct loader *r, struct load *l);

#endif
