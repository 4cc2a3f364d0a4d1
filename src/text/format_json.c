/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, on one line or many. Text that is not JSON does no harm: an extra brace is ignored.
 *
 * minidump-stackwalk: objects that have a module and an offset in it, and no function. Their offsets are already those
 * of calls. Objects with debug_file and debug_id give a module's id. Sentry's events: frames with an instruction_addr,
 * the innermost last (in KSCrash's reports, in a list of contents, it is the first), and images with image_addr,
 * image_size, code_file (or name) and ids, before or after them.
 * Apple's .ips: frames with imageOffset and imageIndex, the innermost first, and then the usedImages. Node.js's
 * reports: frames with a pc, all of them return addresses, and a symbol that ends in the module. ABRT's core_backtrace:
 * frames with a build_id and a build_id_offset. MongoDB's backtrace: frames with the base b of a module and an offset o
 * in it, and then the somap of modules by base. Of MetricKit's tree see format_metrickit.c. Images become memory maps:
 * Sentry's of their addresses, Apple's of addresses made up from their numbers, MongoDB's of such made up from their
 * bases. */
#include <config.h>

#include "json/scan.h"
#include "text/formats.h"
#include "text/signs.h"

enum { IMAGES_MAX = 1 << 20, IMAGE_SHIFT = 40, FIXED_MAX = 0x7fffffff, PAGE_SHIFT = 12, MONGO_SHIFT = 29 };
#define IMAGE_SIZE_MAX (UINT64_C(1) << IMAGE_SHIFT)
/* Processes of JSON are others than those of text; Apple's numbers of images are not addresses. */
#define JSON_PROCESS UINT32_C(0x80000000)
#define JSON_IMAGES UINT32_C(0x40000000)

enum { TEXT_JSON_DEPTH = 8, TEXT_JSON_VALUE = TEXT_NAME_MAX };

/* Members of objects; several keys may name the same. */
enum text_json_string {
	JSON_MODULE,
	JSON_DEBUG_FILE,
	JSON_ID,
	JSON_PATH,
	JSON_NAME, /* of the function; a longer one is cut */
	JSON_STRINGS,
};

enum text_json_number {
	JSON_MODULE_OFFSET,
	JSON_ADDRESS,
	JSON_PC,
	JSON_BASE,
	JSON_SIZE,
	JSON_IMAGE_OFFSET,
	JSON_IMAGE_INDEX,
	JSON_BUILD_OFFSET,
	JSON_MONGO_BASE,
	JSON_MONGO_OFFSET,
	JSON_ELF_TYPE,
	JSON_NUMBERS,
};

struct text_object {
	char strings[JSON_STRINGS][TEXT_JSON_VALUE];
	size_t lengths[JSON_STRINGS]; /* 0: the object has none so far */
	uint64_t numbers[JSON_NUMBERS];
	unsigned has;     /* a bit for each number */
	bool named;       /* it has a function's name */
	bool node_symbol; /* the path is from Node.js's "symbol" */
	struct text_edit edits[TEXT_EDITS_MAX];
	unsigned edit_count;
	struct text_own own;      /* what the object says itself of a frame; the module is in strings */
	bool unnamed;             /* "function": null */
	struct text_edit unknown; /* "function": "<unknown>"; cut is 0: there is none */
};

struct text_json {
	struct text_object objects[TEXT_JSON_DEPTH]; /* the open one of each depth */
	/* of the value that is open */
	uint32_t process, report; /* report: the process of the ids that objects have told or needed last; 0: none */
	unsigned frames_depth, images_depth; /* of the objects in a list of frames or images; 0: none is open */
	uint64_t frame_index, image_index;   /* of the next */
	bool signal;                         /* the frame before was a signal's trampoline */
	bool innermost_first;                /* the list is KSCrash's */
	struct text_frame pending;           /* Sentry's latest, which has a return address unless it is the last */
	bool is_pending;
};

static struct text_object *open_object(struct text_reader *r)
{
	return r->json_depth && r->json_depth <= TEXT_JSON_DEPTH ? &r->json->objects[r->json_depth - 1] : NULL;
}

static bool has(const struct text_object *o, enum text_json_number n)
{
	return o->has >> n & 1;
}

static struct str string_of(const struct text_object *o, enum text_json_string s)
{
	return (struct str){o->strings[s], o->lengths[s]};
}

static void begin_object(struct text_reader *r)
{
	if (!r->json_depth) {
		r->json->process = (r->json->process + 1) % JSON_IMAGES;
		r->json->frames_depth = r->json->images_depth = 0;
		r->json->is_pending = false;
	}
	r->json_depth += r->json_depth < UINT32_MAX;
	text_metrickit_open(r, r->json_depth);
	struct text_object *o = open_object(r);
	if (!o)
		return;
	memset(o->lengths, 0, sizeof o->lengths);
	o->has = o->edit_count = o->unknown.cut = 0;
	o->named = o->node_symbol = o->unnamed = false;
	o->own = (struct text_own){.line = 0};
}

/* Sentry's latest frame. A caller has a return address. */
static void flush_pending(struct text_reader *r, bool caller)
{
	struct text_frame f = r->json->pending;
	if (!r->json->is_pending)
		return;
	r->json->is_pending = false;
	if (caller && f.address)
		f.address--;
	text_found(r, &f, NOTHING, NOTHING, TEXT_ID_GIVEN);
}

/* In the list of frames another one follows, so it is a caller. */
void text_json_flush(struct text_reader *r)
{
	flush_pending(r, r->stacks.in_json);
}

/* at: of the brace that ends the object. */
static void end_frame(struct text_reader *r, const struct text_object *o, const char *at)
{
	struct text_frame f = {.process = JSON_PROCESS | r->json->process, .line = r->line - r->inner_lines};
	uint64_t index = o->numbers[JSON_IMAGE_INDEX], offset = o->numbers[JSON_IMAGE_OFFSET];
	flush_pending(r, true);
	if (has(o, JSON_IMAGE_OFFSET) && has(o, JSON_IMAGE_INDEX) && index < IMAGES_MAX && offset < IMAGE_SIZE_MAX) {
		bool caller = r->json->frame_index++;
		f.process |= JSON_IMAGES;
		f.offset = offset;
		f.address = (index << IMAGE_SHIFT) + offset - (caller && offset);
		text_edit_one(r, &f, at, at, TEXT_JSON_IPS);
		if (!o->named)
			text_found(r, &f, NOTHING, NOTHING, TEXT_ID_GIVEN);
		return;
	}
	f.offset = f.address = o->numbers[JSON_ADDRESS];
	if (r->json->innermost_first && r->json->frame_index++ && f.offset)
		f.address--;
	text_edit_one(r, &f, at, at, TEXT_JSON_SENTRY);
	if (o->unnamed) {
		memcpy(f.edits, o->edits, o->edit_count * sizeof *f.edits);
		f.edit_count = o->edit_count;
	}
	if (o->unknown.cut)
		f.edits[0] = o->unknown;
	r->json->pending = f;
	r->json->is_pending = has(o, JSON_ADDRESS) && !o->named;
	if (r->json->innermost_first)
		flush_pending(r, false);
}

/* {"pc": "0x0000000000c6e1c5", "symbol": " [node]"}: as in Node's own stacks, the executable is loaded where it was
 * linked, or needs a map. */
static void end_node_frame(struct text_reader *r, const struct text_object *o)
{
	uint64_t pc = o->numbers[JSON_PC];
	struct text_frame f = {.base = TEXT_ELF, .offset = pc, .address = pc ? pc - 1 : 0};
	struct str path = pc > FIXED_MAX ? NOTHING : string_of(o, JSON_PATH);
	f.edits[0] = o->edits[0];
	f.edit_count = 1;
	text_found(r, &f, path, NOTHING, TEXT_ID_GIVEN);
}

/* f->offset is where the list's next frame is: a return address, unless it is the first or below a signal's. */
static void note_caller(struct text_reader *r, struct text_frame *f, const struct text_object *o, struct str path)
{
	struct str name = string_of(o, JSON_NAME);
	bool first = !r->json->frame_index++;
	r->signal_line = first || r->json->signal ? r->line : 0;
	text_caller(r, f, path, name);
	r->json->signal = r->signal_line == r->line + 1;
	r->signal_line = 0;
}

/* {"build_id": "5f6d…", "build_id_offset": 4345, "file_name": "/usr/lib/libx.so"} */
static void end_abrt_frame(struct text_reader *r, const struct text_object *o, const char *at)
{
	struct text_frame f = {.base = TEXT_IMAGE, .offset = o->numbers[JSON_BUILD_OFFSET]};
	struct str path = string_of(o, JSON_PATH);
	note_caller(r, &f, o, path);
	text_edit_one(r, &f, at, at, TEXT_JSON_SENTRY);
	if (!o->lengths[JSON_NAME])
		text_found(r, &f, path, string_of(o, JSON_ID), TEXT_ID_BUILD);
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
	struct text_frame f = {.process = JSON_PROCESS | JSON_IMAGES | r->json->process};
	struct str name = string_of(o, JSON_NAME);
	bool trampoline = str_equal(name, str_from("__sigaction")) || str_equal(name, str_from("funlockfile"));
	uint64_t base = o->numbers[JSON_MONGO_BASE], offset = o->numbers[JSON_MONGO_OFFSET];
	if (offset >> MONGO_SHIFT || base >> (64 - MONGO_SHIFT + PAGE_SHIFT))
		return;
	f.offset = mongo_address(base, offset);
	note_caller(r, &f, o, trampoline ? str_from("libc.so.6") : NOTHING);
	f.offset = offset;
	text_found_at(r, &f, TEXT_IS_SET, NOTHING, between(at, at), TEXT_JSON_SENTRY);
}

/* {"b":"7F0FBB3F9000","path":"/lib/libc.so.6","elfType":3,"buildId":"69389D…"}; the program itself has no path. */
static void end_mongo_image(struct text_reader *r, const struct text_object *o)
{
	struct text_mapping m = {.kind = MAP_FILES,
	        .path = o->lengths[JSON_PATH] ? string_of(o, JSON_PATH) : str_from("mongod"),
	        .executable = true,
	        .process = JSON_PROCESS | JSON_IMAGES | r->json->process};
	if (o->numbers[JSON_MONGO_BASE] >> (64 - MONGO_SHIFT + PAGE_SHIFT))
		return;
	m.start = mongo_address(o->numbers[JSON_MONGO_BASE], 0);
	m.end = m.start + (UINT64_C(1) << MONGO_SHIFT) - 1;
	text_mapped(r, &m, NOTHING, string_of(o, JSON_ID), TEXT_ID_BUILD);
}

/* Without dashes, and with an age: as symbol servers are asked for it. */
static struct str plain_debug_id(struct str id, char out[TEXT_JSON_VALUE + 1])
{
	size_t n = 0;
	for (size_t i = 0; i < id.len; i++)
		if (id.data[i] != '-')
			out[n++] = id.data[i];
	if (n == 32)
		out[n++] = '0';
	return (struct str){out, n};
}

static void end_image(struct text_reader *r, const struct text_object *o)
{
	char id[TEXT_JSON_VALUE + 1];
	bool apple = r->json->images_depth == r->json_depth;
	uint64_t number = r->json->image_index;
	r->json->image_index += apple;
	struct str path = string_of(o, JSON_PATH), debug_file = string_of(o, JSON_DEBUG_FILE);
	uint64_t size = has(o, JSON_SIZE) ? o->numbers[JSON_SIZE] : 0;
	path = path.len ? path : debug_file.len ? debug_file : string_of(o, JSON_MODULE);
	if (!path.len || !has(o, JSON_BASE) || !size || size > IMAGE_SIZE_MAX || number >= IMAGES_MAX)
		return;
	struct text_mapping m = {.kind = MAP_FILES, .path = path, .executable = true, .start = o->numbers[JSON_BASE]};
	m.process = JSON_PROCESS | r->json->process;
	if (apple) {
		m.process |= JSON_IMAGES;
		m.start = number << IMAGE_SHIFT;
	}
	m.end = m.start > UINT64_MAX - size ? UINT64_MAX : m.start + size;
	text_mapped(r, &m, debug_file, plain_debug_id(string_of(o, JSON_ID), id), TEXT_ID_GIVEN);
}

/* The object is part of a report, whose ids are not those of another one. */
static void use_report(struct text_reader *r)
{
	if (!r->json_depth)
		return;
	if (r->json->report && r->json->report != r->json->process)
		text_modules_begin_report(&r->modules);
	r->json->report = r->json->process;
}

/* A frame with a name, of which nothing is looked up. */
static void end_named(struct text_reader *r, const struct text_object *o)
{
	bool is_frame = r->json->frames_depth == r->json_depth || has(o, JSON_PC);
	bool is_pending = has(o, JSON_ADDRESS) && !o->named;
	if (!is_frame || is_pending || !o->own.function.len)
		return;
	flush_pending(r, true);
	text_found_own(r, &o->own);
}

/* Edits in the order of the text. at: of the brace. */
static void end_object(struct text_reader *r, const char *at)
{
	struct text_object *o = open_object(r);
	uint64_t frames = r->all_frames + r->json->is_pending;
	if (o && has(o, JSON_MONGO_BASE) && has(o, JSON_MONGO_OFFSET) && r->json->frames_depth == r->json_depth)
		end_mongo_frame(r, o, at);
	else if (o && has(o, JSON_MONGO_BASE) && has(o, JSON_ELF_TYPE))
		end_mongo_image(r, o);
	else if (o && has(o, JSON_BUILD_OFFSET) && o->lengths[JSON_PATH] && o->lengths[JSON_ID] &&
	         r->json->frames_depth == r->json_depth)
		end_abrt_frame(r, o, at);
	else if (o && (r->json->images_depth == r->json_depth || has(o, JSON_BASE)))
		end_image(r, o);
	else if (o && (has(o, JSON_ADDRESS) || has(o, JSON_IMAGE_OFFSET)))
		end_frame(r, o, at);
	else if (o && has(o, JSON_PC) && o->node_symbol)
		end_node_frame(r, o);
	if (o && r->all_frames + r->json->is_pending == frames && r->stacks.wanted)
		end_named(r, o);
	r->json_depth -= r->json_depth > 0;
	text_metrickit_close(r, r->json_depth + 1);
	if (r->json_depth + 1 < r->json->frames_depth) {
		flush_pending(r, false); /* the list has ended, and it was the last */
		r->json->frames_depth = 0;
	}
	if (!o)
		return;
	struct str module = string_of(o, JSON_MODULE), debug_file = string_of(o, JSON_DEBUG_FILE);
	bool tells = debug_file.len && o->lengths[JSON_ID] && module.len,
	     lacks = has(o, JSON_MODULE_OFFSET) && o->unnamed;
	if (tells || lacks)
		use_report(r);
	if (tells)
		text_told(r, module, debug_file, string_of(o, JSON_ID), TEXT_ID_GIVEN);
	if (!lacks)
		return;
	uint64_t offset = o->numbers[JSON_MODULE_OFFSET];
	struct text_frame f = {.offset = offset, .address = offset, .base = TEXT_IMAGE, .edit_count = o->edit_count};
	memcpy(f.edits, o->edits, o->edit_count * sizeof *f.edits);
	text_found(r, &f, module, NOTHING, TEXT_ID_GIVEN);
}

/* value: in quotes, which it lacks here. A long one is not kept, nor one that is no JSON; but of a function's name it
 * is only asked whether it has one, and which if it is short. */
static void keep_string(struct text_object *o, enum text_json_string s, struct str value)
{
	const uint8_t *quote = (const uint8_t *)value.data - 1;
	struct scan whole = {.start = quote, .at = quote, .end = quote + value.len + 2};
	struct str raw;
	bool kept = value.len <= TEXT_JSON_VALUE && scan_string(&whole, &raw);
	o->lengths[s] = kept ? scan_decode(o->strings[s], raw) : 0;
	if (!kept && s == JSON_NAME) {
		o->lengths[s] = value.len < TEXT_JSON_VALUE ? value.len : TEXT_JSON_VALUE;
		memcpy(o->strings[s], value.data, o->lengths[s]);
	}
}

/* Digits in JSON, or a string of 0x and hex digits. */
static bool take_number(struct rest *r, uint64_t *out)
{
	return take_0x(r, out) || take_decimal(r, out);
}

/* The members that are kept. */
static const struct {
	const char *key;
	bool (*take)(struct rest *r, uint64_t *out); /* of numbers; NULL: a string */
	uint8_t member;
	bool weak; /* other keys of the same member count more */
} members[] = {
        {"module", NULL, JSON_MODULE, false},
        {"filename", NULL, JSON_MODULE, false},
        {"name", NULL, JSON_MODULE, true},
        {"module_offset", take_0x, JSON_MODULE_OFFSET, false},
        {"debug_file", NULL, JSON_DEBUG_FILE, false},
        {"debug_id", NULL, JSON_ID, false},
        {"uuid", NULL, JSON_ID, false},
        {"build_id", NULL, JSON_ID, false},
        {"buildId", NULL, JSON_ID, false},
        {"id", NULL, JSON_ID, true},
        {"code_file", NULL, JSON_PATH, false},
        {"path", NULL, JSON_PATH, false},
        {"file_name", NULL, JSON_PATH, false},
        {"function_name", NULL, JSON_NAME, false},
        {"s", NULL, JSON_NAME, false},
        {"instruction_addr", take_number, JSON_ADDRESS, false},
        {"pc", take_number, JSON_PC, false},
        {"image_addr", take_number, JSON_BASE, false},
        {"base", take_number, JSON_BASE, false},
        {"image_size", take_number, JSON_SIZE, false},
        {"size", take_number, JSON_SIZE, false},
        {"imageOffset", take_number, JSON_IMAGE_OFFSET, false},
        {"imageIndex", take_number, JSON_IMAGE_INDEX, false},
        {"build_id_offset", take_number, JSON_BUILD_OFFSET, false},
        {"b", take_hex, JSON_MONGO_BASE, false},
        {"o", take_hex, JSON_MONGO_OFFSET, false},
        {"elfType", take_number, JSON_ELF_TYPE, false},
};

static void take_value(struct text_object *o, struct str key, struct str value, bool quoted)
{
	size_t i = 0, count = sizeof members / sizeof *members;
	while (i < count && !str_equal(key, str_from(members[i].key)))
		i++;
	if (i == count)
		return;
	unsigned member = members[i].member;
	if (members[i].take) {
		struct rest r = {value.data, value.data + value.len};
		bool taken = members[i].take(&r, &o->numbers[member]) && r.at == r.end;
		o->has = (o->has & ~(1U << member)) | (unsigned)taken << member;
	} else if (quoted && !(members[i].weak && o->lengths[member])) {
		keep_string(o, member, value);
	}
}

/* A list begins that is the value of this key. */
static void begin_list(struct text_reader *r, struct str key)
{
	if (str_equal(key, str_from("frames")) || str_equal(key, str_from("lastExceptionBacktrace")) ||
	        str_equal(key, str_from("backtrace"))) {
		flush_pending(r, false);
		r->json->signal = r->json->innermost_first = false;
		text_stacks_close(r);
		r->json->frames_depth = r->json_depth + 1;
		/* where an exception was thrown is a return address, too, and so are all of MongoDB's */
		r->json->frame_index = !str_equal(key, str_from("frames"));
	} else if (str_equal(key, str_from("callStackRootFrames"))) {
		text_stacks_close(r);
		text_metrickit_begin(r, r->json_depth + 1);
	} else if (str_equal(key, str_from("contents"))) {
		r->json->innermost_first = true;
		r->json->frame_index = 0;
	} else if (str_equal(key, str_from("usedImages"))) {
		r->json->images_depth = r->json_depth + 1;
		r->json->image_index = 0;
	} else if (r->json->images_depth == r->json_depth + 1) {
		r->json->images_depth = 0;
	}
}

/* In the text, where colours may stand in it; not empty. */
static uint32_t length_of(const struct text_reader *r, const char *from, const char *to)
{
	return (uint32_t)(text_position(r, to - 1) + 1 - text_position(r, from));
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
		o->edits[o->edit_count++] = (struct text_edit){.at = text_position(r, value),
		        .cut = length_of(r, value, value + strlen("null")),
		        .style = (uint8_t)values[i].style};
	}
}

