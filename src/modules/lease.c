/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/lease.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/process.h"

enum { LEASE_POLL_MS = 30 };

void leases_init(struct leases *ls, pthread_mutex_t *lock, unsigned lookers)
{
	*ls = (struct leases){.lock = lock, .lookers = lookers};
	TAILQ_INIT(&ls->elsewhere);
}

/* ---- held ---- */

enum mc_status lease_take(struct lease *l, struct mc_client *c)
{
	l->token = random_u64();
	return page_memcached_lease(c, &l->hash, l->token);
}

void lease_hold(struct leases *ls, struct lease *l, uint64_t marker)
{
	pthread_mutex_lock(ls->lock);
	l->marker = marker;
	LIST_INSERT_HEAD(&ls->held, l, next);
	pthread_mutex_unlock(ls->lock);
	l->held = true;
}

void lease_give_back(struct leases *ls, struct lease *l, struct mc_client *c)
{
	pthread_mutex_lock(ls->lock);
	LIST_REMOVE(l, next);
	pthread_mutex_unlock(ls->lock);
	l->held = false;
	if (c)
		page_memcached_lease_release(c, &l->hash, l->token);
}

/* A copy of what a renewal needs: memcached is never called under the lock. */
struct renewal {
	struct module_hash hash;
	uint64_t token, marker;
};

static struct renewal *list_renewals(struct leases *ls, size_t *count)
{
	const struct lease *l;
	size_t all = 0;
	*count = 0;
	pthread_mutex_lock(ls->lock);
	LIST_FOREACH(l, &ls->held, next)
		all++;
	struct renewal *list = malloc((all + 1) * sizeof *list);
	LIST_FOREACH(l, &ls->held, next)
		if (list && !l->stale) /* so that whoever loads the new file need not wait for the old one */
			list[(*count)++] = (struct renewal){l->hash, l->token, l->marker};
	pthread_mutex_unlock(ls->lock);
	return list;
}

/* Records a lost lease. Returns whether the lease is still held. */
static bool note_renewal(struct leases *ls, uint64_t token, enum mc_status status)
{
	struct lease *l;
	pthread_mutex_lock(ls->lock);
	LIST_FOREACH(l, &ls->held, next)
		if (l->token == token)
			break;
	if (l && status != MC_OK && status != MC_DOWN)
		l->lost = true;
	pthread_mutex_unlock(ls->lock);
	return l;
}

void leases_renew(struct leases *ls, struct mc_client *c)
{
	size_t count;
	struct renewal *list = list_renewals(ls, &count);
	for (size_t i = 0; i < count; i++) {
		const struct renewal *r = &list[i];
		enum mc_status status = page_memcached_lease_renew(c, &r->hash, r->token, r->marker);
		bool held = note_renewal(ls, r->token, status);
		if (!held && status == MC_OK) /* given back meanwhile: this took it anew */
			page_memcached_lease_release(c, &r->hash, r->token);
	}
	free(list);
}

void leases_forget(struct leases *ls, const struct module_hash *hash)
{
	struct lease *l;
	LIST_FOREACH(l, &ls->held, next)
		if (module_hash_equal(&l->hash, hash))
			l->stale = true;
}

/* ---- elsewhere ---- */

void leases_wait(struct leases *ls, struct lease *l, int64_t now)
{
	l->look_at = now + LEASE_POLL_MS * MS * (1 + ls->elsewhere_count / ls->lookers);
	TAILQ_INSERT_TAIL(&ls->elsewhere, l, elsewhere);
	ls->elsewhere_count++;
}

struct lease *leases_due(struct leases *ls, int64_t now)
{
	struct lease *l = TAILQ_FIRST(&ls->elsewhere);
	if (!l || l->look_at > now)
		return NULL;
	TAILQ_REMOVE(&ls->elsewhere, l, elsewhere);
	ls->elsewhere_count--;
	return l;
}
