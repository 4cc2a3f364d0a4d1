/* SPDX-License-Identifier: Apache-2.0 */
/* POST /source/v1, as samply and the Firefox Profiler define it: the source code of a file. Only a file that the
 * symbols of the module name at the given offset is given out, so that nobody can ask for any other. An error in the
 * request, or a file that is not there, is a 200 with `error`, since those clients show nothing of other replies. */
#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/asm.h"
#include "api/router.h"
#include "api/inquiry.h"
#include "api/writer.h"
#include "base/account.h"
#include "base/json_text.h"
#include "elf/code.h"
#include "elf/source_code.h"
#include "api/services.h"

struct source_request {
	struct request_module module;
	struct request_frame frame;
	struct request_stack stack;
	struct request_job job;
	struct str file;
	struct build_id id;
	struct buffer reply;
	uint64_t charged;   /* bytes */
	struct error error; /* what is wrong with the request */
};

/* ---- the request ---- */

static enum err read_object(struct inquiry *s, struct source_request *r, const json_t *object, struct error *e)
{
	struct arena *arena = s->exchange->arena;
	struct request_module *module = &r->module;
	struct str code_id;
	uint64_t offset;
	enum err err = json_is_object(object) ? asm_number(object, "moduleOffset", &offset, e)
	                                      : error_set(e, ERR_BAD_REQUEST, "the request is not a JSON object");
	if (err)
		return err;
	if (!asm_keep(&code_id, arena, object, "codeId") || !asm_keep(&module->name, arena, object, "debugName") ||
	        !asm_keep(&module->id, arena, object, "debugId") || !asm_keep(&r->file, arena, object, "file"))
		return no_memory(e);
	module->build_id = code_id;
	if (!module->name.len || !module->id.len || !r->file.len)
		return error_set(e, ERR_BAD_REQUEST, "debugName, debugId or file is missing");
	if (!build_id_parse(&r->id, code_id.len > 0 ? code_id : module->id))
		r->id.len = 0;
	r->frame = (struct request_frame){offset, 0, OFFSET_ADDRESS};
	r->stack = (struct request_stack){&r->frame, 1};
	r->job = (struct request_job){.modules = module, .stacks = &r->stack, .module_count = 1, .stack_count = 1};
	s->request = (struct request){&r->job, 1, 1, 1};
	return ERR_OK;
}

static enum err read_source(struct inquiry *s, struct error *e)
{
	struct source_request *r = arena_calloc(s->exchange->arena, 1, sizeof *r);
	if (!r)
		return no_memory(e);
	buffer_init(&r->reply, SIZE_MAX);
	s->user = r;
	json_t *object;
	enum err err = json_parse_request(&object, (struct str){(const char *)s->body.data, s->body.len}, e);
	if (!err)
		err = read_object(s, r, object, e);
	json_decref(object);
	if (err != ERR_BAD_REQUEST)
		return err;
	r->error = *e; /* told in the reply */
	s->request = (struct request){0};
	return ERR_OK;
}

/* ---- the reply ---- */

static bool is_file(struct offmap_string s, struct str file)
{
	return s.len == file.len && memcmp(s.data, file.data, s.len) == 0;
}

static bool names_file(const struct symbol *symbol, struct str file)
{
	const struct offmap_answer *a = symbol ? &symbol->answer : NULL;
	bool named = a && a->found && is_file(a->frame.file, file);
	for (uint32_t i = 0; a && a->found && i < a->inline_count && !named; i++)
		named = is_file(a->inlines[i].file, file);
	return named;
}

static enum err get_source(struct inquiry *s, struct source_request *r, struct buffer *text, struct error *e)
{
	if (r->error.code)
		return error_set(e, r->error.code, "%s", r->error.text);
	if (!s->exchange->config->source_code.count)
		return error_set(e, ERR_MISSING, "this server gives out no source code (source_code is not set)");
	if (!names_file(s->symbol_of[0], r->file))
		return error_set(e, ERR_MISSING, "the symbols of the module do not name this file at this offset");
	struct exchange *x = s->exchange;
	const struct elf_asker asker = {x->client, exchange_cancel(x)};
	enum err err = exchange_enter(x, services_turnstile(TURNSTILE_CODE), e);
	if (err)
		return err;
	/* not before: those who wait in its line may be many */
	r->charged = account_take(ACCOUNT_REPLIES, 2 * SOURCE_CODE_ROOM) ? 2 * SOURCE_CODE_ROOM : 0;
	err = r->charged ? elf_code_source(services_code(), &asker, &r->id, r->file, text, e)
	                 : error_set(e, ERR_UNAVAILABLE, "too much memory is in use; try again");
	exchange_leave(x);
	return err;
}

static void write_reply(struct writer *w, void *arg)
{
	const struct source_request *r = arg;
	write_bytes(w, (const char *)r->reply.data, r->reply.len);
}

static void reply_source(struct inquiry *s)
{
	struct source_request *r = s->user;
	struct buffer text;
	struct error e;
	buffer_init(&text, SOURCE_CODE_ROOM);
	enum err err = get_source(s, r, &text, &e);
	if (err) {
		buffer_append_str(&r->reply, str_from("{\"error\":"));
		buffer_append_json(&r->reply, str_from(e.text));
	} else {
		buffer_append_str(
		        &r->reply, str_from("{\"symbolsLastModified\":null,\"sourceLastModified\":null,\"file\":"));
		buffer_append_json(&r->reply, r->file);
		buffer_append_str(&r->reply, str_from(",\"source\":"));
		buffer_append_json(&r->reply, (struct str){text.data ? (const char *)text.data : "", text.len});
	}
	buffer_append(&r->reply, "}", 1);
	buffer_release(&text);
	account_add(ACCOUNT_REPLIES, (int64_t)r->reply.cap - (int64_t)r->charged);
	r->charged = r->reply.cap;
	if (r->reply.failed)
		inquiry_fail(s, ERR_NO_MEMORY, 1, "out of memory");
	else
		inquiry_reply(s, "application/json", 0, write_reply, r);
}

static void release_source(struct inquiry *s)
{
	struct source_request *r = s->user;
	if (!r)
		return;
	buffer_release(&r->reply);
	account_add(ACCOUNT_REPLIES, -(int64_t)r->charged);
}

void source_handle(struct exchange *x)
{
	static const struct inquiry_kind kind = {.read = read_source, .reply = reply_source, .release = release_source};
	inquiry_start(x, &kind);
}
