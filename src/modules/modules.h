/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: get a map from a cache, or load it once however many ask. */
#ifndef MODULES_MODULES_H
#define MODULES_MODULES_H

#include "modules/gate.h"
#include "modules/wait.h"
#include "modules/want.h"
#include "store/memcached.h"

struct modules;

/* Starts the service: caches, loader threads, keeper. c must outlive it. */
struct modules *modules_start(const struct config *c, struct error *e);
/* After the last request. Transfers that run are cancelled. */
void modules_stop(struct modules *m);

/* Looks in memory and, in one multiget with its deadline, in memcached. Afterwards each want is FOUND, FAILED or LOAD.
 */
void modules_resolve(struct modules *m, struct module_want *wants, size_t count, int64_t deadline);

/* Gets every want in state LOAD, by joining loads that run or starting new ones; of new ones at most cold_modules in
 * all. */
enum load_result modules_load(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count);
/* The request is done, one way or the other: what is queued for it alone is dropped, and its place given to the next.
 */
void modules_leave(struct modules *m, struct load_wait *wait);

/* A page that memcached should have had is lost: the module must be loaded again. The want becomes LOAD. */
void modules_lost_page(struct modules *m, struct module_want *w);

/* Forgets everything of a module, whatever kind of id it has, here and on all hosts; but not what was uploaded for the
 * executables that a build id leads to. ERR_UNAVAILABLE: forgotten here only. */
enum err modules_invalidate(struct modules *m, struct str name, struct str id, struct error *e);
/* The same of an executable, here at once; where memcached does not answer, it is told later. */
void modules_forget_file(struct modules *m, const struct file_id *file_id);
/* Whose executable the build id is. */
void modules_forget_build_id(struct modules *m, const struct build_id *build_id);

/* Where symbfiles are kept; NULL: nowhere. */
struct symbfile_store *modules_store(struct modules *m);
struct page_cache *modules_cache(struct modules *m);
/* Of the process, for hash tables. */
uint64_t modules_seed(const struct modules *m);
/* The calling thread's own; NULL without memory. Freed when the thread ends. */
struct mc_client *modules_memcached(struct modules *m);
/* For the heartbeat: the first backend that does not answer. */
enum err modules_probe(struct modules *m, struct error *e);

#endif
