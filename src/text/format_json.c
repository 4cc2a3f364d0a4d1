/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, on one line or many. Text that is not JSON does no harm: an extra brace is ignored.
 *
 * minidump-stackwalk: objects that have a module and an offset in it, and no function. Their offsets are already those
 * of calls. Objects with debug_file and debug_id give a module's id. Sentry's events: frames with an instruction_addr,
 * the innermost last, and images with image_addr, image_size, code_file (or name) and ids, before or after them.
 * Apple's .ips: frames with imageOffset and imageIndex, the innermost first, and then the usedImages. Node.js's
 * reports: frames with a pc, all of them return addresses, and a symbol that ends in the module. ABRT's core_backtrace:
 * frames with a build_id and a build_id_offset. MongoDB's backtrace: frames with the base b of a module and an offset o
 * in it, and then the somap of modules by base. Images become memory maps: Sentry's of their addresses, Apple's of
 * addresses made up from their numbers, MongoDB's of such made up from their bases. */
#include <config.h>

#include "text/formats.h"

enum { IMAGES_MAX = 1 << 20, IMAGE_SHIFT = 40, FIXED_MAX = 0x7fffffff, PAGE_SHIFT = 12, MONGO_SHIFT = 29 };
#define IMAGE_SIZE_MAX (UINT64_C(1) << IMAGE_SHIFT)
/* Processes of JSON are others than those of text; Apple's numbers of images are not addresses. */
#define JSON_PROCESS UINT32_C(0x80000000)
#define JSON_IMAGES UINT32_C(0x40000000)

static struct text_object *open_object(struct text_reader *r)
{
	return r->depth && r->depth <= TEXT_JSON_DEPTH ? &r->objects[r->depth - 1] : NULL;
}

static void begin_object(struct text_reader *r)
{
	if (!r->depth) {
		r->json_process = (r->json_process + 1) % JSON_IMAGES;
		r->frames_depth = r->images_depth = 0;
		r->is_pending = false;
	}
	r->depth += r->depth < UINT32_MAX;
	struct text_object *o = open_object(r);
	if (!o)
		return;
	o->module_len = o->debug_file_len = o->debug_id_len = 0;
	o->edit_count = 0;
	o->unknown.cut = 0;
	o->has_offset = o->unnamed = false;
	o->path_len = 0;
	o->size = 0;
	o->has_address = o->has_base = o->has_image_offset = o->has_image_index = o->named = false;
	o->has_pc = o->has_node_path = false;
	o->name_len = 0;
	o->has_build_offset = o->has_mongo_base = o->has_mongo_offset = o->is_mongo_image = false;
}

/* Sentry's latest frame. A caller has a return address. */
static void flush_pending(struct text_reader *r, bool caller)
{
	struct text_frame f = r->pending;
	if (!r->is_pending)
		return;
	r->is_pending = false;
	if (caller && f.address)
		f.address--;
	text_found(r, &f, (struct str){"", 0}, (struct str){"", 0}, TEXT_ID_GIVEN);
}

/* at: of the brace that ends the object. */
static void end_frame(struct text_reader *r, const struct text_object *o, const char *at)
{
	struct text_frame f = {.process = JSON_PROCESS | r->json_process, .offset = o->address, .address = o->address};
	flush_pending(r, true);
	if (o->has_image_offset && o->has_image_index && o->image_index < IMAGES_MAX &&
	        o->image_offset < IMAGE_SIZE_MAX) {
		bool caller = r->frame_index++;
		f.process |= JSON_IMAGES;
		f.offset = f.address = (o->image_index << IMAGE_SHIFT) + o->image_offset;
		f.address -= caller && o->image_offset;
		text_edit_one(r, &f, at, at, TEXT_JSON_IPS);
		if (!o->named)
			text_found(r, &f, (struct str){"", 0}, (struct str){"", 0}, TEXT_ID_GIVEN);
		return;
	}
	text_edit_one(r, &f, at, at, TEXT_JSON_SENTRY);
	if (o->unnamed) {
		memcpy(f.edits, o->edits, o->edit_count * sizeof *f.edits);
		f.edit_count = o->edit_count;
	}
	if (o->unknown.cut)
		f.edits[0] = o->unknown;
	r->pending = f;
	r->is_pending = o->has_address && !o->named;
}

/* {"pc": "0x0000000000c6e1c5", "symbol": " [node]"}: as in Node's own stacks, the executable is loaded where it was
 * linked, or needs a map. */
