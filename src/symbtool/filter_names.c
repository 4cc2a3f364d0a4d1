/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/filter_names.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/utf8.h"
#include "extract/ids.h"
#include "map/read.h"
#include "symbtool/answer.h"
#include "symbtool/cli.h"
#include "symbtool/function_address.h"
#include "text/file_offsets.h"
#include "text/module_table.h"

enum {
	IDS = 5,               /* names and ids to ask for a module by, in order */
	TABLE_SLOTS = 1 << 16, /* of distinct frames; a power of two */
};

/* A module of the text, and what we found out about it. */
struct module {
	bool decided;
	enum reason why;                /* REASON_NONE: it has symbols */
	char *path;                     /* of its file; NULL: a server answers */
	struct local_place *place;      /* of its file; NULL: none. The first of ids is then its FileID */
	struct symbol_table *functions; /* of its file; NULL: not needed so far */
	unsigned id;                    /* on the server: which one of ids */
	uint64_t image_base;            /* of its file, as the server says; 0 if there is a place */
	struct file_map file;           /* where its file is loaded, likewise */
	bool confirmed;                 /* offsets in the file are such in the image: a frame told */
	char *ids[IDS], *names[IDS];    /* no name: the module's own */
};

/* A distinct frame in the batch. */
struct asked {
	int32_t module;
	uint64_t address;
	enum text_base base;
	struct frame_names names;
};

/* The distinct frames of a batch. */
struct questions {
	struct asked *items;
	size_t count;
	const struct text_reader *reader;
	struct arena *arena;
	int32_t *number; /* of each module in the request's memory map, by id; -1: not there */
	bool has_file_offsets;
	bool again; /* it turned out where modules are loaded: they are to be asked for once more */
};

struct filter_names {
	struct local_symbols *local;
	struct server *server;
	struct server_connection *connection;
	struct module *modules;
	size_t module_count;
	uint32_t module_cap;
	uint32_t *table; /* of questions: index + 1 */
};

struct filter_names *filter_names_new(struct local_symbols *local, struct server *server)
{
	struct filter_names *n = calloc(1, sizeof *n);
	if (!n)
		return NULL;
	*n = (struct filter_names){.local = local, .server = server};
	n->table = malloc(TABLE_SLOTS * sizeof *n->table);
	n->connection = server ? connection_new(server) : NULL;
	if (n->table && (!server || n->connection))
		return n;
	filter_names_free(n);
	return NULL;
}

void filter_names_forget(struct filter_names *n)
{
	for (size_t i = 0; i < n->module_count; i++) {
		free(n->modules[i].path);
		free(n->modules[i].place);
		symbol_table_free(n->modules[i].functions);
		for (unsigned k = 0; k < IDS; k++) {
			free(n->modules[i].ids[k]);
			free(n->modules[i].names[k]);
		}
	}
	n->module_count = 0;
}

void filter_names_free(struct filter_names *n)
{
	if (!n)
		return;
	filter_names_forget(n);
	connection_free(n->connection);
	free(n->modules);
	free(n->table);
	free(n);
}

/* ---- modules ---- */

static enum reason why_not_local(enum local_why why, const struct text_module *m)
{
	if (why == LOCAL_OTHER_BUILD)
		return REASON_OTHER_BUILD;
	return m->id.len ? REASON_NOT_FOUND : REASON_NO_ID;
}

static char *file_id_text(const char *path)
{
	struct file_id id;
	char *hex = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !file_id_of_fd(&id, fd, NULL, NULL) && (hex = malloc(FILE_ID_HEX + 1)))
		file_id_hex(hex, &id);
	if (fd >= 0)
		close(fd);
	return hex;
}

/* Decides what it can without a server. */
static bool module_init(struct filter_names *n, struct module *out, const struct text_module *m)
{
	char path[PATH_MAX];
	unsigned ids = 0;
	*out = (struct module){.why = REASON_NONE};
	enum local_why why = local_symbols_find(n->local, m, path);
	if (why == LOCAL_FOUND && !(out->place = local_place_read(path)))
		return false;
	if (!n->server) {
		out->decided = true;
		out->why = why == LOCAL_FOUND ? REASON_NONE : why_not_local(why, m);
		out->path = why == LOCAL_FOUND ? strdup(path) : NULL;
		return why != LOCAL_FOUND || out->path;
	}
	if (why == LOCAL_FOUND && (out->ids[ids] = file_id_text(path)))
		ids++;
	struct str id = m->id.len || !out->place ? m->id : str_from(out->place->debug_id);
	if (id.len && !(out->ids[ids++] = str_dup(id)))
		return false;
	char room[TEXT_NAME_MAX];
	struct str other;
	for (unsigned i = 0; text_is_windows_id(id) && ids < IDS && text_other_name(m->name, i, room, &other);
	        i++, ids++)
		if (!(out->ids[ids] = str_dup(id)) || !(out->names[ids] = str_dup(other)))
			return false;
	if (!ids) {
		out->decided = true;
		out->why = why_not_local(why, m);
	}
	return true;
}

