/* SPDX-License-Identifier: Apache-2.0 */
/* Makes room at the end of an array, doubling it when it is full. */
#ifndef BASE_GROW_H
#define BASE_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Returns the array, moved if need be, with room for at least len + 1 items. NULL: out of memory; the old array is
 * unchanged. */
static inline void *grown(void *items, size_t *cap, size_t len, size_t size)
{
	if (len < *cap)
		return items;
	size_t want = *cap ? *cap * 2 : 16;
	if (want <= len)
		want = len + 1;
	if (want > SIZE_MAX / 2 / size)
		return NULL;
	void *moved = realloc(items, want * size);
	if (moved)
		*cap = want;
	return moved;
}

#endif
