/* SPDX-License-Identifier: Apache-2.0 */
/* Leases on modules: those that this process holds and renews, and those elsewhere, at which it looks again now and
 * then. */
#ifndef MODULES_LEASE_H
#define MODULES_LEASE_H

#include <pthread.h>
#include <sys/queue.h>

#include "store/page_memcached.h"

/* Of one load; zero at first. */
struct lease {
	struct module_hash hash;
	uint64_t token;
	bool held; /* its loader's own */
	/* under the lock */
	uint64_t marker; /* of the module's invalidations, when it was taken */
	bool lost;       /* somebody else may have it */
	bool stale;      /* the module was invalidated meanwhile: not renewed */
	LIST_ENTRY(lease) next;
	/* while another host has it */
	int64_t look_at; /* when to look next */
	int64_t until;   /* until when to wait; 0: nobody had it */
	TAILQ_ENTRY(lease) elsewhere;
};

struct leases {
	pthread_mutex_t *lock; /* of struct modules; guards all below */
	LIST_HEAD(, lease) held;
	TAILQ_HEAD(, lease) elsewhere; /* who is to be looked at first */
	unsigned elsewhere_count, lookers;
};

/* lookers: threads that look at those elsewhere. */
void leases_init(struct leases *ls, pthread_mutex_t *lock, unsigned lookers);

/* ---- held; without the lock ---- */

/* MC_OK: it is taken, and to be held or given back. MC_EXISTS: another host has it. */
enum mc_status lease_take(struct lease *l, struct mc_client *c);
void lease_hold(struct leases *ls, struct lease *l, uint64_t marker);
/* c NULL: it runs out. */
void lease_give_back(struct leases *ls, struct lease *l, struct mc_client *c);
void leases_renew(struct leases *ls, struct mc_client *c);

/* ---- under the lock ---- */

/* The module was invalidated. */
void leases_forget(struct leases *ls, const struct module_hash *hash);
/* To the end of those that are looked at. With many each is looked at less often, so that memcached is not asked more.
 */
void leases_wait(struct leases *ls, struct lease *l, int64_t now);
/* The first that it is time to look at, taken out; NULL: none. */
struct lease *leases_due(struct leases *ls, int64_t now);

#endif
