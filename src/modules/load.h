/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load takes a symbol file from its source to a map. The text is indexed as it arrives. Once it is complete, the map
 * exists; each page is made from the text by whichever thread first misses it.
 */
#ifndef MODULES_LOAD_H
#define MODULES_LOAD_H

#include "modules/lease.h"
#include "modules/wait.h"
#include "objects/bucket.h"
#include "sym/symmap.h"

/* What all loads share. Set at the start; what changes later has locks of its own. */
struct load_means {
	const struct config *config;
	struct page_cache *cache;
	struct failures *failures;
	struct mc_servers *servers;
	struct bucket_sources *sources;
	struct symbfile_store *store;   /* NULL: none is configured */
	struct block_pool *blocks;      /* for the text of symbol files */
	struct text_store_budget texts; /* of all texts together */
	atomic_uint readers;            /* for intake.c */
	atomic_bool stopping;           /* set under the lock; running loads then end soon */
};

/* A load, queued or running. Guarded by the lock of struct modules, except what only its loader touches. */
struct load {
	struct lease lease; /* first member, for load_of_lease; its hash is the module's */
	struct module_hash spelling;
	char *name, *id;     /* NUL-terminated */
	enum want_kind kind; /* this and the next two are as in the want */
	struct file_id file_id;
	struct build_id_question question;
	size_t name_len, id_len;
	unsigned lost; /* as in module_want */
	int64_t since; /* clock_now() when it was asked for */
	struct waiters waiters;
	/* for load_queue.c */
	struct load_wait *owner;   /* the request in whose queue it is or was; NULL: that request is gone */
	STAILQ_ENTRY(load) queued; /* in the owner's queue; later among those that wait to be finished */
	LIST_ENTRY(load) running;  /* among the owner's running loads */
	LIST_ENTRY(load) chain;    /* chain of loads in flight */
	bool transferring;         /* it counts as a transfer */
	/* outcome */
	struct module *module;
	struct symmap *text;    /* of the symbol file just loaded; a reference */
	bool kept;              /* module was in the cache, and is still current */
	uint64_t module_bytes;  /* of module in memory, without its text */
	struct failure failure; /* marker and checked are from the start of the load, even if it succeeds */
	unsigned retry_after;
	struct load_costs costs;
};

/* Bytes that the texts and maps of unfinished loads may take together. Above this, no new load starts, and text is
 * compressed: evicting a page that memcached can send again is cheaper than making a request wait for its load. */
static inline uint64_t unfinished_max(const struct config *c)
{
	return c->cache_size / 8 * 7;
}

/* A load for this want; NULL if out of memory. */
struct load *load_new(const struct module_want *w);
void load_free(struct load *l);
static inline struct load *load_of_lease(struct lease *l)
{
	return (struct load *)l;
}

/* What each loader thread owns. */
struct loader {
	struct load_means *means;
	struct mc_client *memcached;
	struct bucket_client *bucket;
	struct store_client *store; /* NULL: none is configured */
};

/* How maps are built: their memory is charged to the cache, and limited. */
struct offmap_options load_options(const struct load_means *means);
extern const char load_too_large[]; /* the failure text for a map above that limit */

/* Asks the sources in order. Sets l->module and l->text, or l->failure. May take as long as the timeouts allow. */
void load_sym(struct loader *r, struct load *l);

#endif
