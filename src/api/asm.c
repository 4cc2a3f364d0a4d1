/* SPDX-License-Identifier: Apache-2.0 */
/* POST /asm/v1, as samply and the Firefox Profiler define it: the instructions of a range of a module. An error is a
 * 200 with `error`, since those clients show nothing of other replies.
 *
 * The module's map tells its code id, and names of addresses where its file has no symbols. Only if a cache has the
 * map: nothing is loaded, since who looks at assembly mostly asked for the module's symbols before. */
#include <config.h>

#include "api/asm.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "api/services.h"
#include "api/symbolicate.h"
#include "base/account.h"
#include "base/array.h"
#include "base/buffer.h"
#include "base/hex.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "elf/code.h"

enum {
	REQUEST_MAX = 64 << 10, /* bytes */
	REPLY_MAX = 64 << 20,   /* of any range that is read */
	CHARGE_STEP = 256 << 10,
	TARGET_SIZE = 16,
	SHOWN_NAME_MAX = 300, /* of a name behind an instruction */
	PAGES_MAX = 32 << 20, /* of pages that are held */
};

struct asm_request {
	struct build_id_question question;
	struct code_range range;
	struct str name, debug_name, debug_id, code_id; /* whose map may name what branches lead to */
};

/* ---- the request ---- */

/* A member of an object; empty: it is absent or no string. It lives as long as the object. */
static struct str text_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	return json_is_string(value) ? (struct str){json_string_value(value), json_string_length(value)}
	                             : (struct str){"", 0};
}

bool asm_keep(struct str *kept, struct arena *arena, const json_t *object, const char *key)
{
	struct str s = text_of(object, key);
	char *copy = arena_alloc(arena, s.len + 1);
	if (copy)
		memcpy(copy, s.data, s.len);
	*kept = (struct str){copy, copy ? s.len : 0};
	return copy;
}

enum err asm_number(const json_t *object, const char *key, uint64_t *number, struct error *e)
{
	struct str text = text_of(object, key);
	if (text.len > 2 && memcmp(text.data, "0x", 2) == 0 &&
	        hex_read_number((struct str){text.data + 2, text.len - 2}, number))
		return ERR_OK;
	return error_set(e, ERR_BAD_REQUEST, "%s is not a string such as \"0x12ab\"", key);
}

/* The code id of a PE file: eight hex digits of its time stamp, then the size of its image, whole pages. The last
 * component of name is the file's. */
static bool read_pe(struct str code_id, struct str name, struct asm_request *r)
{
	char digits[17] = "0000000000000000", *end = digits + sizeof digits - 1, file[PE_NAME_MAX] = "";
	for (size_t i = name.len; i > 0; i--)
		if (name.data[i - 1] == '/' || name.data[i - 1] == '\\') {
			name = (struct str){name.data + i, name.len - i};
			break;
		}
	if (code_id.len < 12 || code_id.len > 16 || memcmp(code_id.data + code_id.len - 3, "000", 3) != 0 ||
	        name.len == 0 || name.len >= PE_NAME_MAX || name.data[0] == '.')
		return false;
	memcpy(digits, code_id.data, 8);
	memcpy(end - (code_id.len - 8), code_id.data + 8, code_id.len - 8);
	memcpy(file, name.data, name.len);
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
	if (strspn(file, allowed) != name.len || !build_id_parse(&r->question.whole, str_from(digits)))
		return false;
	memcpy(r->range.pe_name, file, sizeof file);
	return true;
}

/* The code id of an ELF file is its build id, of which the debug id has a part only. */
static bool read_build_id(struct str code_id, struct asm_request *r)
{
	struct build_id_question q;
	if (code_id.len == 0 || !build_id_question_parse(&q, code_id) || q.whole.len == 0)
		return false;
	r->question = (struct build_id_question){.whole = q.whole};
	return true;
}