/* The name under which the server is asked for a module. */
static struct str asked_name(const struct filter_names *n, const struct text_reader *r, size_t module, unsigned id)
{
	const char *other = n->modules[module].names[id];
	return other ? str_from(other) : text_reader_module(r, (uint32_t)module)->name;
}

static bool see_modules(struct filter_names *n, const struct text_reader *r)
{
	size_t count = text_reader_modules(r);
	if (!array_reserve(&n->modules, &n->module_cap, count, sizeof *n->modules))
		return false;
	for (; n->module_count < count; n->module_count++)
		if (!module_init(n, &n->modules[n->module_count], text_reader_module(r, (uint32_t)n->module_count)))
			return false;
	/* an id that came later, in this batch or another */
	for (size_t i = 0; i < count; i++) {
		struct module *m = &n->modules[i];
		const struct text_module *told = text_reader_module(r, (uint32_t)i);
		if (m->decided && m->why == REASON_NO_ID && told->id.len && !module_init(n, m, told))
			return false;
	}
	return true;
}

/* ---- questions: each distinct frame once ---- */

static uint32_t *slot_of(const struct filter_names *n, const struct asked *questions, const struct text_frame *f)
{
	uint64_t hash = (f->address * 31 + (uint64_t)(uint32_t)f->module * 8 + f->base) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t at = (uint32_t)(hash >> 40) & (TABLE_SLOTS - 1);
	for (unsigned tries = 0; n->table[at] && tries < 8; tries++, at = (at + 1) & (TABLE_SLOTS - 1)) {
		const struct asked *q = &questions[n->table[at] - 1];
		if (q->module == f->module && q->address == f->address && q->base == f->base)
			break;
	}
	return &n->table[at];
}

/* Gives a frame of the kernel the address in its file. */
static void place_by_function(struct filter_names *n, const struct frame_batch *b, struct text_frame *f)
{
	char path[PATH_MAX];
	struct module *m = &n->modules[f->module];
	struct str name = {b->text + (f->own.function.at - b->base), f->own.function.len};
	uint64_t address;
	if (!m->functions &&
	        local_symbols_find(n->local, text_reader_module(b->reader, (uint32_t)f->module), path) == LOCAL_FOUND)
		m->functions = symbol_table_read(path);
	if (!m->functions || !symbol_table_find(m->functions, name, f->function_size, &address))
		return;
	f->address += address;
	f->base = TEXT_ELF;
}

/* which[i]: the question for each frame. If the table is crowded, a frame is asked twice. */
static void collect_questions(
        struct filter_names *n, const struct frame_batch *b, struct questions *all, uint32_t *which)
{
	memset(n->table, 0, TABLE_SLOTS * sizeof *n->table);
	for (size_t i = 0; i < b->count; i++) {
		struct text_frame placed = b->frames[i], *f = &placed;
		if (f->base == TEXT_FUNCTION)
			place_by_function(n, b, f);
		uint32_t *slot = slot_of(n, all->items, f);
		const struct asked *q = *slot ? &all->items[*slot - 1] : NULL;
		if (!q || q->module != f->module || q->address != f->address || q->base != f->base) {
			all->items[all->count] =
			        (struct asked){f->module, f->address, f->base, {.why = REASON_NO_ANSWER}};
			all->has_file_offsets = all->has_file_offsets || f->base == TEXT_FILE;
			*slot = (uint32_t)++all->count;
		}
		which[i] = *slot - 1;
	}
}

/* ---- from files ---- */

static struct str text_of(struct offmap_string s)
{
	return (struct str){(const char *)s.data, s.len};
}

static bool set_calls(struct frame_names *names, const struct offmap_answer *a, struct arena *arena)
{
	size_t count = a->inline_count + (size_t)1;
	struct text_call *calls = arena_alloc(arena, count * sizeof *calls);
	if (!calls)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct offmap_call *c = i < a->inline_count ? &a->inlines[i] : &a->frame;
		calls[i] = (struct text_call){text_of(c->function), text_of(c->file), c->line};
	}
	*names = (struct frame_names){REASON_NONE, calls, count, a->function_offset};
	return true;
}

