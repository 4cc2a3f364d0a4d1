/* SPDX-License-Identifier: Apache-2.0 */
/* Answers a question from files on this machine, as the same JSON that a server sends. */
#include <config.h>

#include <string.h>

#include "base/arena.h"
#include "json/reply.h"
#include "map/read.h"
#include "symbtool/answer.h"

/* Where Linux puts programs and libraries that may be anywhere. */
#define LOADED_MIN (UINT64_C(1) << 40)
#define LOADED_MAX (UINT64_C(1) << 47)

/* The string itself, where it lies in a string page. */
static enum err resolve(const struct offmap *m, struct offmap_string *s)
{
	if (!s->external)
		return ERR_OK;
	int64_t page = offmap_string_page(m, s->external);
	return page < 0 ? ERR_CORRUPT : offmap_string_lookup(m->strings[page], s->external, s);
}

static enum err resolve_call(const struct offmap *m, struct offmap_call *c)
{
	enum err err = resolve(m, &c->function);
	return err ? err : resolve(m, &c->file);
}

enum err answer_look_up(const struct offmap *m, uint64_t address, struct arena *arena, struct offmap_answer *a)
{
	int64_t page = m ? offmap_code_page(m, address) : -1;
	memset(a, 0, sizeof *a);
	if (page < 0)
		return ERR_OK;
	enum err err = offmap_lookup(m->code[page], address, arena, a);
	if (!err && a->found)
		err = resolve_call(m, &a->frame);
	for (uint32_t i = 0; i < a->inline_count && a->found && !err; i++)
		err = resolve_call(m, &a->inlines[i]);
	return err;
}

const char *answer_module(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

enum reason answer_reason(const struct offmap *m, uint64_t address, const struct offmap_answer *a)
{
	if (!m || a->found)
		return REASON_NONE;
	return address >= LOADED_MIN && address < LOADED_MAX ? REASON_WRONG_OFFSET : REASON_NO_FUNCTION;
}

enum err answer_failed(enum err err, struct error *e)
{
	return error_set(e, err, err == ERR_CORRUPT ? "a map that cannot be read" : "out of memory");
}

static enum err add_frame(struct buffer *out, const struct question *q, size_t number, size_t i,
        struct offmap *const *maps, struct arena *arena)
{
	struct offmap_answer a;
	const struct question_frame *f = &q->frames[i];
	enum err err = answer_look_up(maps[f->module], f->address, arena, &a);
	if (err)
		return err;
	buffer_printf(out, "%s{\"frame\":%zu,\"module\":", number ? "," : "", number);
	buffer_append_json(out, str_from(answer_module(q->modules[f->module])));
	buffer_append(out, ",", 1);
	enum reason why = q->reasons ? answer_reason(maps[f->module], f->address, &a) : REASON_NONE;
	if (why)
		buffer_printf(out, "\"reason\":\"%s\",", reason_row(why)->word);
	size_t size = (size_t)v5_tail_size(f->address, &a);
	if (!buffer_reserve(out, size))
		return ERR_NO_MEMORY;
	put_v5_tail(out->data + out->len, f->address, &a);
	out->len += size;
	return ERR_OK;
}

static void add_found(struct buffer *out, const struct question *q, struct offmap *const *maps)
{
	for (size_t i = 0; i < q->module_count; i++) {
		buffer_append(out, ",", i ? 1 : 0);
		buffer_append_json(out, str_from(q->modules[i]));
		buffer_printf(out, ":%s", maps[i] ? "true" : "false");
	}
}

enum err answer_local(const struct question *q, struct offmap *const *maps, struct buffer *reply, struct error *e)
{
	struct arena arena;
	enum err err = ERR_OK;
	size_t i = 0;
	arena_init(&arena, SIZE_MAX);
	buffer_printf(reply, "{\"results\":[{\"stacks\":[");
	for (size_t stack = 0; stack < q->stack_count && !err; stack++) {
		size_t first = i;
		buffer_printf(reply, "%s[", stack ? "," : "");
		for (; i < q->ends[stack] && !err; i++) {
			err = add_frame(reply, q, i - first, i, maps, &arena);
			arena_reset(&arena);
		}
		buffer_append(reply, "]", 1);
	}
	buffer_printf(reply, "],\"found_modules\":{");
	add_found(reply, q, maps);
	buffer_printf(reply, "}}]}");
	arena_release(&arena);
	if (!err && reply->failed)
		err = ERR_NO_MEMORY;
	return err ? answer_failed(err, e) : ERR_OK;
}