/* The map of the module's symbols. ERR_MISSING: no cache has it. */
static enum err find_module(
        struct exchange *x, const struct asm_request *r, struct str build_id, struct module_want *w, struct error *e)
{
	struct modules *m = services_modules();
	if (!r->debug_name.len || !r->debug_id.len)
		return ERR_MISSING;
	if (!modules_want(m, w, r->debug_name, r->debug_id, build_id))
		return no_memory(e);
	modules_resolve(m, w, 1, x->started + x->config->request_timeout);
	return w->state == WANT_FOUND ? ERR_OK : ERR_MISSING;
}

/* What the module's symbols say its code id is. ERR_MISSING: no cache has them, or they do not tell. */
static enum err read_symbols(struct exchange *x, struct asm_request *r, struct error *e)
{
	struct build_id_question part;
	struct module_want want = {.module = NULL};
	enum err err = find_module(x, r, str_from(""), &want, e);
	if (!err) {
		const struct offmap *map = want.module->map;
		struct str id = str_from(map->code_id), file = {map->code_file, map->code_file_len};
		bool told = read_pe(id, file.len > 0 ? file : r->name, r) ||
		            (build_id_question_parse(&part, r->debug_id) && read_build_id(id, r) &&
		                    build_id_answers(&r->question.whole, &part));
		err = told ? ERR_OK : ERR_MISSING;
	}
	module_want_release(&want);
	return err;
}

/* Which file has the code. */
static enum err read_question(struct exchange *x, struct asm_request *r, struct error *e)
{
	if (read_pe(r->code_id, r->name, r) || read_build_id(r->code_id, r))
		return ERR_OK;
	enum err err = read_symbols(x, r, e);
	if (err != ERR_MISSING)
		return err;
	if (r->debug_id.len > 0 && build_id_question_parse(&r->question, r->debug_id) && !r->question.windows)
		return ERR_OK;
	return error_set(e, ERR_BAD_REQUEST,
	        "neither codeId nor debugId gives a build id, and no cached symbols give the code id");
}

static enum err read_object(struct arena *arena, const json_t *object, struct asm_request *r, struct error *e)
{
	const json_t *to_end = json_object_get(object, "continueUntilFunctionEnd");
	if (!json_is_object(object))
		return error_set(e, ERR_BAD_REQUEST, "the request is not a JSON object");
	enum err err = asm_number(object, "startAddress", &r->range.start, e);
	if (!err)
		err = asm_number(object, "size", &r->range.size, e);
	if (!err && to_end && !json_is_boolean(to_end) && !json_is_null(to_end))
		err = error_set(e, ERR_BAD_REQUEST, "continueUntilFunctionEnd is not true or false");
	r->range.to_function_end = json_is_true(to_end);
	bool kept = asm_keep(&r->name, arena, object, "name") && asm_keep(&r->debug_name, arena, object, "debugName") &&
	            asm_keep(&r->debug_id, arena, object, "debugId") && asm_keep(&r->code_id, arena, object, "codeId");
	return err || kept ? err : no_memory(e);
}

static enum err read_request(struct exchange *x, struct asm_request *r, struct error *e)
{
	struct buffer body;
	buffer_init(&body, REQUEST_MAX);
	enum err err = exchange_read_body(x, &body, e);
	if (!err) {
		json_t *object;
		err = json_parse_request(&object, (struct str){(const char *)body.data, body.len}, e);
		if (!err)
			err = read_object(x->arena, object, r, e);
		json_decref(object);
	}
	buffer_release(&body);
	return err ? err : read_question(x, r, e);
}

/* ---- the reply ---- */

struct asm_reply {
	struct buffer instructions; /* "[0,"push rbp"],…" */
	char arch[16];
	/* where branches lead that have no name yet, and where their texts end in instructions */
	uint64_t *targets;
	size_t *ends;
	size_t target_count;
	uint32_t target_cap, end_cap;
	uint64_t charged; /* bytes */
};

