/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/markers.h"

#include <stdlib.h>

enum { MARKERS_MAX = 10000 };

struct marker {
	struct module_hash hash;
	SLIST_ENTRY(marker) next;
};

void markers_init(struct markers *ms)
{
	*ms = (struct markers){.count = 0};
	pthread_mutex_init(&ms->lock, NULL);
}

void markers_keep(struct markers *ms, const struct module_hash *hash)
{
	struct marker *marker = malloc(sizeof *marker);
	pthread_mutex_lock(&ms->lock);
	if (marker && ms->count < MARKERS_MAX) {
		marker->hash = *hash;
		SLIST_INSERT_HEAD(&ms->list, marker, next);
		ms->count++;
		marker = NULL;
	}
	pthread_mutex_unlock(&ms->lock);
	free(marker);
}

static struct marker *take_first(struct marker_list *list)
{
	struct marker *marker = SLIST_FIRST(list);
	if (marker)
		SLIST_REMOVE_HEAD(list, next);
	return marker;
}

void markers_put(struct markers *ms, struct mc_client *c)
{
	struct marker *marker;
	pthread_mutex_lock(&ms->lock);
	struct marker_list list = ms->list;
	SLIST_INIT(&ms->list);
	ms->count = 0;
	pthread_mutex_unlock(&ms->lock);
	while ((marker = take_first(&list))) {
		if (page_memcached_invalidate(c, &marker->hash) != MC_OK)
			markers_keep(ms, &marker->hash);
		free(marker);
	}
}

void markers_release(struct markers *ms)
{
	struct marker *marker;
	while ((marker = take_first(&ms->list)))
		free(marker);
	pthread_mutex_destroy(&ms->lock);
}
