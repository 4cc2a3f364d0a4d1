/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 16, LARGE = 1 << 16 /* items */ };

bool array_enlarge(void *array, uint32_t *cap, size_t need, size_t size)
{
	uint32_t wanted = *cap ? *cap : FIRST;
	while (wanted < need) {
		/* a large one in four even steps to its double */
		uint32_t more = wanted < LARGE ? wanted : (UINT32_C(1) << (31 - __builtin_clz(wanted))) / 4;
		if (wanted > UINT32_MAX - more)
			return false;
		wanted += more;
	}
	void *items;
	memcpy(&items, array, sizeof items);
	items = realloc(items, wanted * size);
	if (!items)
		return false;
	memcpy(array, &items, sizeof items);
	*cap = wanted;
	return true;
}
