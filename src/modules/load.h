/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load takes a symbol file from its source to a map. The text is indexed as it arrives. Once it is complete, the map
 * exists; each page is made from the text by whichever thread first misses it.
 */
#ifndef MODULES_LOAD_H
#define MODULES_LOAD_H

#include "base/account.h"
#include "elf/elf_source.h"
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
	struct elf_sources elf;         /* without extractors: no source is of executables */
	struct symbfile_store *store;   /* NULL: none is configured */
	struct block_pool *blocks;      /* for the text of symbol files */
	struct text_store_budget texts; /* of all texts together */
	atomic_uint readers;            /* for intake.c */
	atomic_uint heavy;              /* loads that run and have taken more than load_small_bytes */
	_Atomic(struct load *) needy;   /* the one load that waits for memory while it runs */
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
	enum want_lost lost; /* as in module_want */
	int64_t since;       /* clock_now() when it was asked for */
	/* memory; while it runs, for its loader and who takes its text */
	struct load_means *means;
	int64_t room_until; /* how long to wait for memory; 0: has not waited */
	bool no_room;       /* it was given up because there was none */
	bool heavy;         /* it counts as such */
	bool large;         /* it has been given up for that before: runs when no other such load does */
	struct waiters waiters;
	/* for load_queue.c */
	struct load_wait *owner;   /* the request in whose queue it is or was; NULL: that request is gone */
	STAILQ_ENTRY(load) queued; /* in the owner's queue; later among those that wait to be finished */
	LIST_ENTRY(load) running;  /* among the owner's running loads */
	LIST_ENTRY(load) chain;    /* chain of loads in flight */
	bool transferring;         /* it counts as a transfer */
	struct share *share;       /* of the client for whom it transfers */
	/* outcome */
	struct module *module;
	struct symmap *text;    /* of the symbol file just loaded; a reference */
	bool kept;              /* module was in the cache, and is still current */
	struct failure failure; /* marker and checked are from the start of the load, even if it succeeds */
	unsigned retry_after;
	struct load_costs costs;
};

/* What a load may take before it counts as large. */
static inline uint64_t load_small_bytes(void)
{
	return account_total() / 32;
}

/* A load for this want; NULL if out of memory. */
struct load *load_new(struct load_means *means, const struct module_want *w);
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

/* How the load's map is built: its memory is charged to the account and the cache, and limited. */
struct offmap_options load_options(struct load_means *means, struct load *l);
/* The map took more memory than it may, or than there was. Returns the failure, with its text in l: too large; or, if
 * other loads have the memory, temporary with no_room set. `from`: where the file is, for the log. */
enum failure_class load_lacks_memory(struct loader *r, struct load *l, const char *from);

/* It needs no more memory: another load may wait for some. */
void load_end_need(struct load *l);

/* Asks the sources in order. Sets l->module and l->text, or l->failure. May take as long as the timeouts allow. */
void load_sym(struct loader *r, struct load *l);

#endif
