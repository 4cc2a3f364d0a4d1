/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of missing modules of all hosts, through memcached. Each process writes its own under a name of its own,
 * and all names are in one more value; so what a process counted outlives it for a week. */
#ifndef SYMFILES_MISSING_SHARED_H
#define SYMFILES_MISSING_SHARED_H

#include "cache/memcached.h"
#include "symfiles/missing.h"

/* Writes this process's list if it has changed since the last time. c may be NULL, or have no servers. */
void missing_share(struct missing_list *l, struct mc_client *c, int64_t now);

/* The most wanted modules of all hosts as JSON, at most max, as docs/api.md has it; the caller frees it. c: NULL
 * without memcached. ERR_NO_MEMORY; ERR_UNAVAILABLE: memcached does not answer. */
enum err missing_json(
        char **text, struct missing_list *l, struct mc_client *c, size_t max, int64_t now, struct error *e);

#endif
