/* SPDX-License-Identifier: Apache-2.0 */
/* Loading modules: what modules.c, load_queue.c (whose turn it is) and load.c (lease, transfer, parse, store) share. */
#ifndef LOAD_H
#define LOAD_H

#include <pthread.h>

#include "base/block_pool.h"
#include "modules/modules.h"
#include "store/bucket.h"
#include "store/page_memcached.h"
#include "store/symbfile_store.h"

enum { STORERS = 2 };
enum { LOAD_CHAINS = 1024, BACKLOG_MAX = 104 << 20, BACKLOG_KEPT = 32 << 20 };
/* What nobody waits for. Maps that are stored have been answered from already, those being built are wanted soon. */
enum { NICE_BUILDING = 5, NICE_STORING = 10 };

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
	bool transferring;                 /* it has the place of a transfer: its text has not arrived */
	bool leased;                       /* its loader's own */
	uint64_t *asked;                   /* its loader's own: all that those who wait with `early` want */
	size_t asked_count;
	/* while another host has the lease */
	int64_t look_at, lease_until; /* when to look next, and until when to wait; 0: nobody had it */
	struct load *elsewhere_next;
	/* the lease, renewed by the keeper */
	struct load *lease_next, **lease_link;
	uint64_t token;
	bool lease_lost;
	/* outcome */
	struct module *module;
	bool kept;             /* it is the one that was in the cache, and still right */
	uint64_t module_bytes; /* that it has in memory */
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
	struct block_pool *blocks;    /* of text on its way from transfers into parsers */
	uint64_t seed;                /* of the chains, so that nobody can choose modules that fall into one */
	pthread_key_t client_key;
	pthread_mutex_t lock;   /* guards what follows; no network or disk is touched under it */
	pthread_cond_t queued;  /* a load was queued, or stopping */
	pthread_cond_t keeping; /* stopping */
	pthread_cond_t stored;  /* a load waits to be stored, or stopping */
	struct load *loads[LOAD_CHAINS];
	struct load_wait *turns, **turns_end; /* who has loads queued */
	struct load *leases;
	struct load *elsewhere, **elsewhere_end; /* that other hosts have the leases of; who is to be looked at first */
	unsigned elsewhere_count;
	unsigned running;                  /* loads that are taken and not yet published */
	unsigned transfers;                /* loads that have not got all their text yet */
	struct load *stores, **stores_end; /* that wait to be stored */
	uint64_t storing_bytes;            /* of them and those that are being stored */
	struct marker *markers;            /* that memcached could not be told yet */
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
	pthread_t *loaders, storers[STORERS];
	unsigned loader_count, storer_count;
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
/* The text has arrived: another may be transferred while the map of this one is finished. */
void loads_transferred(struct modules *m, struct load *l);
void load_free(struct load *l);
/* The threads that write to memcached; they end after the loaders. */
bool storers_start(struct modules *m);
void storers_stop(struct modules *m);
/* Half of them may finish maps while the others transfer. */
static inline unsigned loaders_max(const struct config *c)
{
	return 2 * (unsigned)c->bucket_parallel;
}
/* Gathers in l->asked what those who wait now want of it. */
void loads_gather_asked(struct modules *m, struct load *l);
/* How maps are built: their memory is charged to the cache, and has a bound. */
struct offmap_options load_options(const struct modules *m);
extern const char load_too_large[]; /* for the log, when a map is above it */
/* A map that answers those offsets alone: for who waited then. The module is not kept. */
void loads_tell_early(struct modules *m, struct load *l, struct module *module);
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
/* Behind the reply: sees to it that the map is written to memcached and the lease given back. Ends the load. */
void load_store(struct loader *r, struct load *l);

#endif
