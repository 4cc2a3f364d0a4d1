/* SPDX-License-Identifier: Apache-2.0 */
/* Asks /symbolicate/v5. A module of which it is not known yet by which id the server has it is asked for by all, in one
 * request: there is a stack for each place in the modules' lists of ids. The first id that is found answers from then
 * on. */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "symbtool/asker.h"
#include "symbtool/cli.h"

/* A request, and its reply. */
struct v5_request {
	struct asker *asker;
	struct ask_frame *const *frames;
	size_t count;
	struct arena *arena;
	json_t *root; /* the reply */
	const json_t *result;
	bool again; /* the reply says where modules are loaded: they were asked for at other addresses */
};

static bool is_asked(const struct asker *a, const struct ask_frame *f, unsigned id)
{
	const struct asked_module *m = asked_module_of(a, f);
	if (!m || id >= m->id_count || !asker_knows_base(m, f))
		return false;
	return !m->decided || (!m->why && m->by == id);
}

/* ---- the request ---- */

/* For a FileID the file's own address; otherwise one in the image. */
static uint64_t address_of(const struct asked_module *m, const struct ask_frame *f, unsigned id)
{
	uint64_t address = f->address;
	if (m->place) {
		address = local_place_address(m->place, address, f->base);
		return m->ids[id].own ? address : address - m->place->image_base;
	}
	bool in_file = f->base == TEXT_FILE && file_map_address(&m->file, f->address, &address);
	bool own = f->base == TEXT_ELF || in_file;
	return own && address >= m->image_base ? address - m->image_base : address;
}

static void write_modules(struct buffer *out, const struct v5_request *x)
{
	int32_t numbers = 0;
	for (uint32_t i = 0; i < x->asker->count; i++)
		for (unsigned id = 0; id < ASK_IDS; id++)
			x->asker->modules[i].ids[id].number = -1;
	for (unsigned id = 0; id < ASK_IDS; id++)
		for (size_t i = 0; i < x->count; i++) {
			struct asked_module *m = asked_module_of(x->asker, x->frames[i]);
			if (!is_asked(x->asker, x->frames[i], id) || m->ids[id].number >= 0)
				continue;
			buffer_printf(out, "%s[", numbers ? "," : "");
			buffer_append_json(out, (struct str){m->ids[id].key, m->ids[id].name_len});
			buffer_printf(out, ",");
			buffer_append_json(out, str_from(m->ids[id].key + m->ids[id].name_len + 1));
			buffer_printf(out, "]");
			m->ids[id].number = numbers++;
		}
}

/* *any: a frame is asked for. */
static void write_request(struct buffer *out, const struct v5_request *x, bool *any)
{
	buffer_printf(out, "{\"memoryMap\":[");
	write_modules(out, x);
	buffer_printf(out, "],\"stacks\":[");
	*any = false;
	for (unsigned id = 0; id < ASK_IDS; id++) {
		const char *comma = "";
		buffer_printf(out, "%s[", id ? "," : "");
		for (size_t i = 0; i < x->count; i++) {
			const struct asked_module *m = asked_module_of(x->asker, x->frames[i]);
			if (!is_asked(x->asker, x->frames[i], id))
				continue;
			buffer_printf(out, "%s[%" PRIi32 ",%" PRIu64 "]", comma, m->ids[id].number,
			        address_of(m, x->frames[i], id));
			comma = ",";
			*any = true;
		}
		buffer_printf(out, "]");
	}
	buffer_printf(out, "]}");
}

/* ---- a frame of the reply ---- */

/* A string of the reply, escaped again. */
static bool copy_string(struct str *out, const json_t *value, struct arena *arena)
{
	*out = (struct str){"", 0};
	if (!json_is_string(value))
		return true;
	size_t len = json_string_length(value);
	const uint8_t *text = (const uint8_t *)json_string_value(value);
	uint8_t *copy = arena_alloc(arena, json_escaped_length(text, len) + 1);
	if (!copy)
		return false;
	*out = (struct str){(char *)copy, json_escape(copy, text, len)};
	return true;
}

