/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/shares.h"

#include <stdlib.h>

struct share *shares_get(struct shares *all, struct client_key client)
{
	struct share *s;
	unsigned chain = (unsigned)(client_key_hash(client, all->seed) % SHARE_CHAINS);
	LIST_FOREACH(s, &all->chains[chain], chain)
		if (client_key_equal(s->client, client))
			break;
	if (!s) {
		if (!(s = calloc(1, sizeof *s)))
			return NULL;
		s->client = client;
		LIST_INSERT_HEAD(&all->chains[chain], s, chain);
	}
	s->users++;
	return s;
}

void share_put(struct share *s)
{
	if (!s || --s->users)
		return;
	LIST_REMOVE(s, chain);
	free(s);
}

bool share_allows(uint64_t held, uint64_t used, uint64_t most, bool others_wait)
{
	if (!held || used >= most)
		return used < most;
	return used < most - most / 4 && (!others_wait || held < (most + 1) / 2);
}
