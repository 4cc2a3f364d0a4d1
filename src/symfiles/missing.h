/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules were asked for and not found: how often, when, and by whom last. Bounded; what is asked for often
 * outlives what is asked for once. */
#ifndef SYMFILES_MISSING_H
#define SYMFILES_MISSING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { MISSING_NAME = 160, MISSING_ID = 72, MISSING_AGENT = 100 };

struct missing_module {
	char name[MISSING_NAME], id[MISSING_ID]; /* an id's letters in upper case */
	char agent[MISSING_AGENT];               /* the User-Agent of who asked last, cut; may be empty */
	uint64_t count;
	int64_t first, last; /* seconds since 1970 */
};

/* For all threads. seed: random, so that nobody can choose modules that displace others. */
struct missing_list;
struct missing_list *missing_list_new(uint64_t seed);
void missing_list_free(struct missing_list *l);

/* Counts a module, and logs it once a day. Names and ids that do not fit are left out: no symbol file is called so. */
void missing_note(struct missing_list *l, struct str name, struct str id, struct str agent, int64_t now);
/* Copies those asked for at least at `since`, in any order; returns how many, at most max. */
enum { MISSING_MAX = 4096 };
size_t missing_copy(struct missing_list *l, struct missing_module *to, size_t max, int64_t since);
/* Whether something was counted since the last call, or the last news were not told. */
bool missing_has_news(struct missing_list *l);
void missing_not_told(struct missing_list *l);

#endif