/* Node.js: "symbol": " [/usr/bin/node]", before whose blank the name goes. */
static void take_node_path(const struct text_reader *r, struct text_object *o, struct str value)
{
	if (value.len < strlen(" []") || memcmp(value.data, " [", 2) != 0 || !ends_with(value, "]"))
		return;
	keep_string(o, JSON_PATH, value);
	struct str path = string_of(o, JSON_PATH);
	if (path.len < strlen(" []"))
		return;
	o->lengths[JSON_PATH] = path.len - strlen(" []");
	memmove(o->strings[JSON_PATH], o->strings[JSON_PATH] + strlen(" ["), o->lengths[JSON_PATH]);
	o->edits[0] = (struct text_edit){.at = text_position(r, value.data), .cut = 0, .style = TEXT_AT | TEXT_STRING};
	o->node_symbol = o->lengths[JSON_PATH] > 0;
}

static struct text_span span_of(const struct text_reader *r, struct str value)
{
	uint32_t len = value.len ? length_of(r, value.data, value.data + value.len) : 0;
	return (struct text_span){text_position(r, value.data), len, TEXT_STRING};
}

/* "f(int) [/usr/bin/node]" of Node.js tells the module, too. */
static void take_own_function(const struct text_reader *r, struct text_object *o, struct str value)
{
	const char *end = value.data + value.len;
	const char *open = ends_with(value, "]") ? find_last(value.data, end, '[') : NULL;
	if (open && open > value.data && open[-1] == ' ') {
		o->own.module = span_of(r, between(open + 1, end - 1));
		value = between(value.data, open - 1);
	}
	if (!text_is_placeholder(value))
		o->own.function = span_of(r, value);
}