static void end_node_frame(struct text_reader *r, const struct text_object *o)
{
	struct text_frame f = {.base = TEXT_ELF, .offset = o->address, .address = o->address ? o->address - 1 : 0};
	struct str path = {o->path, o->address > FIXED_MAX ? 0 : o->path_len};
	f.edits[0] = o->edits[0];
	f.edit_count = 1;
	text_found(r, &f, path, (struct str){"", 0}, TEXT_ID_GIVEN);
}

/* f->offset is where the list's next frame is: a return address, unless it is the first or below a signal's. */
static void note_caller(struct text_reader *r, struct text_frame *f, const struct text_object *o, struct str path)
{
	struct str name = {o->name, o->name_len};
	bool first = !r->frame_index++;
	r->signal_line = first || r->json_signal ? r->line : 0;
	text_caller(r, f, path, name);
	r->json_signal = r->signal_line == r->line + 1;
	r->signal_line = 0;
}

/* {"build_id": "5f6d…", "build_id_offset": 4345, "file_name": "/usr/lib/libx.so"} */
static void end_abrt_frame(struct text_reader *r, const struct text_object *o, const char *at)
{
	struct text_frame f = {.base = TEXT_IMAGE, .offset = o->build_offset};
	struct str path = {o->path, o->path_len};
	note_caller(r, &f, o, path);
	text_edit_one(r, &f, at, at, TEXT_JSON_SENTRY);
	if (!o->name_len)
		text_found(r, &f, path, (struct str){o->debug_id, o->debug_id_len}, TEXT_ID_BUILD);
}

/* The address made up for an offset in MongoDB's module. */
static uint64_t mongo_address(uint64_t base, uint64_t offset)
{
	return base >> PAGE_SHIFT << MONGO_SHIFT | offset;
}

/* {"a":"7F0FBB43B520","b":"7F0FBB3F9000","o":"42520","s":"__sigaction"}: all return addresses, but below the
 * trampoline, which has the name of the function before it. */
static void end_mongo_frame(struct text_reader *r, const struct text_object *o, const char *at)
{
	struct text_frame f = {.process = JSON_PROCESS | JSON_IMAGES | r->json_process};
	struct str name = {o->name, o->name_len};
	bool trampoline = str_equal(name, str_from("__sigaction")) || str_equal(name, str_from("funlockfile"));
	if (o->image_offset >> MONGO_SHIFT || o->base >> (64 - MONGO_SHIFT + PAGE_SHIFT))
		return;
	f.offset = mongo_address(o->base, o->image_offset);
	note_caller(r, &f, o, trampoline ? str_from("libc.so.6") : (struct str){"", 0});
	text_edit_one(r, &f, at, at, TEXT_JSON_SENTRY);
	text_found(r, &f, (struct str){"", 0}, (struct str){"", 0}, TEXT_ID_GIVEN);
}

/* {"b":"7F0FBB3F9000","path":"/lib/libc.so.6","elfType":3,"buildId":"69389D…"}; the program itself has no path. */
static void end_mongo_image(struct text_reader *r, const struct text_object *o)
{
	struct text_mapping m = {.kind = MAP_FILES,
	        .path = o->path_len ? (struct str){o->path, o->path_len} : str_from("mongod"),
	        .executable = true,
	        .process = JSON_PROCESS | JSON_IMAGES | r->json_process};
	if (o->base >> (64 - MONGO_SHIFT + PAGE_SHIFT))
		return;
	m.start = mongo_address(o->base, 0);
	m.end = m.start + (UINT64_C(1) << MONGO_SHIFT) - 1;
	if (o->debug_id_len)
		text_told(r, m.path, (struct str){"", 0}, (struct str){o->debug_id, o->debug_id_len}, TEXT_ID_BUILD);
	if (!r->result && !text_maps_add(&r->maps, &m))
		r->result = TEXT_NO_MEMORY;
}

/* Without dashes, and with an age: as symbol servers are asked for it. */
static struct str plain_debug_id(const struct text_object *o, char out[sizeof o->debug_id + 1])
{
	size_t n = 0;
	for (size_t i = 0; i < o->debug_id_len; i++)
		if (o->debug_id[i] != '-')
			out[n++] = o->debug_id[i];
	if (n == 32)
		out[n++] = '0';
	return (struct str){out, n};
}

