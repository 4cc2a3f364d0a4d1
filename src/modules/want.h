/* SPDX-License-Identifier: Apache-2.0 */
/* One module that a request wants. */
#ifndef MODULES_WANT_H
#define MODULES_WANT_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/config.h"
#include "format/file_id.h"
#include "store/failures.h"
#include "store/page_cache.h"
#include "store/symbfile_store.h"

struct load_wait;

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

/* What a load has cost, for `debug`. */
struct load_costs {
	uint64_t download_bytes;
	int64_t download_time, parse_time, fail_time, parse_fail_time;
};

struct module_want {
	struct str name, id; /* must live until the want is done */
	enum want_kind kind;
	struct file_id file_id;
	struct build_id_question question;
	bool by_alias;       /* the caller's: a build id led there */
	uint64_t image_base; /* the caller's: what offsets count from */
	/* out */
	enum want_state state;
	struct module *module; /* a reference; module_want_release */
	enum failure_class failure;
	char why[FAILURE_WHY_SIZE];  /* what is wrong with a corrupt file */
	struct symbfile_alias alias; /* of FAILURE_ALIAS */
	unsigned retry_after;        /* seconds */
	bool loaded;                 /* for this request; costs says how */
	struct load_costs costs;
	/* not the caller's */
	struct {
		struct module_hash hash, spelling;
		uint64_t marker;     /* of its invalidations, as memcached had it at marker_seen */
		int64_t marker_seen; /* 0: not asked */
		int64_t not_before;  /* what was checked earlier is no answer; 0: anything is */
		size_t *held;        /* just loaded: nothing of it is evicted until release, and this counts it */
		int64_t lost_at;     /* when the last was noticed */
		unsigned lost;       /* times within a minute that memcached had lost a page of it */
		struct load_wait *wait;
		bool pending; /* it waits for a load, and is among its waiters */
		LIST_ENTRY(module_want) next;
	} own;
};

/* lookup: the setting. false: no memory. */
bool module_want_init(struct module_want *w, enum config_lookup lookup, struct str name, struct str id);
/* What was uploaded for an executable. The name is the caller's alone: the FileID says all. */
bool module_want_init_file(struct module_want *w, struct str name, struct str id, const struct file_id *file_id);
/* The executable of a build id. */
bool module_want_init_alias(
        struct module_want *w, struct str name, struct str id, const struct build_id_question *question);
void module_want_release(struct module_want *w);

/* How it ends; a module's reference goes to it. */
void want_found(struct module_want *w, struct module *module);
void want_failed(struct module_want *w, const struct failure *f, unsigned retry_after);
/* *held counts it until it is released. */
void want_hold(struct module_want *w, size_t *held);
/* Whether an answer of that marker, seen then, is older than what the want has seen: it began before the module was
 * invalidated. */
bool want_outdates(const struct module_want *w, uint64_t marker, int64_t marker_seen);

#endif
