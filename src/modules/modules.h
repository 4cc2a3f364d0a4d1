/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: get a map from a cache, or load it once however many ask. */
#ifndef MODULES_H
#define MODULES_H

#include <stdbool.h>

#include "base/config.h"
#include "store/failures.h"
#include "format/file_id.h"
#include "store/memcached.h"
#include "store/page_cache.h"
#include "store/symbfile_store.h"

struct modules;
struct load;

/* Starts the service: caches, loader threads, keeper. c must outlive it. */
struct modules *modules_start(const struct config *c, struct error *e);
/* After the last request. Transfers that run are cancelled. */
void modules_stop(struct modules *m);

enum want_state {
	WANT_LOAD,   /* in no cache: modules_load gets it */
	WANT_FOUND,  /* module is set */
	WANT_FAILED, /* failure says how; retry_after for a temporary one */
};

enum want_kind {
	WANT_SYM,      /* a symbol file in the buckets; its name is one that a bucket can hold */
	WANT_SYMBFILE, /* what was uploaded for the executable file_id */
	WANT_ALIAS, /* whose executable a build id is: it always fails, with FAILURE_ALIAS when somebody has uploaded it
	             */
};

/* A module that a request wants. */
struct module_want {
	struct str name, id; /* must live until the want is done */
	enum want_kind kind;
	struct file_id file_id;
	struct build_id_question question;
	bool by_alias;                     /* a build id led there */
	uint64_t image_base;               /* the caller's: what offsets count from */
	struct module_hash hash, spelling; /* module_want_init */
	enum want_state state;
	uint64_t marker;       /* of its invalidations, as memcached had it at marker_seen */
	int64_t marker_seen;   /* 0: not asked */
	int64_t not_before;    /* what was checked earlier is no answer; 0: anything is */
	struct module *module; /* a reference; module_want_release */
	bool held;             /* just loaded: nothing of it is evicted until release */
	enum failure_class failure;
	char why[FAILURE_WHY_SIZE];  /* what is wrong with a corrupt file */
	struct symbfile_alias alias; /* of FAILURE_ALIAS */
	unsigned retry_after;        /* seconds */
	int64_t lost_at;             /* when the last was noticed */
	unsigned lost;               /* times within a minute that memcached had lost a page of it */
	/* how it came, for `debug` */
	bool loaded;
	uint64_t download_bytes;
	int64_t download_time, parse_time, fail_time, parse_fail_time;
	/* of a load it waits for */
	struct load *load;
	struct load_wait *wait;
	struct module_want *next, **link;
};

/* false: no memory. */
bool module_want_init(struct module_want *w, struct modules *m, struct str name, struct str id);
/* What was uploaded for an executable. The name is the caller's alone: the FileID says all. */
bool module_want_init_file(struct module_want *w, struct str name, struct str id, const struct file_id *file_id);
/* The executable of a build id. */
bool module_want_init_alias(
        struct module_want *w, struct str name, struct str id, const struct build_id_question *question);
void module_want_release(struct module_want *w);

/* Looks in memory and, in one multiget with its deadline, in memcached. Afterwards each want is FOUND, FAILED or LOAD.
 */
void modules_resolve(struct modules *m, struct module_want *wants, size_t count, int64_t deadline);

/* One request's wait for its loads. */
struct load_wait {
	void (*done)(struct load_wait *w); /* the caller's; called once for each modules_load that returned LOAD_WAIT,
	                                      on another thread */
	bool (*gone)(const struct load_wait *w); /* the caller's: nobody is there any more who could be answered. Asked
	                                            once a second while it waits, on another thread; must not wait */
	int64_t deadline;                        /* the caller's; clock_now() */
	/* out, when done */
	bool timed_out; /* the deadline passed; what was loaded until then is there */
	bool refused;   /* too many requests were loading, or memory was full, for too long */
	/* the service's */
	struct module_want *wants;
	size_t want_count;
	size_t pending; /* wants that wait for a load */
	size_t held;    /* that hold what was just loaded */
	bool cold;      /* has a place to load */
	bool gated, waiting;
	int64_t gate_deadline;
	struct load *queued, **queued_end, *running; /* loads that it owns */
	unsigned running_count;
	struct load_wait *next, **link;           /* of all that wait */
	struct load_wait *gate_next, **gate_link; /* of those that wait for a place */
	struct load_wait *turn_next, **turn_link; /* of those that have loads queued; no link: it has none */
};

enum load_result {
	LOAD_READY,   /* nothing to wait for */
	LOAD_WAIT,    /* done will be called; then call modules_load again, with the wants that are still LOAD */
	LOAD_REFUSED, /* too many requests are loading, or memory is full: 503 */
};

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
