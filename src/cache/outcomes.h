/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers what came of loads that gave no map: which modules could not be had under which ids, and which are had as
 * another. Bounded by count, dropping the oldest first. */
#ifndef CACHE_OUTCOMES_H
#define CACHE_OUTCOMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/hash.h"
#include "uploads/alias.h"

enum outcome_class {
	OUTCOME_NONE,      /* nothing is remembered */
	FAILURE_MISSING,   /* no source has it */
	FAILURE_CORRUPT,   /* a source has it, but it cannot be read */
	FAILURE_TOO_LARGE, /* a source has it, but it is above a limit of this server */
	FAILURE_TEMPORARY, /* a source did not answer properly */
	OUTCOME_REDIRECT,  /* no failure: the id leads to an uploaded executable */
};

enum { FAILURE_WHY_SIZE = 80 };

struct outcomes;
struct outcomes *outcomes_new(const struct config *c);
void outcomes_free(struct outcomes *f);

struct outcome {
	enum outcome_class class;
	uint64_t marker;                /* the module's invalidation marker at that time */
	int64_t until;                  /* clock_now() when it is forgotten */
	int64_t checked;                /* when the marker was last seen unchanged */
	char why[FAILURE_WHY_SIZE];     /* what is wrong with a file, or more about a missing one; may be empty */
	unsigned source;                /* for FAILURE_CORRUPT: its number, from 1; 0: none */
	struct symbfile_alias redirect; /* for OUTCOME_REDIRECT: where it leads */
};

/* What is wrong with a file, in printable ASCII, cut to fit. */
void failure_why(char why[FAILURE_WHY_SIZE], const char *text);

/* hash: the module; spelling: the debug id as it was requested. OUTCOME_NONE if nothing is remembered any more. */
struct outcome outcomes_get(struct outcomes *f, const struct module_hash *hash, const struct module_hash *spelling);
/* Whole seconds from now to `until`, rounded up and at least 1: by then nothing is remembered any more. */
unsigned failure_seconds(int64_t until, int64_t now);
/* Remembers it. Repeated temporary failures are remembered twice as long each time. Returns `until`; 0 if out of
 * memory. */
int64_t outcomes_set(struct outcomes *f, const struct module_hash *hash, const struct module_hash *spelling,
        const struct outcome *what);
void outcomes_checked(
        struct outcomes *f, const struct module_hash *hash, const struct module_hash *spelling, int64_t checked);
/* Tells that a source, from 1, has given a file, and whether that was good. A source that gives one corrupt file after
 * the other serves junk: from then on, every `failure_ttl_max`, one of them is forgotten, so that who asks for it sees
 * whether the source was mended. After a good file, all that were corrupt before are. */
void outcomes_source(struct outcomes *f, unsigned source, bool good);
/* Forgets all spellings of a module. */
void outcomes_forget(struct outcomes *f, const struct module_hash *hash);

#endif
