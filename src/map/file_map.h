/* SPDX-License-Identifier: Apache-2.0 */
/* Where an executable's file is loaded: leads from offsets in the file, as perf and the kernel write them, to
 * addresses. */
#ifndef MAP_FILE_MAP_H
#define MAP_FILE_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum { FILE_MAP_MAX = 8 };

struct file_map {
	struct file_map_item {
		uint64_t offset, size, address;
	} items[FILE_MAP_MAX];
	unsigned count; /* 0: not known, or more than fit */
};

/* The address of an offset in the file; false if no part of it has that. */
static inline bool file_map_address(const struct file_map *m, uint64_t offset, uint64_t *address)
{
	for (unsigned i = 0; i < m->count; i++)
		if (offset >= m->items[i].offset && offset - m->items[i].offset < m->items[i].size) {
			*address = m->items[i].address + (offset - m->items[i].offset);
			return true;
		}
	return false;
}

#endif