static enum err begin(void *arg, struct str arch, struct error *e)
{
	struct asm_reply *r = arg;
	(void)e;
	snprintf(r->arch, sizeof r->arch, "%.*s", STR_FMT(arch));
	return ERR_OK;
}

/* Charges what the instructions and the reply made of them take. */
static bool charge(struct asm_reply *r, size_t len)
{
	const uint64_t more = CHARGE_STEP + 2 * (uint64_t)len;
	if (2 * ((uint64_t)r->instructions.len + len) + r->target_count * TARGET_SIZE <= r->charged)
		return true;
	bool room = account_take(ACCOUNT_REPLIES, more);
	r->charged += room ? more : 0;
	return room;
}

static bool add_target(struct asm_reply *r, uint64_t target, size_t end)
{
	if (!array_reserve(&r->targets, &r->target_cap, r->target_count + 1, sizeof *r->targets) ||
	        !array_reserve(&r->ends, &r->end_cap, r->target_count + 1, sizeof *r->ends))
		return false;
	r->targets[r->target_count] = target;
	r->ends[r->target_count++] = end;
	return true;
}

static enum err add_instruction(void *arg, uint32_t offset, uint64_t target, struct str text, struct error *e)
{
	struct asm_reply *r = arg;
	struct buffer *b = &r->instructions;
	if (!charge(r, text.len))
		return error_set(e, ERR_NO_MEMORY, "too much memory is in use; try again");
	buffer_printf(b, "%s[%" PRIu32 ",", b->len > 0 ? "," : "", offset);
	buffer_append_json(b, text);
	if (target != UINT64_MAX && b->len > 0 && !add_target(r, target, b->len - 1))
		return no_memory(e);
	return buffer_append(b, "]", 1) ? ERR_OK : no_memory(e);
}

/* How much of a string of a map, which is escaped, is shown: whole characters. */
static size_t shown_length(struct offmap_string s)
{
	size_t n = 0;
	while (n < s.len) {
		size_t escape = s.data[n] != '\\' ? 0 : n + 1 < s.len && s.data[n + 1] == 'u' ? 6 : 2;
		size_t step = escape ? escape : utf8_sequence(s.data + n, s.len - n);
		if (n + step > SHOWN_NAME_MAX)
			break;
		n += step ? step : 1;
	}
	return n;
}

/* " <name+0x12>", as it stands behind branches to symbols of the file. */
static void append_name(struct buffer *b, const struct symbol *symbol)
{
	const struct offmap_answer *a = &symbol->answer;
	buffer_append(b, " <", 2);
	buffer_append(b, a->frame.function.data, shown_length(a->frame.function));
	if (a->function_offset)
		buffer_printf(b, "+%#" PRIx64, a->function_offset);
	buffer_append(b, ">", 1);
}

/* Sets symbol_of, by target, unless the names are unknown. */
static enum symbolicate_result look_up(struct exchange *x, const struct asm_reply *r, struct module_want *want,
        struct symbols *symbols, const struct symbol **symbol_of)
{
	struct lookup *lookups = arena_alloc(x->arena, r->target_count * sizeof *lookups);
	struct symbolicate_stats stats = {0};
	if (!lookups || !symbol_of)
		return SYMBOLICATE_NO_MEMORY;
	for (size_t i = 0; i < r->target_count; i++)
		lookups[i] = (struct lookup){r->targets[i], 0, (uint32_t)i};
	const struct symbolication in = {.modules = services_modules(),
	        .wants = want,
	        .want_count = 1,
	        .lookups = lookups,
	        .lookup_count = r->target_count,
	        .functions_only = true,
	        .symbols = symbols,
	        .symbol_of = symbol_of,
	        .stats = &stats};
	return symbolicate(&in);
}

