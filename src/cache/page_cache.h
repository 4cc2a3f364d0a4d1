/* SPDX-License-Identifier: Apache-2.0 */
/* Maps in memory: modules by hash, and their pages, within one budget of bytes. The least recently used go first. */
#ifndef CACHE_PAGE_CACHE_H
#define CACHE_PAGE_CACHE_H

#include <pthread.h>
#include <sys/queue.h>

#include "map/offmap.h"

struct symmap;

/* The life of a module, which modules/loads.c draws and moves on. Until it is LOADED there is only its load. */
enum life {
	LIFE_QUEUED,
	LIFE_TAKEN,
	LIFE_AWAY,
	LIFE_LOADED,    /* pages are made of its records as they are missed */
	LIFE_FINISHING, /* a finisher makes all; or has given up, and they are made as before */
	LIFE_STORED,    /* no records: pages may be evicted one by one */
	LIFE_WHOLE,     /* no records: only the whole module may be evicted */
};

/* A module whose root is known. lock guards the page slots of its map; everything else in the map is constant for its
 * readers. */
struct module {
	struct module_hash hash;
	struct offmap *map;
	struct symmap
	        *records; /* under lock: missing pages are made from them; NULL: they are in memcached, if anywhere */
	char label[128];  /* "name/id" for the log, if it was loaded here; else empty */
	pthread_mutex_t lock;
	atomic_uint refs;
	atomic_uint holds; /* while above 0, nothing of the module is evicted: it is being stored, or a request has just
	                      loaded it */
	atomic_bool shared;      /* memcached has its root: pages that are made are sent there */
	atomic_bool refreshed;   /* it is being loaded once more: see refresh.h */
	_Atomic(enum life) life; /* from LOADED on */
	atomic_uint sent;        /* pages that were made and sent to memcached */
	atomic_bool used;        /* since the clock last passed */
	atomic_uint used_at;     /* page_cache_tick when it was last asked for */
	int64_t since;           /* clock_now() when it was made */
	uint64_t passed;         /* sources, one bit each, that failed before the one that had it; 0: none */
	int64_t passed_at;       /* clock_now() when its load began */
	uint64_t origin;         /* for symbfiles: symbfile_sets.hash when they were loaded; 0: unknown */
	_Atomic int64_t checked; /* clock_now() when its marker or origin was last seen unchanged */
	int64_t lost_at;         /* clock_now() when it was loaded because memcached had lost a page; 0: not for that */
	uint64_t bytes;          /* charged to the cache, under lock */
	bool in_cache;           /* under lock */
	LIST_ENTRY(module) chain;
	bool is_listed; /* among the unfinished; this and the next are under a lock of the cache */
	TAILQ_ENTRY(module) unfinished;
};

struct page_cache;

/* budget: bytes of pages and roots. NULL if out of memory. */
struct page_cache *page_cache_new(uint64_t budget);
void page_cache_free(struct page_cache *c);

/* A module with one reference, not in the cache, that is LOADED or STORED; takes the map. NULL if out of memory (the
 * map is freed). */
struct module *module_new(const struct module_hash *hash, struct offmap *map, enum life life);
/* Whether it is in the cache: not evicted, replaced or forgotten. */
bool module_is_cached(struct module *m);
void module_ref(struct module *m);
void module_unref(struct module *m); /* NULL is fine */

/* The module with a further reference, or NULL. */
struct module *page_cache_get(struct page_cache *c, const struct module_hash *hash);
/* Adds m, in place of an older module with the same hash. */
void page_cache_add(struct page_cache *c, struct module *m);
/* Evicts what exceeds the budget. Call it after page_cache_add and module_put_page, without any lock. */
void page_cache_evict(struct page_cache *c);
/* Whether this many more bytes fit into the budget. */
bool page_cache_has_room(const struct page_cache *c, uint64_t bytes);
/* Evicts this many bytes, whatever the budget; but no module that was asked for within the last ticks. */
void page_cache_shrink(struct page_cache *c, uint64_t bytes);
/* To be called once a second: from how many calls ago a module was asked for follows whether it is in use. */
void page_cache_tick(struct page_cache *c);
/* Of the modules that were loaded here and are not finished the first, with a further reference; NULL if there is
 * none. */
struct module *page_cache_unfinished(struct page_cache *c);
/* Removes a module; if `only` is not NULL, only if it is that one. Returns the bytes that this frees. */
int64_t page_cache_remove(struct page_cache *c, const struct module_hash *hash, const struct module *only);

/* A raw page with a further reference, or NULL when it is not in memory. */
struct page *module_page(struct page_cache *c, struct module *m, enum page_kind kind, uint32_t number);
/* The page as cached, perhaps compressed, with a further reference, or NULL. */
struct page *module_slot_page(struct module *m, enum page_kind kind, uint32_t number);
/* Makes a missing page from the module's records and puts it into its slot; *out gets a reference. *out is NULL if
 * there are no records (any more). ERR_NO_MEMORY. */
enum err module_make_page(
        struct page_cache *c, struct module *m, enum page_kind kind, uint32_t number, struct page **out);
/* All its pages are made: frees its records, unless somebody still makes a page of them. */
void module_drop_records(struct module *m);
/* Puts a page into its slot, if that is empty. The caller keeps its reference, and calls page_cache_evict after the
 * last of several pages. */
void module_put_page(struct page_cache *c, struct module *m, uint32_t number, struct page *p);

/* Counts memory of maps being built against the budget; negative to give it back. What is in use stays, as for
 * page_cache_shrink. */
void page_cache_charge(struct page_cache *c, int64_t bytes);

#endif
