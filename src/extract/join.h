/* SPDX-License-Identifier: Apache-2.0 */
/* Hands on the results of units in the order of the units, whichever thread made them, and when. */
#ifndef EXTRACT_JOIN_H
#define EXTRACT_JOIN_H

#include <pthread.h>

#include "extract/coverage.h"
#include "extract/line_table.h"
#include "extract/result.h"

struct join {
	const struct symbfile_sink *sink;
	struct coverage *coverage;
	/* Names code that has no name in the debug data; NULL: nothing does. Set after join_init. */
	enum err (*name)(void *arg, uint64_t address, struct str *name, struct error *e);
	void *name_arg;
	struct result **results; /* those that wait for an earlier one; guarded by lock, as is all below */
	size_t count, next;      /* of the units; the one that comes next */
	size_t waiting;          /* bytes that results take */
	bool busy;               /* a thread hands results on */
	enum err err;            /* the first failure in the order of units */
	struct error error;
	uint64_t ranges, pads;   /* handed on */
	uint64_t damaged, lost;  /* malformed units; those of them that gave no function */
	struct error damage;     /* of the first of them */
	struct line_table lines; /* of code that no unit so far has a function for; to be sorted */
	pthread_mutex_t lock;
	pthread_cond_t moved; /* next has changed, or an error was set */
};

/* What is passed is borrowed until join_release. */
enum err join_init(
        struct join *j, size_t units, struct coverage *coverage, const struct symbfile_sink *sink, struct error *e);
void join_release(struct join *j);
/* Waits until there is room for the result of this unit. False: something failed, stop. */
bool join_wait(struct join *j, size_t unit);
/* Records a failure that is of no unit. */
void join_fail(struct join *j, enum err err, const struct error *error);
/* Takes the result of a unit. If it is ERR_CORRUPT, it is counted, and what it has is handed on; other failures end the
 * extraction. */
void join_add(struct join *j, size_t unit, struct result *r);
/* Hands on the records of a result whose code has already been taken from the coverage. Call it when all units are
 * done. */
enum err join_emit(struct join *j, const struct result *r, struct error *e);
/* The same, but takes the code from the coverage. A function that begins where a known one begins is the same
 * function, described by another unit, and is left out. */
enum err join_emit_new(struct join *j, const struct result *r, struct error *e);

#endif
