/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of modules that could not be had under their ids, bounded by count, the oldest out first. */
#ifndef FAILURES_H
#define FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/hash.h"
#include "store/symbfile_alias.h"

enum failure_class {
	FAILURE_NONE,
	FAILURE_MISSING,   /* no source has it */
	FAILURE_CORRUPT,   /* a source has it, and it cannot be read */
	FAILURE_TEMPORARY, /* a source did not answer as it should */
	FAILURE_ALIAS,     /* it is what was uploaded for an executable */
};

enum { FAILURE_WHY_SIZE = 80 };

struct failures;
struct failures *failures_new(const struct config *c);
void failures_free(struct failures *f);

struct failure {
	enum failure_class class;
	uint64_t marker;             /* the module's invalidation marker then */
	int64_t until;               /* clock_now() when it is forgotten */
	int64_t checked;             /* when the marker was last seen to be that */
	char why[FAILURE_WHY_SIZE];  /* of a file that cannot be used; "" says nothing */
	struct symbfile_alias alias; /* of FAILURE_ALIAS */
};

/* What is wrong with a file, of printable ASCII; cut to its room. */
void failure_why(char why[FAILURE_WHY_SIZE], const char *text);

/* hash: the module; spelling: the debug id as it was asked. FAILURE_NONE when nothing is remembered, or no longer. */
struct failure failures_get(struct failures *f, const struct module_hash *hash, const struct module_hash *spelling);
/* Whole seconds from now to `until`, rounded up and at least 1: who asks again then is not answered from memory. */
unsigned failure_seconds(int64_t until, int64_t now);
/* `until` of what is not looked at. A temporary failure in a row is remembered twice as long as the one before. Returns
 * until when; 0 without memory. */
int64_t failures_set(struct failures *f, const struct module_hash *hash, const struct module_hash *spelling,
        const struct failure *what);
void failures_checked(
        struct failures *f, const struct module_hash *hash, const struct module_hash *spelling, int64_t checked);
/* All spellings of a module. */
void failures_forget(struct failures *f, const struct module_hash *hash);

#endif