/* What a frame says itself: the function, its file and line. */
static void take_own(const struct text_reader *r, struct text_object *o, struct str key, struct str value, bool quoted)
{
	static const char *const keys[][4] = {{"function", "symbol", "function_name", "s"},
	        {"filename", "file", "sourceFile", "source_file"}, {"lineno", "line", "sourceLine", "source_line"}};
	struct rest digits = {value.data, value.data + value.len};
	uint64_t line;
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < 4; k++) {
			if ((i == 2) == quoted || !str_equal(key, str_from(keys[i][k])))
				continue;
			if (i == 0)
				take_own_function(r, o, value);
			else if (i == 1)
				o->own.file = span_of(r, value);
			else if (i == 2 && take_decimal(&digits, &line) && line <= UINT32_MAX)
				o->own.line = (uint32_t)line;
		}
}

/* Sentry's SDK for Rust writes "function":"<unknown>", which goes. key: just behind its quote. */
static void take_function(const struct text_reader *r, struct text_object *o, struct str key, struct str value)
{
	const char *from = key.data - 1;
	bool symbol = str_equal(key, str_from("symbol"));
	if (!symbol && !str_equal(key, str_from("function")))
		return;
	o->named = value.len && !str_equal(value, str_from("<unknown>"));
	if (symbol)
		take_node_path(r, o, value);
	else if (!o->named && value.len)
		o->unknown = (struct text_edit){.at = text_position(r, from),
		        .cut = length_of(r, from, value.data + value.len + 1),
		        .style = TEXT_JSON_SENTRY_MEMBERS};
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
		text_metrickit_member(r, r->json_depth, key, between(line->at, end), end + 1);
		if (o) {
			take_value(o, key, between(line->at, end), true);
			take_function(r, o, key, between(line->at, end));
			if (r->stacks.wanted)
				take_own(r, o, key, between(line->at, end), true);
		}
		line->at = end + 1;
	} else if (is_digit(peek(line))) {
		while (line->at < line->end && is_digit(peek(line)))
			line->at++;
		text_metrickit_member(r, r->json_depth, key, between(value, line->at), line->at);
		if (o) {
			take_value(o, key, between(value, line->at), false);
			if (r->stacks.wanted)
				take_own(r, o, key, between(value, line->at), false);
		}
	} else {
		begin_list(r, key);
	}
	return true;
}

static bool read_values(struct text_reader *r, struct rest line)
{
	blanks(&line);
	int first = r->escaped ? -1 : peek(&line); /* JSON in strings is not read */
	if (first < 0 || !strchr("{}[]\",", first) || !first || (first == ',' && !r->json_depth))
		return false;
	/* log lines start with "[..." too */
	if (first == '[' && line.end - line.at > 1 && line.at[1] != '{' && line.at[1] != ']' &&
	        !(r->json_depth && is_blank(line.at[1])))
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
			if (!read_pair(r, &line)) {
				r->json_depth = 0; /* no string goes on in the next line: this one was cut */
				return r->frames > 0;
			}
			break;
		}
	}
	return r->frames > 0;
}

bool text_read_json(struct text_reader *r, struct rest line)
{
	r->stacks.in_json = true;
	bool found = read_values(r, line);
	r->stacks.in_json = false;
	return found;
}

TEXT_FORMAT(text_json, .names = "Sentry, .ips of Apple, MongoDB, ABRT", .which = TEXT_ANCHORED,
        .signs = SIGN_BRACE | SIGN_QUOTE, .read = text_read_json, .state_size = sizeof(struct text_json));
