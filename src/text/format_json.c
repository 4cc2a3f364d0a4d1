/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of minidump-stackwalk, on one line or many: objects that have a module and an offset in it, and no function.
 * Their offsets are already those of calls. Objects with debug_file and debug_id give a module's id. Text that is not
 * JSON does no harm: an extra brace is ignored. */
#include <config.h>

#include "text/formats.h"

static struct text_object *open_object(struct text_reader *r)
{
	return r->depth && r->depth <= TEXT_JSON_DEPTH ? &r->objects[r->depth - 1] : NULL;
}

static void begin_object(struct text_reader *r)
{
	r->depth += r->depth < UINT32_MAX;
	struct text_object *o = open_object(r);
	if (!o)
		return;
	o->module_len = o->debug_file_len = o->debug_id_len = 0;
	o->edit_count = 0;
	o->has_offset = o->unnamed = false;
}

/* Edits in the order of the text. */
static void end_object(struct text_reader *r)
{
	struct text_object *o = open_object(r);
	r->depth -= r->depth > 0;
	if (!o)
		return;
	struct str module = {o->module, o->module_len}, none = {"", 0};
	if (o->debug_file_len && o->debug_id_len && module.len)
		text_told(r, module, (struct str){o->debug_file, o->debug_file_len},
		        (struct str){o->debug_id, o->debug_id_len}, TEXT_ID_GIVEN);
	if (!o->has_offset || !o->unnamed)
		return;
	struct text_frame f = {
	        .offset = o->offset, .address = o->offset, .base = TEXT_IMAGE, .edit_count = o->edit_count};
	memcpy(f.edits, o->edits, o->edit_count * sizeof *f.edits);
	text_found(r, &f, module, none, TEXT_ID_GIVEN);
}

/* The end of a string, at its closing quote, or NULL. */
static const char *string_end(const char *p, const char *end)
{
	for (; p < end && *p != '"'; p++)
		p += *p == '\\';
	return p < end ? p : NULL;
}

static void keep_value(char *out, size_t room, size_t *len, struct str value)
{
	*len = value.len <= room && !memchr(value.data, '\\', value.len) ? value.len : 0;
	memcpy(out, value.data, *len);
}

static void take_string(struct text_object *o, struct str key, struct str value)
{
	struct rest hex = {value.data, value.data + value.len};
	if (str_equal(key, str_from("module")) || str_equal(key, str_from("filename")))
		keep_value(o->module, sizeof o->module, &o->module_len, value);
	else if (str_equal(key, str_from("debug_file")))
		keep_value(o->debug_file, sizeof o->debug_file, &o->debug_file_len, value);
	else if (str_equal(key, str_from("debug_id")))
		keep_value(o->debug_id, sizeof o->debug_id, &o->debug_id_len, value);
	else if (str_equal(key, str_from("module_offset")))
		o->has_offset = take_0x(&hex, &o->offset) && hex.at == hex.end;
}

static void take_null(const struct text_reader *r, struct text_object *o, struct str key, const char *value)
{
	static const struct {
		const char *key;
		enum text_style style;
	} values[] = {{"function", TEXT_JSON_FUNCTION}, {"file", TEXT_JSON_FILE}, {"line", TEXT_JSON_LINE},
	        {"inlines", TEXT_JSON_INLINES}};
	for (unsigned i = 0; i < sizeof values / sizeof *values && o->edit_count < TEXT_EDITS_MAX; i++) {
		if (!str_equal(key, str_from(values[i].key)))
			continue;
		o->unnamed = o->unnamed || values[i].style == TEXT_JSON_FUNCTION;
		o->edits[o->edit_count++] =
		        (struct text_edit){r->at + (uint64_t)(value - r->start), strlen("null"), values[i].style};
	}
}

/* A key whose opening quote has been passed, and its value if that is a string or null. False if the line ends in it.
 */
static bool read_pair(struct text_reader *r, struct rest *line)
{
	const char *end = string_end(line->at, line->end);
	if (!end)
		return false;
	struct str key = between(line->at, end);
	line->at = end + 1;
	blanks(line);
	if (!take_literal(line, ":"))
		return true;
	blanks(line);
	struct text_object *o = open_object(r);
	const char *value = line->at;
	if (take_literal(line, "null")) {
		if (o)
			take_null(r, o, key, value);
	} else if (take_literal(line, "\"")) {
		end = string_end(line->at, line->end);
		if (!end)
			return false;
		if (o)
			take_string(o, key, between(line->at, end));
		line->at = end + 1;
	}
	return true;
}

bool text_read_json(struct text_reader *r, struct rest line)
{
	blanks(&line);
	int first = peek(&line);
	if (first < 0 || !strchr("{}[]\"", first) || !first)
		return false;
	/* log lines start with "[..." too */
	if (first == '[' && line.end - line.at > 1 && line.at[1] != '{' && line.at[1] != ']')
		return false;
	while (line.at < line.end && !r->result) {
		switch (*line.at++) {
		case '{':
			begin_object(r);
			break;
		case '}':
			end_object(r);
			break;
		case '"':
			if (!read_pair(r, &line))
				return r->frames > 0;
			break;
		}
	}
	return r->frames > 0;
}