static void end_image(struct text_reader *r, const struct text_object *o)
{
	char id[sizeof o->debug_id + 1];
	bool apple = r->images_depth == r->depth;
	uint64_t number = r->image_index;
	r->image_index += apple;
	struct str path = {o->path, o->path_len}, debug_file = {o->debug_file, o->debug_file_len};
	path = path.len ? path : debug_file.len ? debug_file : (struct str){o->module, o->module_len};
	if (!path.len || !o->has_base || !o->size || o->size > IMAGE_SIZE_MAX || number >= IMAGES_MAX)
		return;
	if (o->debug_id_len)
		text_told(r, path, debug_file, plain_debug_id(o, id), TEXT_ID_GIVEN);
	struct text_mapping m = {.kind = MAP_FILES, .path = path, .executable = true, .start = o->base};
	m.process = JSON_PROCESS | r->json_process;
	if (apple) {
		m.process |= JSON_IMAGES;
		m.start = number << IMAGE_SHIFT;
	}
	m.end = m.start > UINT64_MAX - o->size ? UINT64_MAX : m.start + o->size;
	if (!r->result && !text_maps_add(&r->maps, &m))
		r->result = TEXT_NO_MEMORY;
}

/* Edits in the order of the text. at: of the brace. */
static void end_object(struct text_reader *r, const char *at)
{
	struct text_object *o = open_object(r);
	if (o && o->has_mongo_base && o->has_mongo_offset && r->frames_depth == r->depth)
		end_mongo_frame(r, o, at);
	else if (o && o->has_mongo_base && o->is_mongo_image)
		end_mongo_image(r, o);
	else if (o && o->has_build_offset && o->path_len && o->debug_id_len && r->frames_depth == r->depth)
		end_abrt_frame(r, o, at);
	else if (o && (r->images_depth == r->depth || o->has_base))
		end_image(r, o);
	else if (o && (o->has_address || o->has_image_offset))
		end_frame(r, o, at);
	else if (o && o->has_pc && o->has_node_path)
		end_node_frame(r, o);
	r->depth -= r->depth > 0;
	if (r->depth + 1 < r->frames_depth) {
		flush_pending(r, false); /* the list has ended, and it was the last */
		r->frames_depth = 0;
	}
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

/* Apple escapes slashes. Values with other escapes are not kept. */
static void keep_value(char *out, size_t room, size_t *len, struct str value)
{
	*len = 0;
	if (value.len > room)
		return;
	for (size_t i = 0; i < value.len; i++) {
		if (value.data[i] == '\\' && (++i == value.len || value.data[i] != '/')) {
			*len = 0;
			return;
		}
		out[(*len)++] = value.data[i];
	}
}

/* A number, in JSON or as a string of 0x and hex digits. */
static bool take_number(struct str value, uint64_t *out)
{
	struct rest r = {value.data, value.data + value.len};
	return (take_0x(&r, out) || take_decimal(&r, out)) && r.at == r.end;
}

/* Hex digits alone. */
static bool take_digits(struct str value, uint64_t *out)
{
	struct rest r = {value.data, value.data + value.len};
	return take_hex(&r, out) && r.at == r.end;
}

/* MongoDB's and ABRT's. */
static void take_other_value(struct text_object *o, struct str key, struct str value)
{
	if (str_equal(key, str_from("b")))
		o->has_mongo_base = take_digits(value, &o->base);
	else if (str_equal(key, str_from("o")))
		o->has_mongo_offset = take_digits(value, &o->image_offset);
	else if (str_equal(key, str_from("elfType")))
		o->is_mongo_image = true;
	else if (str_equal(key, str_from("build_id_offset")))
		o->has_build_offset = take_number(value, &o->build_offset);
}

/* A string or a number of Sentry's or Apple's. */
static void take_value(struct text_object *o, struct str key, struct str value)
{
	if (str_equal(key, str_from("instruction_addr")))
		o->has_address = take_number(value, &o->address);
	else if (str_equal(key, str_from("pc")))
		o->has_pc = take_number(value, &o->address);
	else if (str_equal(key, str_from("imageOffset")))
		o->has_image_offset = take_number(value, &o->image_offset);
	else if (str_equal(key, str_from("imageIndex")))
		o->has_image_index = take_number(value, &o->image_index);
	else if (str_equal(key, str_from("image_addr")) || str_equal(key, str_from("base")))
		o->has_base = take_number(value, &o->base);
	else if ((str_equal(key, str_from("image_size")) || str_equal(key, str_from("size"))) &&
	         !take_number(value, &o->size))
		o->size = 0;
	else
		take_other_value(o, key, value);
}

/* A list begins that is the value of this key. */
static void begin_list(struct text_reader *r, struct str key)
{
	if (str_equal(key, str_from("frames")) || str_equal(key, str_from("lastExceptionBacktrace")) ||
	        str_equal(key, str_from("backtrace"))) {
		flush_pending(r, false);
		r->json_signal = false;
		r->frames_depth = r->depth + 1;
		/* where an exception was thrown is a return address, too, and so are all of MongoDB's */
		r->frame_index = !str_equal(key, str_from("frames"));
	} else if (str_equal(key, str_from("usedImages"))) {
		r->images_depth = r->depth + 1;
		r->image_index = 0;
	} else if (r->images_depth == r->depth + 1) {
		r->images_depth = 0;
	}
}

static void take_string(struct text_object *o, struct str key, struct str value)
{
	struct rest hex = {value.data, value.data + value.len};
	if (str_equal(key, str_from("module")) || str_equal(key, str_from("filename")))
		keep_value(o->module, sizeof o->module, &o->module_len, value);
	else if (str_equal(key, str_from("debug_file")))
		keep_value(o->debug_file, sizeof o->debug_file, &o->debug_file_len, value);
	else if (str_equal(key, str_from("code_file")) || str_equal(key, str_from("path")) ||
	         str_equal(key, str_from("file_name")))
		keep_value(o->path, sizeof o->path, &o->path_len, value);
	else if (str_equal(key, str_from("name")) && !o->module_len)
		keep_value(o->module, sizeof o->module, &o->module_len, value);
	else if (str_equal(key, str_from("function")) || str_equal(key, str_from("symbol")))
		o->named = value.len && !str_equal(value, str_from("<unknown>"));
	else if (str_equal(key, str_from("function_name")) || str_equal(key, str_from("s")))
		keep_value(o->name, sizeof o->name, &o->name_len, str_first(value, sizeof o->name));
	else if (str_equal(key, str_from("debug_id")) || str_equal(key, str_from("uuid")) ||
	         str_equal(key, str_from("build_id")) || str_equal(key, str_from("buildId")) ||
	         (str_equal(key, str_from("id")) && !o->debug_id_len))
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

/* Node.js: "symbol": " [/usr/bin/node]", before whose blank the name goes. */
static void take_node_path(const struct text_reader *r, struct text_object *o, struct str value)
{
	if (value.len < strlen(" []") || memcmp(value.data, " [", 2) != 0 || !ends_with(value, "]"))
		return;
	keep_value(o->path, sizeof o->path, &o->path_len, (struct str){value.data + 2, value.len - 3});
	o->edits[0] = (struct text_edit){r->at + (uint64_t)(value.data - r->start), 0, TEXT_AT | TEXT_STRING};
	o->has_node_path = o->path_len > 0;
}

/* Sentry's SDK for Rust: "function":"<unknown>", which goes. */
static void take_unknown(const struct text_reader *r, struct text_object *o, const char *from, const char *to)
{
	o->unknown = (struct text_edit){
	        r->at + (uint64_t)(from - r->start), (uint32_t)(to - from), TEXT_JSON_SENTRY_MEMBERS};
}

/* A key whose opening quote has been passed, and its value if that is a string or null. False if the line ends in it.
 */
static bool read_pair(struct text_reader *r, struct rest *line)
{
	const char *end = text_string_end(line->at, line->end);
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
		end = text_string_end(line->at, line->end);
		if (!end)
			return false;
		if (o) {
			take_string(o, key, between(line->at, end));
			take_value(o, key, between(line->at, end));
			if (str_equal(key, str_from("symbol")))
				take_node_path(r, o, between(line->at, end));
		}
		if (o && str_equal(key, str_from("function")) &&
		        str_equal(between(line->at, end), str_from("<unknown>")))
			take_unknown(r, o, key.data - 1, end + 1);
		line->at = end + 1;
	} else if (is_digit(peek(line))) {
		while (line->at < line->end && is_digit(peek(line)))
			line->at++;
		if (o)
			take_value(o, key, between(value, line->at));
	} else {
		begin_list(r, key);
	}
	return true;
}

bool text_read_json(struct text_reader *r, struct rest line)
{
	blanks(&line);
	int first = r->in_string ? -1 : peek(&line);
	if (first < 0 || !strchr("{}[]\",", first) || !first || (first == ',' && !r->depth))
		return false;
	/* log lines start with "[..." too */
	if (first == '[' && line.end - line.at > 1 && line.at[1] != '{' && line.at[1] != ']' &&
	        !(r->depth && is_blank(line.at[1])))
		return false;
	while (line.at < line.end && !r->result) {
		switch (*line.at++) {
		case '{':
			begin_object(r);
			break;
		case '}':
			end_object(r, line.at - 1);
			break;
		case '"':
			if (!read_pair(r, &line))
				return r->frames > 0;
			break;
		}
	}
	return r->frames > 0;
}
