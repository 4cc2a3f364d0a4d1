/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "map/file_map.h"

bool file_map_address(const struct file_map *m, uint64_t offset, uint64_t *address)
{
	for (unsigned i = 0; i < m->count; i++)
		if (offset >= m->items[i].offset && offset - m->items[i].offset < m->items[i].size) {
			*address = m->items[i].address + (offset - m->items[i].offset);
			return true;
		}
	return false;
}
