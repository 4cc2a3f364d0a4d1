/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/markers.h"

#include <stdlib.h>

#include "base/log.h"

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

static bool is_kept(const struct markers *ms, const struct module_hash *hash)
{
	const struct marker *marker;
	SLIST_FOREACH(marker, &ms->list, next)
		if (module_hash_equal(&marker->hash, hash))
			return true;
	return false;
}

void markers_keep(struct markers *ms, const struct module_hash *hash)
{
	pthread_mutex_lock(&ms->lock);
	if (!is_kept(ms, hash)) {
		struct marker *marker = ms->count < MARKERS_MAX ? malloc(sizeof *marker) : NULL;
		if (marker) {
			marker->hash = *hash;
			SLIST_INSERT_HEAD(&ms->list, marker, next);
			ms->count++;
		} else {
			ms->dropped++;
		}
	}
	pthread_mutex_unlock(&ms->lock);
}

static struct marker *take_first(struct marker_list *list)
{
	struct marker *marker = SLIST_FIRST(list);
	if (marker)
		SLIST_REMOVE_HEAD(list, next);
	return marker;
}

static void note_untold(unsigned count)
{
	if (count)
		log_event(LOG_LEVEL_WARNING, "not announced",
		        "memcached did not learn of %u invalidations: other processes may use the old modules for "
		        "up to root_max_age",
		        count);
}

void markers_put(struct markers *ms, struct mc_client *c)
{
	struct marker *marker;
	pthread_mutex_lock(&ms->lock);
	struct marker_list list = ms->list;
	unsigned dropped = ms->dropped;
	SLIST_INIT(&ms->list);
	ms->count = 0;
	ms->dropped = 0;
	pthread_mutex_unlock(&ms->lock);
	note_untold(dropped);
	while ((marker = take_first(&list))) {
		if (page_memcached_invalidate(c, &marker->hash) != MC_OK)
			markers_keep(ms, &marker->hash);
		free(marker);
	}
}

void markers_note_left(struct markers *ms)
{
	pthread_mutex_lock(&ms->lock);
	unsigned left = ms->count + ms->dropped;
	pthread_mutex_unlock(&ms->lock);
	note_untold(left);
}

void markers_release(struct markers *ms)
{
	struct marker *marker;
	while ((marker = take_first(&ms->list)))
		free(marker);
	pthread_mutex_destroy(&ms->lock);
}
