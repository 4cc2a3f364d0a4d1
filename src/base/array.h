/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* array_reserve's way when there is not enough room. */
bool array_enlarge(void *array, uint32_t *cap, size_t need, size_t size) __attribute__((nonnull));

/* Makes room for `need` items of `size` bytes. `array` is the address of the pointer to the items (of any type, NULL
 * at first), which may move; `cap` says for how many items there is room. Small arrays are doubled; large ones grow
 * by a quarter, which the system can do without copying. false: out of memory; nothing has changed. */
static inline bool array_reserve(void *array, uint32_t *cap, size_t need, size_t size)
{
	return need <= *cap || array_enlarge(array, cap, need, size);
}

/* Appends a copy of an item of `size` bytes, and counts it in *count. */
static inline bool array_append(void *array, uint32_t *cap, size_t *count, const void *item, size_t size)
{
	char *items;
	if (!array_reserve(array, cap, *count + 1, size))
		return false;
	memcpy(&items, array, sizeof items);
	memcpy(items + (*count)++ * size, item, size);
	return true;
}

#endif
