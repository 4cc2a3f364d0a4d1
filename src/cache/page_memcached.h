/* SPDX-License-Identifier: Apache-2.0 */
/* Roots, pages, markers and leases in memcached: their keys, and the checks before a value is believed. */
#ifndef CACHE_PAGE_MEMCACHED_H
#define CACHE_PAGE_MEMCACHED_H

#include "cache/memcached.h"
#include "cache/page_cache.h"

/* A module's invalidation marker and, if wanted, its root, and whether anybody has a lease on it. The marker changes
 * when the module is invalidated, and when its server loses its memory: invalidations may be lost with it. */
struct root_get {
	const struct module_hash *hash;
	bool want_root, want_lease;
	const uint64_t *origins; /* a root is believed if its map has one of these; NULL: if it has none */
	unsigned origin_count;
	/* out */
	bool reached;    /* its server did not fail; otherwise marker means nothing */
	uint64_t marker; /* if the module has none, its server's epoch */
	bool is_epoch;   /* it has none */
	bool leased;
	struct offmap *map; /* the root if it is there, complete, and has this marker; owned by the caller */
};
/* Gets them all in one multiget, which ends at the deadline (clock_now()). */
void page_memcached_roots(struct mc_client *c, struct root_get *gets, size_t count, int64_t deadline);

struct page_get {
	struct module *module;
	uint32_t number;
	uint8_t kind;      /* PAGE_CODE or PAGE_STRINGS */
	struct page *page; /* out: raw, with a reference for the caller; NULL: missing */
};
/* The same for pages, of up to `most` bytes in all; false: there were more, and the rest is missing. *bytes: received
 * from memcached. */
bool page_memcached_pages(
        struct mc_client *c, struct page_get **gets, size_t count, uint64_t most, int64_t deadline, uint64_t *bytes);

/* Puts a new marker and deletes the root, in this order. */
enum mc_status page_memcached_invalidate(struct mc_client *c, const struct module_hash *hash);

/* A lease: whoever holds it loads the module and stores it, for all hosts. */
enum { LEASE_SECONDS = 3 };
enum mc_status page_memcached_lease(struct mc_client *c, const struct module_hash *hash, uint64_t token);
/* A lease that ran out because its holder was held up is taken again, unless somebody else has it or the module's
 * marker has changed: then MC_EXISTS or MC_MISSING. */
enum mc_status page_memcached_lease_renew(
        struct mc_client *c, const struct module_hash *hash, uint64_t token, uint64_t marker);
void page_memcached_lease_release(struct mc_client *c, const struct module_hash *hash, uint64_t token);

/* Whether the module's server answered lately. */
bool page_memcached_reachable(struct mc_client *c, const struct module_hash *hash);

struct store_options {
	enum page_codec codec;
	uint64_t item_max;       /* of the servers; a map with a larger value is not stored at all */
	uint32_t expire;         /* seconds until the root expires; pages live a little longer */
	uint32_t expire_lacking; /* the same for the root of a map that lacks what a source may have later */
};
/* Writes what a module has, many values at a time. A status other than MC_OK: some of these are not there. */
struct page_store;
/* go_on: whether a value that is refused is tried again, for about 2 seconds; NULL: it is not. NULL if out of memory.
 * All must outlive the store. */
struct page_store *page_store_new(struct mc_client *c, struct module *m, const struct store_options *options,
        bool (*go_on)(void *arg), void *arg);
enum mc_status page_store_page(struct page_store *s, uint32_t number, const struct page *p);
/* Call page_store_flush first: who finds the root looks for the pages. */
enum mc_status page_store_root(struct page_store *s);
enum mc_status page_store_flush(struct page_store *s);
/* Returns the bytes of all values that were written. NULL is fine. */
uint64_t page_store_free(struct page_store *s);
/* Writes one page, or with NULL the root of a map whose pages are not all there. */
enum mc_status page_memcached_store(struct mc_client *c, struct module *m, const struct store_options *options,
        uint32_t number, const struct page *p);

#endif
