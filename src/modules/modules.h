/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: gets a map from a cache, or loads it once for all requests that ask. */
#ifndef MODULES_MODULES_H
#define MODULES_MODULES_H

#include "cache/hot_frames.h"
#include "cache/memcached.h"
#include "modules/want.h"

struct bucket_sources;
struct extractors;
struct modules;

/* Starts the service: caches, threads. c and sources must outlive it. */
struct modules *modules_start(
        const struct config *c, struct bucket_sources *sources, struct extractors *extractors, struct error *e);
/* Call after the last request. Cancels running transfers. */
void modules_stop(struct modules *m);

/* Makes a want, for the first place where a module may be. build_id: the whole one, if it is known; else "". False if
 * out of memory. */
bool modules_want(struct modules *m, struct module_want *w, struct str name, struct str id, struct str build_id);

/* Looks in memory, then for all missing ones in one multiget of memcached, which ends at the deadline (clock_now()).
 * Afterwards a want is LOAD or settled. */
void modules_resolve(struct modules *m, struct module_want *wants, size_t count, int64_t deadline);

/* Gets every want in state LOAD, by joining loads in flight or starting new ones: at most cold_modules new ones. What
 * is missing in one place is looked for in the next: after uploads by FileID the sources, after these the executable of
 * a build id. With LOAD_READY each want is FOUND or FAILED; after a temporary failure some may be LOAD still. */
enum load_result modules_load(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count);
/* Call when the request needs no further load, whatever its outcome. Drops loads queued only for it, and passes its
 * place to the next request. */
void modules_leave(struct modules *m, struct load_wait *wait);

/* A page was made from the module's text: memcached gets it, later. */
void modules_made_page(struct modules *m, struct module *module, uint32_t number, struct page *p);
/* Memcached has lost a page, or never had it, so the module must be loaded again: the want becomes LOAD. */
void modules_lost_page(struct modules *m, struct module_want *w);

/* Forgets a module, whatever the kind of its id, here and on all hosts; but not what was uploaded for executables with
 * this build id. ERR_UNAVAILABLE: forgotten only here. */
enum err modules_invalidate(struct modules *m, struct str name, struct str id, struct error *e);
/* The same for an executable: here at once; if memcached does not answer, it is told later. */
void modules_forget_file(struct modules *m, const struct file_id *file_id);
/* Forgets which executables have this build id. */
void modules_forget_build_id(struct modules *m, const struct build_id *build_id);

/* Where symbfiles are kept; NULL if not configured. */
struct symbfile_store *modules_store(struct modules *m);
struct page_cache *modules_cache(struct modules *m);
struct hot_frames *modules_hot_frames(struct modules *m); /* may be NULL */
/* A random seed for hash tables; constant while the process runs. */
uint64_t modules_seed(const struct modules *m);
/* The calling thread's client; NULL if out of memory. Freed when the thread ends. */
struct mc_client *modules_memcached(struct modules *m);
/* For the heartbeat: asks every backend, and calls wrong with an error for each that cannot be used, which it names. */
void modules_probe(struct modules *m, void (*wrong)(void *arg, const struct error *e), void *arg);

#endif