static bool copy_call(struct text_call *c, const json_t *value, struct arena *arena)
{
	json_int_t line = json_integer_value(json_object_get(value, "line"));
	c->line = line > 0 && line <= UINT32_MAX ? (uint32_t)line : 0;
	return copy_string(&c->function, json_object_get(value, "function"), arena) &&
	       copy_string(&c->file, json_object_get(value, "file"), arena);
}

/* "0x1f" */
static uint64_t number_of(const json_t *value)
{
	const char *text = json_string_value(value);
	return text ? strtoull(text, NULL, 16) : 0;
}

static bool copy_frame(struct frame_names *names, const json_t *frame, struct arena *arena)
{
	const json_t *inlines = json_object_get(frame, "inlines");
	size_t count = json_array_size(inlines) + 1;
	const char *word = json_string_value(json_object_get(frame, "reason"));
	*names = (struct frame_names){.why = word ? reason_of_word(str_from(word)) : REASON_NONE};
	if (!names->why)
		names->why = REASON_NO_FUNCTION; /* a server that does not say more, or says it in a word of its own */
	if (!json_object_get(frame, "function"))
		return true;
	struct text_call *calls = arena_alloc(arena, count * sizeof *calls);
	bool ok = calls != NULL;
	for (size_t i = 0; i < count && ok; i++)
		ok = copy_call(&calls[i], i + 1 < count ? json_array_get(inlines, i) : frame, arena);
	if (ok)
		*names = (struct frame_names){.calls = calls,
		        .count = count,
		        .behind = number_of(json_object_get(frame, "function_offset")),
		        .has_size = json_object_get(frame, "function_size"),
		        .size = number_of(json_object_get(frame, "function_size"))};
	return ok;
}

/* ---- modules ---- */

static struct file_map file_map_of_json(const json_t *segments)
{
	struct file_map m = {.count = 0};
	for (size_t i = 0; i < json_array_size(segments) && i < FILE_MAP_MAX; i++) {
		const json_t *s = json_array_get(segments, i);
		m.items[m.count++] = (struct file_map_item){number_of(json_object_get(s, "offset")),
		        number_of(json_object_get(s, "file_size")), number_of(json_object_get(s, "address"))};
	}
	return m;
}

/* Where the module is loaded, unless its file has said so: only then it was asked for at the right addresses. */
static void take_place(struct v5_request *x, struct asked_module *m, const char *key)
{
	const json_t *debug = json_object_get(x->root, "debug");
	if (m->place)
		return;
	m->image_base = number_of(json_object_get(json_object_get(debug, "image_bases"), key));
	m->file = file_map_of_json(json_object_get(json_object_get(debug, "segments"), key));
	x->again = x->again || m->image_base;
	for (size_t i = 0; i < x->count && m->file.count && !x->again; i++)
		x->again = x->frames[i]->base == TEXT_FILE && asked_module_of(x->asker, x->frames[i]) == m;
}

/* told: a reason and perhaps its detail; NULL: a server that does not say. */
static enum reason why_lacking(const struct asker *a, const char *key, const char *told)
{
	const char *colon = told ? strstr(told, ": ") : NULL;
	if (a->what == ASK_ADDRESSES)
		complain(key, "%s", told && strcmp(told, "not found") != 0 ? told : "the server has no symbols for it");
	else if (colon)
		complain(key, "%s", told);
	enum reason why = told ? reason_of_word((struct str){told, colon ? (size_t)(colon - told) : strlen(told)})
	                       : REASON_NOT_FOUND;
	return why ? why : REASON_NOT_FOUND; /* a word of a newer server */
}

/* The first id by which the server has the module; if it has it by none, the first that is not just missing says why.
 */
