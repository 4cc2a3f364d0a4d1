/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/json_text.h"

enum { FORM = 1, MANIFEST_MAX = 24 << 20 /* bytes */ };

enum set_quality set_quality_of(const struct symbfile_counts *counts, bool dynamic)
{
	if (!counts->functions && !counts->inlines)
		return QUALITY_EMPTY;
	if (dynamic)
		return QUALITY_DYNAMIC;
	if (!counts->lines)
		return QUALITY_FUNCTIONS;
	return counts->inlines ? QUALITY_INLINES : QUALITY_LINES;
}

const char *set_quality_name(enum set_quality quality)
{
	static const char *const names[] = {"unknown", "empty", "dynamic symbols", "functions", "lines", "inlines"};
	return names[quality];
}

/* ---- writing ---- */

static json_t *hex_json(uint64_t number)
{
	char text[24];
	snprintf(text, sizeof text, "0x%" PRIx64, number);
	return json_string(text);
}

static bool set(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) == 0;
}

/* NULL if out of memory. */
static json_t *segments_json(const struct load_segments *s)
{
	json_t *array = json_array();
	for (unsigned i = 0; array && i < s->count; i++) {
		const struct load_segment *l = &s->items[i];
		json_t *one = json_pack("{s:o, s:o, s:o, s:o}", "offset", hex_json(l->offset), "address",
		        hex_json(l->address), "file_size", hex_json(l->file_size), "memory_size",
		        hex_json(l->memory_size));
		if (json_array_append_new(array, one) != 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

/* The debug ids that a build id makes, of little-endian and of big-endian executables. */
static json_t *debug_ids_json(const struct build_id *id)
{
	uint8_t bytes[2][GUID_BYTES] = {{0}};
	json_t *array = json_array();
	size_t len = id->len < GUID_BYTES ? id->len : GUID_BYTES;
	memcpy(bytes[1], id->bytes, len);
	for (unsigned i = 0; i < GUID_BYTES; i++)
		bytes[0][i] = bytes[1][guid_order[i]];
	for (unsigned k = 0; k < 2; k++) {
		char hex[2 * GUID_BYTES + 2];
		hex_write(hex, bytes[k], GUID_BYTES);
		str_upper(hex, str_from(hex));
		strcat(hex, "0");
		if (array && json_array_append_new(array, json_string(hex)) != 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static bool add_executable(const struct manifest *m, json_t *object)
{
	char build_id[BUILD_ID_HEX + 1];
	bool ok = true;
	if (m->build_id.len) {
		build_id_hex(build_id, m->build_id.bytes, m->build_id.len);
		ok = set(object, "build_id", json_string(build_id)) &&
		     set(object, "debug_ids", debug_ids_json(&m->build_id)) &&
		     set(object, "image_base", hex_json(m->image_base));
	}
	return ok && (!m->segments.count || set(object, "segments", segments_json(&m->segments)));
}

static bool add_all(const struct manifest *m, json_t *object)
{
	const struct symbfile_counts *c = &m->counts;
	return set(object, "uploader", json_string(m->uploader)) &&
	       (!*m->program || set(object, "program", json_string(m->program))) &&
	       set(object, "size", json_integer((json_int_t)m->size)) &&
	       set(object, "functions", json_integer((json_int_t)c->functions)) &&
	       set(object, "lines", json_integer((json_int_t)c->lines)) &&
	       set(object, "inlines", json_integer((json_int_t)c->inlines)) &&
	       set(object, "quality", json_string(set_quality_name(set_quality_of(c, m->dynamic)))) &&
	       set(object, "dynamic", json_boolean(m->dynamic)) && set(object, "forced", json_boolean(m->forced)) &&
	       add_executable(m, object);
}

static void path_of(char path[STORE_PATH_MAX], const struct manifest *m, const struct file_id *id)
{
	layout_object(path, id, m->kind, m->set, m->forced ? MANIFEST_FORCED : MANIFEST_NAME);
}

enum err manifest_put(
        const struct manifest *m, json_t *names, struct store_client *c, const struct file_id *id, struct error *e)
{
	json_t *object = json_object();
	char path[STORE_PATH_MAX];
	bool ok = set(object, "version", json_integer(FORM)) &&
	          set(object, "kind", json_string(symbfile_kind_names[m->kind])) &&
	          set(object, "set", json_string(m->set)) && set(object, "time", json_integer(m->time)) &&
	          add_all(m, object) && set(object, "parts", json_incref(names));
	char *text = ok ? json_text(object, JSON_COMPACT) : NULL;
	json_decref(object);
	if (!text)
		return no_memory(e);
	path_of(path, m, id);
	enum err err = store_put_object(c, path, str_from(text), e);
	free(text);
	return err;
}

void manifest_time(char out[TIME_TEXT], int64_t time)
{
	time_t seconds = time / SECOND;
	struct tm tm;
	if (!gmtime_r(&seconds, &tm) || !strftime(out, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm))
		*out = 0;
}

bool manifest_show(const struct manifest *m, json_t *object)
{
	char time[TIME_TEXT];
	manifest_time(time, m->time);
	return set(object, "time", json_string(time)) && add_all(m, object);
}

/* ---- reading ---- */

static uint64_t read_count(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));
	return n > 0 ? (uint64_t)n : 0;
}

static uint64_t read_number(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	uint64_t n = 0;
	return text && strncmp(text, "0x", 2) == 0 && hex_read_number(str_from(text + 2), &n) ? n : 0;
}

static void read_segments(struct load_segments *s, const json_t *array)
{
	s->count = 0;
	for (size_t i = 0; i < json_array_size(array) && i < LOAD_SEGMENTS_MAX; i++) {
		const json_t *l = json_array_get(array, i);
		s->items[s->count++] = (struct load_segment){read_number(l, "offset"), read_number(l, "address"),
		        read_number(l, "file_size"), read_number(l, "memory_size")};
	}
}

static enum err read_text(struct manifest *m, json_t **names, struct str text, struct error *e)
{
	json_t *root;
	if (json_parse(&root, text, 0, e) == ERR_NO_MEMORY)
		return ERR_NO_MEMORY;
	json_t *parts = json_object_get(root, "parts");
	const char *uploader = json_string_value(json_object_get(root, "uploader"));
	const char *build_id = json_string_value(json_object_get(root, "build_id"));
	const char *program = json_string_value(json_object_get(root, "program"));
	if (json_integer_value(json_object_get(root, "version")) != FORM || !json_is_array(parts)) {
		json_decref(root);
		return ERR_OK;
	}
	m->time = json_integer_value(json_object_get(root, "time"));
	snprintf(m->uploader, sizeof m->uploader, "%s", uploader ? uploader : "");
	snprintf(m->program, sizeof m->program, "%s", program ? program : "");
	m->dynamic = json_is_true(json_object_get(root, "dynamic"));
	m->size = read_count(root, "size");
	m->counts = (struct symbfile_counts){
	        read_count(root, "functions"), read_count(root, "lines"), read_count(root, "inlines")};
	if (!build_id || !build_id_parse(&m->build_id, str_from(build_id)))
		m->build_id.len = 0;
	m->image_base = read_number(root, "image_base");
	read_segments(&m->segments, json_object_get(root, "segments"));
	*names = json_incref(parts);
	json_decref(root);
	return ERR_OK;
}

enum err manifest_get(struct manifest *m, json_t **names, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e)
{
	struct buffer b;
	char path[STORE_PATH_MAX];
	path_of(path, m, id);
	buffer_init(&b, MANIFEST_MAX);
	*names = NULL;
	enum err err = store_get_object(c, path, &b, cancel, e);
	if (!err)
		err = read_text(m, names, (struct str){(const char *)b.data, b.len}, e);
	buffer_release(&b);
	return err == ERR_MISSING ? ERR_OK : err;
}
