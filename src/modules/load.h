/* SPDX-License-Identifier: Apache-2.0 */
/* Loading modules: what modules.c, load_queue.c (whose turn it is), load.c (lease, transfer, index) and load_finish.c
 * share. */
#ifndef LOAD_H
#define LOAD_H

#include <pthread.h>

#include "format/symmap.h"
#include "modules/modules.h"
#include "store/bucket.h"
#include "store/page_memcached.h"
#include "store/symbfile_store.h"

enum { FINISHERS = 2, LOAD_CHAINS = 1024, BLOCKS_KEPT = 32 << 20, TEXTS_MAX = 256 << 20 };

/* A load in flight or queued. Under modules.lock, but for what only its loader touches. */
struct load {
	struct module_hash hash, spelling;
	char *name, *id;     /* end in NUL */
	enum want_kind kind; /* as in the want, and what follows */
	struct file_id file_id;
	struct build_id_question question;
	size_t name_len, id_len;
	struct module_want *waiters;
	struct load_wait *owner;           /* whose queue it is or was in; NULL: gone */
	struct load *own_next, **own_link; /* queued or running, of the owner; the link while it runs */
	struct load *next, **link;         /* chain of loads in flight */
	bool stale;                        /* invalidated while it ran: for its waiters only */
	unsigned lost;                     /* why it is loaded: see module_want */
	bool transferring;                 /* it has the place of a transfer */
	bool leased;                       /* its loader's own */
	/* while another host has the lease */
	int64_t look_at, lease_until; /* when to look next, and until when to wait; 0: nobody had it */
	struct load *elsewhere_next;
	/* the lease, renewed by the keeper */
	struct load *lease_next, **lease_link;
	uint64_t token;
	bool lease_lost;
	/* outcome */
	struct module *module;
	struct symmap *text;   /* of a symbol file just loaded; a reference */
	bool kept;             /* it is the one that was in the cache, and still right */
	uint64_t module_bytes; /* that it has in memory, its text aside */
	enum failure_class failure;
	char why[FAILURE_WHY_SIZE];  /* of a corrupt one */
	struct symbfile_alias alias; /* of FAILURE_ALIAS */
	unsigned retry_after;
	uint64_t marker;
	int64_t marker_seen; /* when it was read; the start of the load */
	uint64_t download_bytes;
	int64_t download_time, parse_time, fail_time, parse_fail_time;
};

struct modules {
	const struct config *config;
	struct page_cache *cache;
	struct failures *failures;
	struct mc_servers *servers;
	struct bucket_sources *sources;
	struct symbfile_store *store; /* NULL: none is configured */
	struct block_pool *blocks;    /* of the text of symbol files */
	struct symstore_budget texts; /* of all of them */
	uint64_t seed;                /* of the chains, so that nobody can choose modules that fall into one */
	pthread_key_t client_key;
	pthread_mutex_t lock;   /* guards what follows; no network or disk is touched under it */
	pthread_cond_t queued;  /* a load was queued, or stopping */
	pthread_cond_t keeping; /* stopping */
	pthread_cond_t loaded;  /* a load waits to be finished, or stopping */
	struct load *loads[LOAD_CHAINS];
	struct load_wait *turns, **turns_end; /* who has loads queued */
	struct load *leases;
	struct load *elsewhere, **elsewhere_end; /* that other hosts have the leases of; who is to be looked at first */
	unsigned elsewhere_count;
	unsigned transfers;                    /* loads that have the place of one */
	unsigned unfinished;                   /* loads that are taken, until they are finished */
	struct load *finishes, **finishes_end; /* that wait to be finished */
	uint64_t finishing_bytes;              /* of them and those that are being finished, their texts aside */
	struct marker *markers;                /* that memcached could not be told yet */
	unsigned marker_count;
	_Atomic uint64_t invalidations; /* in this process; read without the lock, too */
	struct load_wait *waits;
	uint64_t wait_count;
	struct load_wait *gate, **gate_end; /* who waits for a place to load at all */
	uint64_t cold_running, gated;
	uint64_t memory_max; /* resident bytes */
	bool memory_full;    /* there are more: nobody is let in who must wait for a load */
	bool stopping;
	atomic_bool cancel;
	pthread_t *loaders, finishers[FINISHERS];
	unsigned loader_count, finisher_count;
	pthread_t keeper;
	bool keeper_runs;
};

/* What one loader thread has. */
struct loader {
	struct modules *modules;
	struct mc_client *memcached;
	struct bucket_client *bucket;
	struct store_client *store; /* NULL: none is configured */
};

/* The threads: loaders take what is queued; the keeper ends waits whose time is over and renews leases. */
bool loads_start(struct modules *m);
void loads_stop(struct modules *m);

/* One that is timed by CLOCK_MONOTONIC. */
void init_condition(pthread_cond_t *c);
void load_free(struct load *l);
/* The threads that finish loads; they end after the loaders. */
bool finishers_start(struct modules *m);
void finishers_stop(struct modules *m);
/* Half of them may ask memcached for what other hosts load while the others transfer. */
static inline unsigned loaders_max(const struct config *c)
{
	return 2 * (unsigned)c->bucket_parallel;
}
/* How maps are built: their memory is charged to the cache, and has a bound. */
struct offmap_options load_options(const struct modules *m);
extern const char load_too_large[]; /* for the log, when a map is above it */
/* Tries to put the markers that memcached did not take. */
void modules_put_markers(struct modules *m, struct mc_client *c);

/* How a want ends; a module's reference goes to it. */
void want_found(struct module_want *w, struct module *module);
void want_failed(struct module_want *w, const struct failure *f, unsigned retry_after);

enum load_step {
	LOAD_DONE,      /* the outcome is there */
	LOAD_ELSEWHERE, /* another host has the lease: to be called again in a while */
	LOAD_HERE,      /* nobody has it any more: to be called with the place of a transfer */
};

/* Fills the outcome of l: from memcached if another host was faster, else from the buckets. May take as long as the
 * timeouts allow. Without the place of a transfer it only looks. */
enum load_step load_run(struct loader *r, struct load *l);
/* Behind the reply: sees to it that the other pages are made, the map is written to memcached and the lease given back.
 * Ends the load. */
void load_finish(struct loader *r, struct load *l);

#endif
