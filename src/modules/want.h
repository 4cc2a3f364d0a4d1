/* SPDX-License-Identifier: Apache-2.0 */
/* One module that a request wants, and the request's wait for those that must be loaded. */
#ifndef MODULES_WANT_H
#define MODULES_WANT_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/client_key.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/turnstile.h"
#include "cache/outcomes.h"
#include "cache/page_cache.h"
#include "objects/store.h"
#include "symbfile/file_id.h"

struct load;
struct load_wait;
struct loads;

/* How long a map is kept that lacks what a source may have later: as long as a source that has nothing is not asked. */
static inline int64_t lacking_ttl(const struct config *c)
{
	int64_t ttl = c->missing_ttl < c->root_max_age ? c->missing_ttl : c->root_max_age;
	return ttl > SECOND ? ttl : SECOND;
}

enum want_state {
	WANT_LOAD,       /* in no cache: modules_load gets it */
	WANT_FOUND,      /* module is set */
	WANT_FAILED,     /* failure says how; retry_after for a temporary one */
	WANT_REDIRECTED, /* its build id leads to an executable: modules_load goes on with that */
};

enum want_kind {
	WANT_SYM,      /* a symbol file in the buckets; bucket_can_hold is true for its name and id */
	WANT_SYMBFILE, /* what was uploaded for the executable file_id */
	WANT_BUILD_ID, /* the executable that has a build id: REDIRECTED if one was uploaded */
};

/* Whether memcached had the module's root, but not a page that was needed. */
enum want_lost {
	LOST_NOTHING,
	LOST_UNMADE, /* the map is not whole yet: ordinary */
	LOST_PAGE,   /* memcached has lost it */
	LOST_AGAIN,  /* for the second time within a minute: the module is no longer stored */
};

/* What a load cost, for `debug`: nanoseconds and bytes. */
struct load_costs {
	uint64_t download_bytes;
	int64_t download_time, parse_time, fail_time, parse_fail_time;
};

struct module_want {
	struct str name, id; /* not owned; must outlive the want */
	enum want_kind kind;
	struct file_id file_id;
	struct build_id_question question; /* of WANT_SYM: the whole build id, if more is known than the id says */
	bool redirected;                   /* a build id led to the executable. Then: */
	uint64_t image_base;               /* offsets count from here */
	struct file_map file;              /* where the executable's file is loaded */
	/* out */
	enum want_state state;
	struct module *module; /* a reference, released by module_want_release */
	enum outcome_class failure;
	char why[FAILURE_WHY_SIZE]; /* as in the outcome */
	unsigned retry_after;       /* seconds */
	bool loaded;                /* a load was run for it, or joined; costs are that load's */
	struct load_costs costs;
	/* private */
	struct {
		struct module_hash hash, spelling;
		uint64_t marker;     /* its invalidation marker in memcached at marker_seen */
		int64_t marker_seen; /* clock_now(); 0: not asked */
		int64_t not_before;  /* clock_now(): results checked earlier do not count; 0: all count */
		size_t *held;        /* set while the module, just loaded, must not be evicted; release decrements it */
		int64_t lost_at;     /* clock_now() when the latest loss was noticed */
		enum want_lost lost;
		struct load_wait *wait;         /* set while it is among the waiters of a load */
		struct symbfile_alias redirect; /* where it leads, if REDIRECTED */
		LIST_ENTRY(module_want) next;
	} own;
};

enum load_result {
	LOAD_READY,   /* nothing to wait for */
	LOAD_WAIT,    /* done will be called; then call modules_load again, with the wants that are still LOAD */
	LOAD_REFUSED, /* too many requests are loading, or memory is full: 503 */
};

/*
 * One request's wait. Starts zeroed. Only loads.c moves it: to the turnstile of those that load (`visit`), where it
 * stands in line or has a place until it is answered or refused, or others have loaded what it lacked. One that only
 * joins others' loads needs no place. Each gives back its place, and what it holds, when memory is full (`gave_back`),
 * and later comes back.
 */
struct load_wait {
	/* set by the caller */
	void (*done)(struct load_wait *w); /* on another thread, once for each modules_load that returned LOAD_WAIT */
	bool (*gone)(const struct load_wait *w); /* whether the client has gone. Called on another thread once a second
	                                            during the wait; must not block */
	int64_t deadline;                        /* clock_now() */
	struct client_key client;                /* whose request it is */
	unsigned client_prefix;                  /* client_ipv6_prefix, of the settings in force */
	/* out, when done */
	bool timed_out; /* the deadline passed; modules loaded until then are set */
	bool refused;   /* too many requests were loading, or memory was full, for too long */
	/* private to loads.c */
	struct module_want *wants;
	size_t want_count;
	size_t pending;      /* wants that wait for a load */
	size_t held;         /* wants that hold a module just loaded */
	uint64_t began;      /* a number, ascending in the order in which requests begin to load; 0: it has not */
	struct loads *loads; /* set from the first load that it needs until modules_leave */
	struct visit visit;  /* at the turnstile of those that load */
	bool gave_back;
	struct module_want *lacks;  /* the first of its wants whose load nobody had started when it was looked at */
	STAILQ_HEAD(, load) queued; /* loads that this request owns */
	LIST_HEAD(, load) running;  /* the same */
	unsigned running_count;
	struct turn turn;            /* of its queued loads */
	TAILQ_ENTRY(load_wait) next; /* in the list of all waits, or of those that are over */
	TAILQ_ENTRY(load_wait) by_age;
	LIST_ENTRY(load_wait) queue;
};

/* lookup: as configured. False if out of memory. */
bool module_want_init(struct module_want *w, enum config_lookup lookup, struct str name, struct str id);
/* A want for what was uploaded for an executable. Only the FileID counts; name and id are kept for the caller. */
bool module_want_init_file(struct module_want *w, struct str name, struct str id, const struct file_id *file_id);
/* A want for the executable that has a build id. */
bool module_want_init_build_id(
        struct module_want *w, struct str name, struct str id, const struct build_id_question *question);
void module_want_release(struct module_want *w);

/* Set the result: a module, whose reference is taken over, or what came of a load that gave none. */
void want_found(struct module_want *w, struct module *module);
void want_settle(struct module_want *w, const struct outcome *o);
/* Whether any is LOAD. */
bool wants_need_load(const struct module_want *wants, size_t count);
/* Whether a result with this marker, read at marker_seen, is outdated: the want has since seen another marker, so the
 * module was invalidated. */
bool want_outdates(const struct module_want *w, uint64_t marker, int64_t marker_seen);

#endif
