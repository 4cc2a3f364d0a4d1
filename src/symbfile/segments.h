/* SPDX-License-Identifier: Apache-2.0 */
/* The load segments of an executable: they lead from offsets in its file to its addresses. */
#ifndef SYMBFILE_SEGMENTS_H
#define SYMBFILE_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/str.h"
#include "map/file_map.h"

enum { LOAD_SEGMENTS_MAX = 64 };

/* A PT_LOAD segment: where it is in the file, and among the executable's addresses. */
struct load_segment {
	uint64_t offset, address, file_size, memory_size;
};
struct load_segments {
	struct load_segment items[LOAD_SEGMENTS_MAX];
	unsigned count; /* 0: not known */
};
/* "OFFSET:ADDRESS:FILESIZE:MEMORYSIZE,…", each up to 16 hex digits: what the header FileSegments has. */
bool load_segments_parse(struct load_segments *s, struct str text);
void load_segments_print(struct buffer *out, const struct load_segments *s);

/* What is needed of them to look offsets up. */
struct file_map file_map_of(const struct load_segments *s);

#endif
