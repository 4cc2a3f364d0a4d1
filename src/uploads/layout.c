/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/layout.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hex.h"

#define FOLDER STORE_FOLDER

bool set_name_is_stored(struct str name)
{
	return str_is_word(name, "._-~") && name.len <= SET_NAME_MAX && name.data[0] != '.';
}

bool set_name_is_valid(struct str name)
{
	return set_name_is_stored(name) && !memchr(name.data, SET_OURS, name.len);
}

void part_name_print(char out[PART_NAME_SIZE], const struct part_name *name)
{
	snprintf(out, PART_NAME_SIZE, "%u.%u.%s.%" PRIu64 ".%" PRIu64 ".%" PRIu64, name->part, name->parts, name->hash,
	        name->counts.functions, name->counts.lines, name->counts.inlines);
}

bool layout_segment(struct str *path, struct str *segment)
{
	*segment = str_cut(path, '/');
	return segment->len > 0;
}

static bool is_lower_hex(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (hex_value(text.data[i]) < 0 || (text.data[i] >= 'A' && text.data[i] <= 'F'))
			return false;
	return text.len > 0;
}

bool part_name_parse(struct part_name *name, struct str text)
{
	uint64_t numbers[2], *counts[] = {&name->counts.functions, &name->counts.lines, &name->counts.inlines};
	for (unsigned i = 0; i < 2; i++)
		if (!str_number(str_cut(&text, '.'), SET_PARTS_MAX, &numbers[i]))
			return false;
	struct str hash = str_cut(&text, '.');
	if (numbers[0] >= numbers[1] || hash.len != PART_HASH || !is_lower_hex(hash))
		return false;
	name->part = (unsigned)numbers[0];
	name->parts = (unsigned)numbers[1];
	memcpy(name->hash, hash.data, PART_HASH);
	name->hash[PART_HASH] = 0;
	for (unsigned i = 0; i < 3; i++)
		if (!str_number(str_cut(&text, '.'), INT64_MAX, counts[i]))
			return false;
	return text.len == 0;
}

bool set_object_parse(struct set_object *o, struct str path)
{
	struct str kind, rest = path;
	if (!layout_segment(&rest, &kind) || !layout_segment(&rest, &o->set) || !layout_parse_kind(kind, &o->kind) ||
	        !set_name_is_stored(o->set))
		return false;
	o->name = rest;
	o->forced = str_equal(rest, str_from(MANIFEST_FORCED));
	o->manifest = o->forced || str_equal(rest, str_from(MANIFEST_NAME));
	return o->manifest || part_name_parse(&o->part, rest);
}

void layout_executable(char out[STORE_PATH_MAX], const struct file_id *id)
{
	char hex[FILE_ID_HEX + 1];
	file_id_hex(hex, id);
	snprintf(out, STORE_PATH_MAX, FOLDER "/%s", hex);
}

static void add_segment(char out[STORE_PATH_MAX], const char *text)
{
	size_t at = strlen(out);
	snprintf(out + at, STORE_PATH_MAX - at, "/%s", text);
}

void layout_below(char out[STORE_PATH_MAX], const struct file_id *id, const char *path)
{
	layout_executable(out, id);
	add_segment(out, path);
}

void layout_set(char out[STORE_PATH_MAX], const struct file_id *id, enum symbfile_kind kind, const char *set)
{
	layout_below(out, id, symbfile_kind_names[kind]);
	add_segment(out, set);
}

/* The longest has 42 + 11 + 65 + 120 bytes. */
void layout_object(
        char out[STORE_PATH_MAX], const struct file_id *id, enum symbfile_kind kind, const char *set, const char *name)
{
	layout_set(out, id, kind, set);
	add_segment(out, name);
}

/* The longest has 20 + 32 + 129 + 33 + 17 bytes. */
void layout_claim(char out[STORE_PATH_MAX], const struct claim *claim)
{
	char key[BUILD_ID_KEY + 1], build_id[BUILD_ID_HEX + 1], id[FILE_ID_HEX + 1];
	build_id_key(key, &claim->build_id);
	build_id_hex(build_id, claim->build_id.bytes, claim->build_id.len);
	file_id_hex(id, &claim->id);
	snprintf(out, STORE_PATH_MAX, FOLDER "/" CLAIMS_FOLDER "/%s/%s/%s/%" PRIx64, key, build_id, id,
	        claim->image_base);
}

void layout_claims(char out[STORE_PATH_MAX], const struct build_id_question *q)
{
	char key[BUILD_ID_KEY + 1];
	build_id_question_key(key, q);
	snprintf(out, STORE_PATH_MAX, FOLDER "/" CLAIMS_FOLDER "/%s", key);
}

bool layout_parse_kind(struct str text, enum symbfile_kind *kind)
{
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++)
		if (str_equal(text, str_from(symbfile_kind_names[i]))) {
			*kind = (enum symbfile_kind)i;
			return true;
		}
	return false;
}

bool layout_parse_claim(struct claim *c, struct str path)
{
	struct str segments[3];
	for (unsigned i = 0; i < 3; i++)
		if (!layout_segment(&path, &segments[i]) || !is_lower_hex(segments[i]))
			return false;
	/* what layout_claim writes has no leading zeros */
	return path.len == 0 && build_id_parse(&c->build_id, segments[0]) &&
	       hex_read(c->id.bytes, sizeof c->id.bytes, segments[1]) && hex_read_number(segments[2], &c->image_base) &&
	       (segments[2].data[0] != '0' || segments[2].len == 1);
}
