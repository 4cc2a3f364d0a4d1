/* SPDX-License-Identifier: Apache-2.0 */
/* Maps in memory: modules by hash, their pages under one budget of bytes, the least used out first. */
#ifndef STORE_PAGE_CACHE_H
#define STORE_PAGE_CACHE_H

#include <pthread.h>

#include "format/offmap.h"

struct symmap;

/* A module whose root is known. lock guards the page slots of its map; nothing else that others read of the map
 * changes. */
struct module {
	struct module_hash hash;
	struct offmap *map;
	struct symmap *text; /* under lock: missing pages are made of it; NULL: they are in memcached, if anywhere */
	pthread_mutex_t lock;
	atomic_uint refs;
	atomic_uint holds;  /* while there are any, nothing of it is evicted: it is being stored, or a request has just
	                       loaded it */
	atomic_bool stored; /* memcached has its pages: they may be evicted one by one; else it goes as a whole */
	atomic_bool used;   /* since the clock passed */
	int64_t since;      /* when it was made */
	_Atomic uint64_t damaged;    /* map->damaged, also while that is still counted */
	uint64_t origin;             /* of symbfiles: symbfile_sets.hash when they were loaded; 0: not known */
	_Atomic int64_t checked;     /* when its marker was last seen to be map->marker, or its origin to be the same */
	int64_t lost_at;             /* it was loaded then because memcached had lost a page; 0: not so */
	uint64_t bytes;              /* charged to the cache, under lock */
	bool in_cache;               /* under lock */
	struct module *next, **link; /* chain of its shard */
};

struct page_cache;

/* budget: bytes of pages and roots. */
struct page_cache *page_cache_new(uint64_t budget);
void page_cache_free(struct page_cache *c);

/* A module with one reference, not in the cache; takes the map. NULL if out of memory (the map is freed). */
struct module *module_new(const struct module_hash *hash, struct offmap *map);
void module_ref(struct module *m);
void module_unref(struct module *m); /* NULL is fine */

/* The module with a further reference, or NULL. */
struct module *page_cache_get(struct page_cache *c, const struct module_hash *hash);
/* Puts m in, in place of an older one of the same hash. */
void page_cache_add(struct page_cache *c, struct module *m);
/* Evicts what is over the budget: after page_cache_add, when no lock is held. */
void page_cache_evict(struct page_cache *c);
/* Whether so many bytes would stay within it. */
bool page_cache_has_room(const struct page_cache *c, uint64_t bytes);
/* Evicts so many bytes, whatever the budget. */
void page_cache_shrink(struct page_cache *c, uint64_t bytes);
/* Takes a module out; with `only` not NULL just that one. */
void page_cache_remove(struct page_cache *c, const struct module_hash *hash, const struct module *only);

/* A raw page with a further reference, or NULL when it is not in memory. */
struct page *module_page(struct page_cache *c, struct module *m, enum page_kind kind, uint32_t number);
/* The page as it lies, which may be compressed, with a further reference, or NULL. */
struct page *module_slot_page(struct module *m, enum page_kind kind, uint32_t number);
/* module_page of a page that is not there, made of the module's text and put in its slot. *out is NULL where there is
 * no text (any more). ERR_NO_MEMORY. */
enum err module_make_page(
        struct page_cache *c, struct module *m, enum page_kind kind, uint32_t number, struct page **out);
/* All pages are elsewhere: forgets the text. */
void module_drop_text(struct module *m);
/* Puts a page in its slot, if that is empty. The caller keeps its reference. */
void module_put_page(struct page_cache *c, struct module *m, uint32_t number, struct page *p);

/* Memory that is used beside the cache, by maps being built: it counts against the budget. */
void page_cache_charge(struct page_cache *c, int64_t bytes);
int64_t page_cache_charged(const struct page_cache *c);

#endif
