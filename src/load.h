/* Loading one module: lease, transfer, parse, store. What modules.c and load.c share. */
#ifndef LOAD_H
#define LOAD_H

#include <pthread.h>

#include "modules.h"
#include "store/bucket.h"
#include "store/page_memcached.h"

enum { LOAD_CHAINS = 1024 };

/* A load in flight or queued. Under modules.lock, but for what only its loader touches. */
struct load {
	struct module_hash hash, spelling;
	char *name, *id; /* end in NUL */
	size_t name_len, id_len;
	struct module_want *waiters;
	struct load_wait *owner;               /* who started it; NULL: gone */
	struct load *next, **link;             /* chain of loads in flight */
	struct load *queue_next, **queue_link; /* those that wait for a loader */
	bool stale;                            /* invalidated while it ran: for its waiters only */
	unsigned lost;                         /* why it is loaded: see module_want */
	bool leased;                           /* its loader's own */
	/* the lease, renewed by the keeper */
	struct load *lease_next, **lease_link;
	uint64_t token;
	bool lease_lost;
	/* outcome */
	struct module *module;
	enum failure_class failure;
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
	pthread_key_t client_key;
	pthread_mutex_t lock;   /* guards what follows; no network or disk is touched under it */
	pthread_cond_t queued;  /* a load was queued, or stopping */
	pthread_cond_t keeping; /* stopping */
	struct load *loads[LOAD_CHAINS];
	struct load *queue, **queue_end;
	struct load *leases;
	struct load_wait *waits;
	struct load_wait *cold_queue, **cold_queue_end;
	unsigned cold_running, cold_queued;
	bool stopping;
	atomic_bool cancel;
	pthread_t *loaders;
	unsigned loader_count;
	pthread_t keeper;
	bool keeper_runs;
};

/* What one loader thread has. */
struct loader {
	struct modules *modules;
	struct mc_client *memcached;
	struct bucket_client *bucket;
};

/* Fills the outcome of l: from memcached if another host was faster, else from the buckets. May take as long as the
 * timeouts allow. */
void load_run(struct loader *r, struct load *l);
/* Behind the reply: writes the map to memcached and gives the lease back. */
void load_store(struct loader *r, struct load *l);

#endif
