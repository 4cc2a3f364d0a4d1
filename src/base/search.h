/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many of `count` items come before a place. `before` tells it of the item with a number; those of which it is true
 * come first. */
static inline size_t search_before(
        size_t count, bool (*before)(const void *items, size_t i, uint64_t key), const void *items, uint64_t key)
{
	size_t low = 0;
	/* without a branch on what is compared, which nobody can predict */
	for (size_t half; count; count -= half) {
		half = (count + 1) / 2;
		low += before(items, low + half - 1, key) ? half : 0;
	}
	return low;
}

struct search_array {
	const char *first; /* the field of the first item */
	size_t size;
};

static inline bool search_is_up_to(const void *array, size_t i, uint64_t key)
{
	const struct search_array *a = array;
	uint64_t value;
	memcpy(&value, a->first + i * a->size, sizeof value);
	return value <= key;
}

/* How many of `count` items of `size` bytes, which ascend by the uint64_t (or pointer) at the offset `field`, have at
 * most `key` there. */
static inline size_t search_up_to(const void *items, size_t count, size_t size, size_t field, uint64_t key)
{
	if (!count)
		return 0;
	struct search_array array = {(const char *)items + field, size};
	return search_before(count, search_is_up_to, &array, key);
}

/* For qsort and bsearch: orders items by the uint64_t that they begin with. */
static inline int search_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

#endif
