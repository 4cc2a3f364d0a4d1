/* SPDX-License-Identifier: Apache-2.0 */
/* Apple's MetricKit: a tree of calls, the innermost outside, each object of a frame in a list of the one it called:
 *   "callStackRootFrames":[{"binaryUUID":"70B8…","offsetIntoBinaryTextSegment":165304,"binaryName":"MyApp",
 *                           "subFrames":[{…}]}]
 * Members come in any order. A frame is told as soon as all three are known, and its name goes behind the last. Despite
 * its name, the offset is that in the image. */
#include <config.h>

#include "text/formats.h"

enum { LEVELS = 512, NAME_MAX_BYTES = 128, UUID_BYTES = 36 };
#define OFFSET_MAX (UINT64_C(1) << 40)

struct metrickit {
	unsigned root; /* the depth of objects of the innermost frames; 0: none is open */
	struct level {
		char name[NAME_MAX_BYTES], uuid[UUID_BYTES];
		uint8_t name_len, uuid_len; /* 0: not told so far */
		bool has_offset;
		uint64_t offset;
	} levels[LEVELS];
};

static struct level *level_at(struct metrickit *m, unsigned depth)
{
	return m && m->root && depth >= m->root && depth - m->root < LEVELS ? &m->levels[depth - m->root] : NULL;
}

void text_metrickit_begin(struct text_reader *r, unsigned depth)
{
	struct metrickit *m = text_state(r, &text_metrickit);
	if (m)
		m->root = depth;
}

void text_metrickit_open(struct text_reader *r, unsigned depth)
{
	struct level *level = level_at(text_state_so_far(r, &text_metrickit), depth);
	if (level)
		level->name_len = level->uuid_len = level->has_offset = 0;
}

void text_metrickit_close(struct text_reader *r, unsigned depth)
{
	struct metrickit *m = text_state_so_far(r, &text_metrickit);
	if (m && m->root && depth < m->root)
		m->root = 0;
}

static uint8_t keep(char *room, size_t size, struct str value)
{
	if (value.len > size || memchr(value.data, '\\', value.len))
		return 0;
	memcpy(room, value.data, value.len);
	return (uint8_t)value.len;
}

void text_metrickit_member(struct text_reader *r, unsigned depth, struct str key, struct str value, const char *end)
{
	struct metrickit *m = text_state_so_far(r, &text_metrickit);
	struct level *level = level_at(m, depth);
	struct rest digits = {value.data, value.data + value.len};
	if (!level || (level->name_len && level->uuid_len && level->has_offset))
		return;
	if (str_equal(key, str_from("binaryName")))
		level->name_len = keep(level->name, sizeof level->name, value);
	else if (str_equal(key, str_from("binaryUUID")))
		level->uuid_len = keep(level->uuid, sizeof level->uuid, value);
	else if (str_equal(key, str_from("offsetIntoBinaryTextSegment")))
		level->has_offset = take_decimal(&digits, &level->offset) && level->offset < OFFSET_MAX;
	if (!level->name_len || !level->uuid_len || !level->has_offset)
		return;
	struct text_frame f = {.base = TEXT_IMAGE, .offset = level->offset, .line = r->line - r->inner_lines};
	f.address = f.offset - (depth > m->root && f.offset);
	text_edit_one(r, &f, end, end, TEXT_JSON_SENTRY);
	text_found(r, &f, (struct str){level->name, level->name_len}, (struct str){level->uuid, level->uuid_len},
	        TEXT_ID_UUID);
}

/* Its lines are those of JSON, which asks it. */
TEXT_FORMAT(text_metrickit, .names = "MetricKit", .state_size = sizeof(struct metrickit), .late = true);
