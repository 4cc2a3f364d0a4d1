/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/segments.h"

#include <inttypes.h>

#include "base/hex.h"

static bool parse_segment(struct load_segment *s, struct str text)
{
	return hex_read_number(str_cut(&text, ':'), &s->offset) && hex_read_number(str_cut(&text, ':'), &s->address) &&
	       hex_read_number(str_cut(&text, ':'), &s->file_size) && hex_read_number(text, &s->memory_size);
}

bool load_segments_parse(struct load_segments *s, struct str text)
{
	s->count = 0;
	while (text.len) {
		if (s->count == LOAD_SEGMENTS_MAX || !parse_segment(&s->items[s->count], str_cut(&text, ',')))
			return false;
		s->count++;
	}
	return s->count > 0;
}

void load_segments_print(struct buffer *out, const struct load_segments *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct load_segment *l = &s->items[i];
		buffer_printf(out, "%s%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64, i ? "," : "", l->offset,
		        l->address, l->file_size, l->memory_size);
	}
}

/* Segments that only memory has are in no file. */
struct file_map file_map_of(const struct load_segments *s)
{
	struct file_map m = {.count = 0};
	for (unsigned i = 0; i < s->count; i++) {
		if (!s->items[i].file_size)
			continue;
		if (m.count == FILE_MAP_MAX)
			return (struct file_map){.count = 0};
		m.items[m.count].offset = s->items[i].offset;
		m.items[m.count].size = s->items[i].file_size;
		m.items[m.count++].address = s->items[i].address;
	}
	return m;
}
