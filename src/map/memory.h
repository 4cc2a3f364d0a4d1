/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a map takes while it is built: limited, and reported to a callback. Private to the builders of maps. */
#ifndef MAP_MEMORY_H
#define MAP_MEMORY_H

#include <stdatomic.h>

#include "map/offmap.h"

struct offmap_options {
	bool nearest;          /* lookup = nearest: the nearest symbol at or below answers, whatever its size */
	uint64_t raw_budget;   /* bytes; pages beyond these are kept compressed; UINT64_MAX: no limit */
	enum page_codec codec; /* to compress them with */
	uint64_t memory_max;   /* most bytes held while the map is made, else ERR_TOO_LARGE; 0: no limit */
	/* Called, on any thread, with each change in the bytes held; in the end the changes add up to 0. May be NULL.
	 */
	void (*charge)(void *arg, int64_t bytes);
	void *charge_arg;
};

struct offmap_memory {
	uint64_t max;
	void (*charge)(void *arg, int64_t bytes);
	void *arg;
	_Atomic uint64_t charged;
};

void offmap_memory_init(struct offmap_memory *m, const struct offmap_options *options);
/* Reports that all memory is given back. */
void offmap_memory_release(struct offmap_memory *m);
/* Sets how many bytes are held now. False if that is above memory_max. May be called on any thread. */
bool offmap_memory_set(struct offmap_memory *m, uint64_t bytes);

#endif