static enum err ask_file(struct filter_names *n, struct asked *q, struct arena *arena, struct error *e)
{
	const struct module *m = &n->modules[q->module];
	struct offmap_answer a;
	const struct offmap *map = local_symbols_open(n->local, m->path, &q->names.why);
	if (!map)
		return ERR_OK;
	uint64_t address = local_place_address(m->place, q->address, q->base);
	enum err err = answer_look_up(map, address, arena, &a);
	q->names.why = err ? REASON_CORRUPT : offmap_reason(map, address, &a);
	if (err == ERR_NO_MEMORY || (!err && a.found && !set_calls(&q->names, &a, arena)))
		return no_memory(e);
	return ERR_OK;
}

/* ---- from a server ---- */

/* Only a file says where its sections and segments begin. */
static bool knows_base(const struct module *m, const struct asked *q)
{
	if (m->place)
		return local_place_knows(m->place, q->address, q->base);
	return q->base != TEXT_CODE && q->base != TEXT_EXEC && q->base != TEXT_FIXED && q->base != TEXT_FUNCTION;
}

/* Whether a question is sent under this id. */
static bool is_asked(const struct filter_names *n, const struct asked *q, unsigned id)
{
	if (q->module < 0)
		return false;
	const struct module *m = &n->modules[q->module];
	if (!knows_base(m, q))
		return false;
	return m->ids[id] && !(m->decided && (m->why != REASON_NONE || m->id != id));
}

/* The address to ask a server for under an id: for a FileID, the file's own address; otherwise one in the image. */
static uint64_t asked_address(const struct filter_names *n, const struct asked *q, unsigned id)
{
	const struct module *m = &n->modules[q->module];
	if (!m->place) {
		uint64_t address = q->address;
		bool is_own = q->base == TEXT_ELF || (q->base == TEXT_FILE && m->file.count);
		if (q->base == TEXT_FILE && m->file.count)
			file_map_address(&m->file, q->address, &address);
		return is_own && address >= m->image_base ? address - m->image_base : address;
	}
	uint64_t own = local_place_address(m->place, q->address, q->base);
	return id == 0 ? own : own - local_place_address(m->place, 0, TEXT_IMAGE);
}

/* One stack for each of the ids, so that a module unknown by one may be found by another. */
static enum err write_request(
        const struct filter_names *n, const struct questions *all, struct buffer *out, struct error *e)
{
	int32_t numbers = 0;
	for (size_t i = 0; i < n->module_count * IDS; i++)
		all->number[i] = -1;
	buffer_printf(out, "{\"memoryMap\":[");
	for (size_t i = 0; i < all->count; i++)
		for (unsigned id = 0; id < IDS; id++) {
			if (!is_asked(n, &all->items[i], id) || all->number[all->items[i].module * IDS + (int)id] >= 0)
				continue;
			struct str name = asked_name(n, all->reader, (size_t)all->items[i].module, id);
			answer_put_module(out, !numbers, name, str_from(n->modules[all->items[i].module].ids[id]));
			all->number[all->items[i].module * IDS + (int)id] = numbers++;
		}
	buffer_printf(out, "],\"stacks\":[");
	for (unsigned id = 0; id < IDS; id++) {
		bool first = true;
		buffer_printf(out, "%s[", id ? "," : "");
		for (size_t i = 0; i < all->count; i++) {
			if (!is_asked(n, &all->items[i], id))
				continue;
			buffer_printf(out, "%s[%d,%" PRIu64 "]", first ? "" : ",",
			        (int)all->number[all->items[i].module * IDS + (int)id],
			        asked_address(n, &all->items[i], id));
			first = false;
		}
		buffer_append(out, "]", 1);
	}
	buffer_printf(out, "]}");
	return out->failed ? no_memory(e) : ERR_OK;
}

/* A string from the reply, escaped again. */
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
	names->why = word ? reason_of_word(str_from(word)) : REASON_NONE;
	if (!names->why)
		names->why = REASON_NO_FUNCTION; /* a server that does not say more, or says it in a word of its own */
	if (!json_object_get(frame, "function"))
		return true;
	struct text_call *calls = arena_alloc(arena, count * sizeof *calls);
	bool ok = calls != NULL;
	for (size_t i = 0; i < count && ok; i++)
		ok = copy_call(&calls[i], i + 1 < count ? json_array_get(inlines, i) : frame, arena);
	if (ok)
		*names = (struct frame_names){
		        REASON_NONE, calls, count, number_of(json_object_get(frame, "function_offset"))};
	return ok;
}

