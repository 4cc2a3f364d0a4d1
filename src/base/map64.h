/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from 64-bit keys to 64-bit values. */
#ifndef BASE_MAP64_H
#define BASE_MAP64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map64_slot {
	uint64_t key;
	uint64_t value; /* 0: the slot is free */
};

struct map64 {
	struct map64_slot *slots;
	size_t cap, count; /* cap is 0 or a power of two */
};

/* A cleared struct map64 is an empty table. */
void map64_release(struct map64 *m);
/* Empty again, with the memory that it has, unless that was far more than needed: then this would take long again and
 * again. */
void map64_reset(struct map64 *m);
/* 0: not there. */
uint64_t map64_get(const struct map64 *m, uint64_t key);
/* The key must not be there yet; value is not 0. False if out of memory. */
bool map64_put(struct map64 *m, uint64_t key, uint64_t value);

#endif
