/* SPDX-License-Identifier: Apache-2.0 */
/* What a map takes while it is built: held against a bound, and told to who keeps account of it. Private to the
 * builders of maps. */
#ifndef FORMAT_OFFMAP_MEMORY_H
#define FORMAT_OFFMAP_MEMORY_H

#include <stdatomic.h>

#include "format/offmap.h"

struct offmap_options {
	bool nearest;          /* lookup = nearest: the symbol at or below answers, whatever its size */
	uint64_t raw_budget;   /* pages above so many bytes wait compressed; UINT64_MAX: never */
	enum page_codec codec; /* with this */
	uint64_t memory_max;   /* bytes that may be held while the map is made, or ERR_TOO_LARGE; 0: no bound */
	/* Told how what is held changes, until it is 0; from any thread. NULL: nobody. */
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
/* All is given back. */
void offmap_memory_release(struct offmap_memory *m);
/* So many bytes are held now. false: more than may be. From any thread. */
bool offmap_memory_set(struct offmap_memory *m, uint64_t bytes);

#endif