/* told: a reason and perhaps its detail. */
static enum reason why_missing(const char *key, const char *told)
{
	const char *colon = told ? strstr(told, ": ") : NULL;
	if (colon)
		complain(key, "%s", told);
	enum reason why = told ? reason_of_word((struct str){told, colon ? (size_t)(colon - told) : strlen(told)})
	                       : REASON_NOT_FOUND;
	return why ? why : REASON_NOT_FOUND; /* a word of a newer server */
}

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

/* The id by which the server knows a module, and where it is loaded. The latter is needed only if there is no file:
 * then the addresses asked for so far were counted from the wrong place. */
static void decide(struct filter_names *n, struct questions *all, const json_t *found, const json_t *debug)
{
	const json_t *image_bases = json_object_get(debug, "image_bases"),
	             *segments = json_object_get(debug, "segments");
	const json_t *reasons = json_object_get(json_object_get(debug, "unnamed"), "modules");
	char key[2 * TEXT_NAME_MAX + 64], first[sizeof key];
	for (size_t i = 0; i < n->module_count; i++) {
		struct module *m = &n->modules[i];
		bool asked = false, is_found = false;
		for (unsigned id = 0; id < IDS && !m->decided && !is_found; id++) {
			if (all->number[i * IDS + id] < 0)
				continue;
			struct str name = asked_name(n, all->reader, i, id);
			snprintf(key, sizeof key, "%.*s/%s", STR_FMT(name), m->ids[id]);
			if (!asked)
				memcpy(first, key, sizeof first);
			asked = true;
			is_found = json_is_true(json_object_get(found, key));
			m->id = id;
			if (m->place)
				continue;
			m->image_base = number_of(json_object_get(image_bases, key));
			m->file = file_map_of_json(json_object_get(segments, key));
			all->again = all->again || m->image_base || (m->file.count && all->has_file_offsets);
		}
		if (!asked)
			continue;
		m->decided = true;
		m->why =
		        is_found ? REASON_NONE : why_missing(first, json_string_value(json_object_get(reasons, first)));
	}
}

static enum err read_reply(
        struct filter_names *n, struct questions *all, const json_t *root, const json_t *result, struct error *e)
{
	const json_t *stacks = json_object_get(result, "stacks");
	size_t at[IDS] = {0};
	/* the stacks of a question were set before the modules were decided */
	for (unsigned id = 0; id < IDS; id++)
		for (size_t i = 0; i < all->count; i++) {
			struct asked *q = &all->items[i];
			if (!is_asked(n, q, id))
				continue;
			const json_t *frame = json_array_get(json_array_get(stacks, id), at[id]++);
			if (!frame)
				return error_set(e, ERR_CORRUPT, "the reply lacks frames");
			if ((id == 0 || q->names.why != REASON_NONE) && !copy_frame(&q->names, frame, all->arena))
				return no_memory(e);
		}
	decide(n, all, json_object_get(result, "found_modules"), json_object_get(root, "debug"));
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].module >= 0 && n->modules[all->items[i].module].why != REASON_NONE)
			all->items[i].names.why = n->modules[all->items[i].module].why;
	return ERR_OK;
}

static enum err ask_once(struct filter_names *n, struct questions *all, struct error *e)
{
	struct buffer body, reply;
	all->number = arena_alloc(all->arena, (n->module_count + 1) * IDS * sizeof *all->number);
	all->again = false;
	if (!all->number)
		return no_memory(e);
	buffer_init(&body, SERVER_REPLY_MAX);
	buffer_init(&reply, SERVER_REPLY_MAX);
	enum err err = write_request(n, all, &body, e);
	if (!err)
		err = answer_send(n->connection, true, &body, &reply, e);
	if (!err) {
		const json_t *result;
		json_t *root = answer_parse(&reply, &result);
		err = read_reply(n, all, root, result, e);
		json_decref(root);
	}
	buffer_release(&body);
	buffer_release(&reply);
	return err;
}

static enum err ask_server(struct filter_names *n, struct questions *all, struct error *e)
{
	bool any = false;
	for (size_t i = 0; i < all->count; i++)
		for (unsigned id = 0; id < IDS; id++)
			any = any || is_asked(n, &all->items[i], id);
	enum err err = any ? ask_once(n, all, e) : ERR_OK;
	return any && !err && all->again ? ask_once(n, all, e) : err;
}

