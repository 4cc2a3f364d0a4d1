/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules were asked for and not found: how often, when, and by whom last. Bounded; what several clients ask for
 * outlives what one asks for, however often. */
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
	uint64_t clients;    /* a bit of each, by its hash: the number of bits is about how many they are, up to some
	                        dozens */
	int64_t first, last; /* seconds since 1970 */
};

/* For all threads. seed: random, so that nobody can choose modules that displace others. */
struct missing_list;
struct missing_list *missing_list_new(uint64_t seed);
void missing_list_free(struct missing_list *l);

/* Counts a module, and logs it once a day. Names and ids that do not fit are left out: no symbol file is called so. So
 * is what would take the place of a module that several clients ask for. client: a hash, the same on all hosts. */
void missing_note(
        struct missing_list *l, struct str name, struct str id, struct str agent, uint64_t client, int64_t now);
/* About how many clients have asked for it. */
unsigned missing_clients(const struct missing_module *m);
/* Copies those asked for at least at `since`, in any order; returns how many, at most max. */
enum { MISSING_MAX = 4096 };
size_t missing_copy(struct missing_list *l, struct missing_module *to, size_t max, int64_t since);
/* Whether something was counted since the last call, or the last news were not told. */
bool missing_has_news(struct missing_list *l);
void missing_not_told(struct missing_list *l);

#endif