/* The instructions, with the names that the module's map has for what they lead to. */
static void append_instructions(
        struct buffer *b, struct exchange *x, const struct asm_request *q, const struct asm_reply *r)
{
	struct str build_id = q->range.pe_name[0] ? str_from("") : q->code_id;
	const struct symbol **symbol_of = arena_calloc(x->arena, r->target_count, sizeof *symbol_of);
	struct module_want want = {.module = NULL};
	struct symbols symbols;
	size_t from = 0;
	symbols_init(&symbols, x->scratch, x->config->max_reply, PAGES_MAX, x->started + x->config->request_timeout);
	enum symbolicate_result result = SYMBOLICATE_LOAD;
	enum err err = r->target_count > 0 ? find_module(x, q, build_id, &want, NULL) : ERR_MISSING;
	if (!err)
		result = look_up(x, r, &want, &symbols, symbol_of);
	b->failed = b->failed || err == ERR_NO_MEMORY || result == SYMBOLICATE_NO_MEMORY;
	for (size_t i = 0; i < r->target_count && result == SYMBOLICATE_OK; i++) {
		if (!symbol_of[i] || !symbol_of[i]->answer.found)
			continue;
		buffer_append(b, r->instructions.data + from, r->ends[i] - from);
		append_name(b, symbol_of[i]);
		from = r->ends[i];
	}
	buffer_append(b, r->instructions.data + from, r->instructions.len - from);
	symbols_release(&symbols);
	module_want_release(&want);
}

static void print_instructions(
        struct buffer *b, struct exchange *x, const struct asm_request *q, const struct asm_reply *r, uint64_t size)
{
	buffer_printf(
	        b, "{\"startAddress\":\"%#" PRIx64 "\",\"size\":\"%#" PRIx64 "\",\"arch\":", q->range.start, size);
	buffer_append_json(b, str_from(r->arch));
	buffer_printf(b, ",\"syntax\":[\"%s\"],\"instructions\":[", r->arch[0] == 'a' ? "ARM" : "Intel");
	append_instructions(b, x, q, r);
	buffer_append(b, "]}", 2);
}

static void print_failure(struct buffer *b, const struct error *e)
{
	buffer_append_str(b, str_from("{\"error\":"));
	buffer_append_json(b, str_from(e->text));
	buffer_append(b, "}", 1);
}

static enum err get_code(
        struct exchange *x, const struct asm_request *q, struct asm_reply *r, uint64_t *size, struct error *e)
{
	const struct code_sink sink = {begin, add_instruction, r};
	const struct elf_asker asker = {x->client, exchange_cancel(x)};
	enum err err = exchange_enter(x, services_turnstile(TURNSTILE_CODE), e);
	if (err)
		return err;
	err = elf_code_get(services_code(), &asker, &q->question, &q->range, &sink, size, e);
	exchange_leave(x);
	return err;
}

void asm_handle(struct exchange *x)
{
	struct asm_request q = {.range = {0}};
	struct asm_reply r = {.arch = ""};
	struct buffer body;
	struct error e;
	uint64_t size = 0;
	enum err err = read_request(x, &q, &e);
	if (err == ERR_GONE || err == ERR_TOO_LARGE || err == ERR_NO_MEMORY) {
		exchange_reply_error(x, &e, 1);
		return;
	}
	buffer_init(&r.instructions, REPLY_MAX - REQUEST_MAX);
	if (!err)
		err = get_code(x, &q, &r, &size, &e);
	buffer_init(&body, REPLY_MAX);
	if (err)
		print_failure(&body, &e);
	else
		print_instructions(&body, x, &q, &r, size);
	if (!body.failed)
		exchange_reply_text(x, 200, "application/json", NULL, (struct str){(const char *)body.data, body.len});
	else
		exchange_reply_error(x, (no_memory(&e), &e), 1);
	buffer_release(&body);
	buffer_release(&r.instructions);
	account_add(ACCOUNT_REPLIES, -(int64_t)r.charged);
	free(r.targets);
	free(r.ends);
}