static void find_id(struct v5_request *x, struct asked_module *m)
{
	const json_t *found = json_object_get(x->result, "found_modules");
	const json_t *unnamed = json_object_get(json_object_get(x->root, "debug"), "unnamed");
	const char *told = NULL;
	for (unsigned id = 0; id < m->id_count; id++) {
		const struct ask_id *asked = &m->ids[id];
		if (asked->number < 0)
			continue;
		if (json_is_true(json_object_get(found, asked->key))) {
			m->by = id;
			m->why = REASON_NONE;
			take_place(x, m, asked->key);
			return;
		}
		if (told && strcmp(told, "not found") != 0)
			continue;
		m->by = id;
		told = json_string_value(json_object_get(json_object_get(unnamed, "modules"), asked->key));
	}
	m->why = why_lacking(x->asker, m->ids[m->by].key, told);
}

static bool was_asked(const struct asked_module *m)
{
	for (unsigned id = 0; id < m->id_count; id++)
		if (m->ids[id].number >= 0)
			return true;
	return false;
}

/* ---- the reply ---- */

/* The answers under the ids that the server knows. */
static enum err read_frames(struct v5_request *x, struct error *e)
{
	const json_t *stacks = json_object_get(x->result, "stacks");
	for (unsigned id = 0; id < ASK_IDS; id++)
		for (size_t i = 0, at = 0; i < x->count; i++) {
			const struct asked_module *m = asked_module_of(x->asker, x->frames[i]);
			if (!is_asked(x->asker, x->frames[i], id))
				continue;
			const json_t *frame = json_array_get(json_array_get(stacks, id), at++);
			if (!frame)
				return error_set(e, ERR_CORRUPT, "the reply lacks frames");
			if (!m->why && m->by == id && !copy_frame(&x->frames[i]->names, frame, x->arena))
				return no_memory(e);
		}
	return ERR_OK;
}

/* What the reply says of modules goes for their frames, too. */
static void settle(struct ask_frame *f, const struct asked_module *m)
{
	uint64_t ignored;
	bool in_module = !f->names.why || reason_is_of_offset(f->names.why);
	if (m->decided && m->why)
		f->names.why = m->why;
	else if (f->base == TEXT_FILE && in_module && m->file.count &&
	         !file_map_address(&m->file, f->address, &ignored))
		f->names = (struct frame_names){.why = REASON_NOT_LOADED};
}

static enum err read_reply(struct v5_request *x, struct error *e)
{
	struct asker *a = x->asker;
	x->result = json_array_get(json_object_get(x->root, "results"), 0);
	for (uint32_t i = 0; i < a->count; i++)
		if (!a->modules[i].decided && was_asked(&a->modules[i]))
			find_id(x, &a->modules[i]);
	enum err err = read_frames(x, e); /* of what was asked before this was decided */
	for (uint32_t i = 0; i < a->count; i++)
		a->modules[i].decided = a->modules[i].decided || was_asked(&a->modules[i]);
	for (size_t i = 0; i < x->count; i++)
		if (x->frames[i]->module >= 0)
			settle(x->frames[i], asked_module_of(a, x->frames[i]));
	return err;
}

static enum err ask_once(struct v5_request *x, struct error *e)
{
	struct buffer body;
	bool any;
	buffer_init(&body, SERVER_REPLY_MAX);
	write_request(&body, x, &any);
	struct server_request request = {.path = "/symbolicate/v5",
	        .headers = "Content-Type: application/json\nDebug: 1\n",
	        .data = body.data,
	        .len = body.len};
	x->again = false;
	enum err err = body.failed ? no_memory(e) : ERR_OK;
	if (!err && any) {
		x->root = connection_ask(x->asker->connection, &request, e);
		err = x->root ? read_reply(x, e) : e->code;
		json_decref(x->root);
	}
	buffer_release(&body);
	return err;
}

enum err ask_server(
        struct asker *a, struct ask_frame *const *frames, size_t count, struct arena *arena, struct error *e)
{
	struct v5_request x = {.asker = a, .frames = frames, .count = count, .arena = arena};
	enum err err = ask_once(&x, e);
	return !err && x.again ? ask_once(&x, e) : err;
}
