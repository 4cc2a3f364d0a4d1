/* SPDX-License-Identifier: Apache-2.0 */
/* Leases on modules: those that this process holds and renews, and those that other hosts hold, on which it checks now
 * and then. */
#ifndef MODULES_LEASE_H
#define MODULES_LEASE_H

#include <pthread.h>
#include <sys/queue.h>

#include "cache/page_memcached.h"

/* The lease of one load. Starts zeroed. */
struct lease {
	struct module_hash hash;
	uint64_t token;
	bool held; /* used only by its loader */
	/* under the lock */
	uint64_t marker; /* the module's invalidation marker when the lease was taken */
	bool lost;       /* another process may hold it now */
	bool stale;      /* the module was invalidated: the lease is not renewed */
	LIST_ENTRY(lease) next;
	/* while another host holds it */
	int64_t look_at; /* when to check next */
	int64_t until;   /* how long to wait for the other host; 0: no other host held it */
	TAILQ_ENTRY(lease) elsewhere;
};

struct leases {
	pthread_mutex_t *lock; /* of struct modules; guards all below */
	LIST_HEAD(, lease) held;
	TAILQ_HEAD(, lease) elsewhere; /* in the order of look_at */
	unsigned elsewhere_count, lookers;
};

/* lookers: threads that check leases of other hosts. */
void leases_init(struct leases *ls, pthread_mutex_t *lock, unsigned lookers);

/* ---- held; without the lock ---- */

/* MC_OK: taken; then hold it or give it back. MC_EXISTS: another host holds it. */
enum mc_status lease_take(struct lease *l, struct mc_client *c);
void lease_hold(struct leases *ls, struct lease *l, uint64_t marker);
/* If c is NULL, the lease runs out by itself. */
void lease_give_back(struct leases *ls, struct lease *l, struct mc_client *c);
void leases_renew(struct leases *ls, struct mc_client *c);

/* ---- under the lock ---- */

/* Marks the leases of an invalidated module as stale. */
void leases_forget(struct leases *ls, const struct module_hash *hash);
/* Queues a lease of another host for its next check. The more there are, the rarer each check, so that memcached gets
 * no more requests. */
void leases_wait(struct leases *ls, struct lease *l, int64_t now);
/* Takes out and returns the first lease that is due for a check; NULL: none. */
struct lease *leases_due(struct leases *ls, int64_t now);

#endif
