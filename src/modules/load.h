/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load takes a module from its source to a map, on a thread of its own: it looks in memcached once more, takes the
 * lease or waits for the host that has it, asks the sources, and tells the requests that wait. The text of a symbol
 * file is read into records as it arrives. Once it is complete, the map exists; each page is made from the records by
 * whichever thread first misses it.
 */
#ifndef MODULES_LOAD_H
#define MODULES_LOAD_H

#include "base/account.h"
#include "cache/page_memcached.h"
#include "elf/elf_source.h"
#include "modules/want.h"
#include "objects/bucket.h"
#include "sym/symmap.h"

/* What all loads share. Set at the start; what changes later has locks of its own. */
struct load_context {
	const struct config *config;
	struct page_cache *cache;
	struct outcomes *outcomes;
	struct mc_servers *servers;
	struct bucket_sources *sources; /* not owned */
	struct elf_sources elf;         /* without extractors: no source is of executables */
	struct symbfile_store *store;   /* NULL: none is configured */
	struct block_pool *blocks;      /* for text that arrives, and for arenas */
	atomic_uint idle_makers;        /* for symmap.c */
	atomic_uint readers;            /* for arrival.c */
	atomic_uint heavy;              /* loads that run and have taken more than load_small_bytes */
	_Atomic(struct load *) needy;   /* the one load that may wait for memory while it runs */
	atomic_bool needy_waits;        /* it does */
	atomic_bool short_of_memory;    /* loads wait for memory, as loads_tick saw it last */
	atomic_bool stopping;           /* running loads then end soon */
};

/* A load, queued or running. Guarded by the lock of struct loads, except what only its loader touches. */
struct load {
	struct module_hash hash, spelling; /* of the module; of its id as it was asked for */
	struct str name, id;               /* NUL-terminated */
	enum want_kind kind;               /* this and the next three are as in the want */
	struct file_id file_id;
	struct build_id_question question;
	enum want_lost lost;
	int64_t since; /* clock_now() when it was asked for */
	/* memory; while it runs, for its loader and the thread that reads what arrives */
	struct load_context *context;
	int64_t room_until; /* how long to wait for memory; 0: does not wait */
	bool no_room;       /* it was given up because there was none */
	bool heavy;         /* it counts as such */
	bool large;         /* it has been given up for that before: runs when no other such load does */
	/* for loads.c */
	enum life life;                   /* of its module, up to LOADED */
	LIST_HEAD(, module_want) waiters; /* the wants that wait for it */
	struct load_wait *owner;          /* the request in whose queue it is or was; NULL: that request is gone */
	STAILQ_ENTRY(load) queued;        /* in the owner's queue */
	LIST_ENTRY(load) running;         /* among the owner's running loads */
	LIST_ENTRY(load) chain;           /* of loads in flight */
	struct turn_client *client;       /* for whom it transfers; NULL: it does not run here */
	atomic_bool fetches;              /* the files of an executable, so that it ends within a second of `cancel` */
	atomic_bool cancel;               /* nobody waits for it any more, or the process is stopping */
	/* its lease */
	struct {
		uint64_t token, marker; /* of the module when the lease was taken */
		bool held;              /* used only by its loader */
		bool lost;              /* another process may hold it now */
		bool stale;             /* the module was invalidated: the lease is not renewed */
		int64_t renewed_at;
		TAILQ_ENTRY(load) next;
		/* while another host holds it */
		int64_t look_at; /* when to look next */
		int64_t until;   /* how long to wait for the other host; 0: no other host held it */
		TAILQ_ENTRY(load) elsewhere;
	} lease;
	/* outcome */
	struct module *module;
	bool loaded;            /* module was made of what has just been loaded */
	source_set passed;      /* sources that failed before the one that has the module: they may have another file */
	bool kept;              /* module was in the cache, and is still current */
	struct outcome outcome; /* marker and checked are from the start of the load, even if it succeeds */
	struct load_costs costs;
};

/* What a load may take before it counts as large. */
static inline uint64_t load_small_bytes(void)
{
	return account_total() / 32;
}

/* How maps are built: their memory is charged to the cache, and limited; that of a load (NULL: none) also to the
 * account. */
struct offmap_options load_options(struct load_context *context, struct load *l);

/* From which lists of sources a root for such a want may have come. */
void load_origins(const struct load_context *context, enum want_kind kind, struct root_get *g);

struct finishers;

/* The threads that run loads: starts the first of at most loaders_max; each starts one more when it gets its first
 * load, so that one is idle. False if it could not be started. */
bool loaders_start(struct finishers *finishers);
/* Call after `stopping` is set. */
void loaders_stop(struct finishers *finishers);

#endif