/* ---- a batch ---- */

static enum err ask_all(struct filter_names *n, struct questions *all, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < all->count && !err; i++) {
		struct asked *q = &all->items[i];
		const struct module *m = q->module < 0 ? NULL : &n->modules[q->module];
		bool elsewhere = q->base == TEXT_FIXED && m && (!m->place || !knows_base(m, q));
		q->names.why = !m || elsewhere                       ? REASON_NO_MODULE
		               : m->decided && m->why != REASON_NONE ? m->why
		                                                     : REASON_NO_ANSWER;
		if (q->names.why == REASON_NO_ANSWER && !knows_base(m, q))
			q->names.why = q->base == TEXT_FILE       ? REASON_NOT_LOADED
			               : q->base == TEXT_FUNCTION ? REASON_NO_FUNCTION
			                                          : REASON_NO_OFFSET;
		else if (m && m->path && !elsewhere)
			err = ask_file(n, q, all->arena, e);
	}
	return err || !n->server ? err : ask_server(n, all, e);
}

/* Whether a frame's offset was asked for in the symbols of its module. */
static bool was_looked_up(enum reason r)
{
	return r == REASON_NONE || (reason_is_of_offset(r) && r != REASON_NO_SEGMENTS && r != REASON_NOT_LOADED);
}

/* A batch whose frames have been looked up. */
struct answered {
	struct filter_names *names;
	const struct frame_batch *batch;
};

static struct module *module_of(const struct answered *a, size_t i)
{
	int32_t module = a->batch->frames[i].module;
	return module < 0 ? NULL : &a->names->modules[module];
}

static const struct text_frame *answered_frame(void *arg, size_t i)
{
	const struct answered *a = arg;
	return &a->batch->frames[i];
}

static bool *confirmed(void *arg, size_t i)
{
	const struct answered *a = arg;
	struct module *m = module_of(a, i);
	bool guess = m && was_looked_up(a->batch->names[i].why) && !(m->place ? m->place->file.count : m->file.count);
	return guess ? &m->confirmed : NULL;
}

static struct text_answer found_function(void *arg, size_t i)
{
	const struct answered *a = arg;
	const struct frame_names *names = &a->batch->names[i];
	struct text_answer none = {{"", 0}, 0};
	return names->count ? (struct text_answer){names->calls[names->count - 1].function, names->behind} : none;
}

static void drop_guess(void *arg, size_t i)
{
	const struct answered *a = arg;
	a->batch->names[i] = (struct frame_names){.why = REASON_NO_SEGMENTS};
}

/* Of a file whose places the server knows. */
static void find_not_loaded(const struct answered *a)
{
	for (size_t i = 0; i < a->batch->count; i++) {
		const struct text_frame *f = &a->batch->frames[i];
		struct frame_names *names = &a->batch->names[i];
		const struct module *m = module_of(a, i);
		uint64_t address;
		if (f->base == TEXT_FILE && m && !m->confirmed && was_looked_up(names->why) && m->file.count &&
		        !file_map_address(&m->file, f->address, &address))
			*names = (struct frame_names){.why = REASON_NOT_LOADED};
	}
}

static void drop_guesses(struct filter_names *n, const struct frame_batch *b)
{
	struct answered answered = {n, b};
	struct text_guesses guesses = {.count = b->count,
	        .arg = &answered,
	        .frame = answered_frame,
	        .confirmed = confirmed,
	        .found = found_function,
	        .text = {b->text, SIZE_MAX},
	        .base = b->base};
	find_not_loaded(&answered);
	text_confirm_guesses(&guesses);
	text_drop_guesses(&guesses, drop_guess);
}

enum err filter_names_find(struct filter_names *n, const struct frame_batch *b, struct error *e)
{
	struct questions all = {.reader = b->reader, .arena = b->arena};
	all.items = arena_alloc(b->arena, b->count * sizeof *all.items + 1);
	uint32_t *which = arena_alloc(b->arena, b->count * sizeof *which + 1);
	if (!all.items || !which || !see_modules(n, b->reader))
		return no_memory(e);
	collect_questions(n, b, &all, which);
	enum err err = ask_all(n, &all, e);
	for (size_t i = 0; i < b->count; i++)
		b->names[i] = all.items[which[i]].names;
	drop_guesses(n, b);
	return err;
}

void filter_names_settle(struct filter_names *n)
{
	local_symbols_settle(n->local);
}
