/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for one request: allocated piece by piece, freed at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/account.h"

struct arena_block;
struct block_pool;

struct arena {
	struct arena_block *head; /* the block in use; older ones behind it */
	size_t used;              /* bytes handed out since the last reset */
	size_t max;               /* cap on used */
	/* arena_charge */
	bool charges, refused; /* something since the last reset had no room in the account */
	enum account_kind kind;
	uint64_t small_max, charged;
};

/* From now on arenas that are charged take blocks from this pool, once they are large, so that their pages are not
 * faulted in anew for each request; NULL: from malloc, as before. A block goes back to the pool that it came from. */
void arena_take_blocks(struct block_pool *pool);

/* At most max bytes will be handed out; allocates nothing yet. */
void arena_init(struct arena *a, size_t max);
/* From now on what it has in use is charged, until the next reset, up to small_max bytes as what is small; without room
 * in the account there is no memory. */
void arena_charge(struct arena *a, enum account_kind kind, uint64_t small_max);
/* Charges what the caller holds beside it and frees before the next reset, or with a negative number gives it back.
 * False: no room, and nothing is charged. */
bool arena_hold(struct arena *a, int64_t bytes);
void arena_release(struct arena *a);
/* Frees all but one block, ready for the next request. */
void arena_reset(struct arena *a);
/* n bytes, aligned to 16, not cleared; NULL above the cap or without memory. n may be 0. */
void *arena_alloc(struct arena *a, size_t n) __attribute__((malloc));
/* count * size bytes, cleared; NULL also when the product overflows. */
void *arena_calloc(struct arena *a, size_t count, size_t size) __attribute__((malloc));

#endif
