/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for one request: allocated piece by piece, freed at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
	struct arena_block *head; /* the block in use; older ones behind it */
	size_t used;              /* bytes handed out since the last reset */
	size_t max;               /* cap on used */
};

/* At most max bytes will be handed out; allocates nothing yet. */
void arena_init(struct arena *a, size_t max);
void arena_release(struct arena *a);
/* Frees all but one block, ready for the next request. */
void arena_reset(struct arena *a);
/* n bytes, aligned to 16, not cleared; NULL above the cap or without memory. n may be 0. */
void *arena_alloc(struct arena *a, size_t n) __attribute__((malloc));
/* count * size bytes, cleared; NULL also when the product overflows. */
void *arena_calloc(struct arena *a, size_t count, size_t size) __attribute__((malloc));

#endif
