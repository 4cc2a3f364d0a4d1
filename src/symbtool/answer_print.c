/* SPDX-License-Identifier: Apache-2.0 */
/* Prints function, file and line of each address: of a reply, or of maps themselves, which is much faster. */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/put.h"
#include "json/scan.h"
#include "symbtool/answer.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

/* A function, or a call that was inlined; what is not known is empty or 0. */
struct place {
	struct str function, file;
	uint64_t line;
};

/* How frames are printed. */
struct printing {
	const struct naming *naming;
	struct answer_tally *tally;
	struct arena arena; /* of the frame */
};

/* What is printed of a frame. */
struct shown {
	struct str module, offset;
	struct place *calls; /* innermost first, the last is the function itself */
	size_t count;        /* 0: it has no name */
	struct str reason;   /* why, if that is known */
};

/* FUNCTION at FILE:LINE, as far as they are known. */
static void print_place(const struct place *p, struct printing *to)
{
	bool bold = is_coloured();
	fputs(bold ? "\033[1m" : "", stdout);
	print_visible_str(stdout, naming_function(to->naming, p->function, &to->arena));
	fputs(bold ? "\033[0m" : "", stdout);
	if (p->file.len) {
		fputs(" at ", stdout);
		print_visible_str(stdout, naming_file(to->naming, p->file));
	}
	if (p->line)
		printf(":%" PRIu64, p->line);
	putchar('\n');
}

/* Innermost first: the first has the address, the others stand below it. */
static void print_frame(const struct shown *f, struct printing *to)
{
	to->tally->frames++;
	to->tally->named += f->count > 0;
	to->tally->in_memory += str_equal(f->reason, str_from(reason_row(REASON_WRONG_OFFSET)->word));
	int indent = print_visible_str(stdout, f->module) + printf("+");
	indent += print_visible_str(stdout, f->offset) + printf("  ");
	if (!f->count) {
		fputs(f->reason.len ? "??  " : "??", stdout);
		print_visible_str(stdout, f->reason);
		putchar('\n');
	}
	for (size_t i = 0; i < f->count && !(i && to->naming->no_inlines); i++) {
		if (i)
			printf("%*s(inlined by) ", indent, "");
		print_place(&f->calls[i], to);
	}
}

/* An empty line stands between two stacks. */
static void begin_stack(struct answer_tally *tally)
{
	if (tally->stacks++)
		putchar('\n');
}

/* ---- a reply ---- */

static struct str text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return str_from(text ? text : "");
}

static struct place place_of(const json_t *call)
{
	json_int_t line = json_integer_value(json_object_get(call, "line"));
	return (struct place){text_of(call, "function"), text_of(call, "file"), line > 0 ? (uint64_t)line : 0};
}

static enum err print_reply_frame(const json_t *frame, struct printing *to, struct error *e)
{
	const json_t *inlines = json_object_get(frame, "inlines");
	struct shown f = {.module = text_of(frame, "module"),
	        .offset = text_of(frame, "module_offset"),
	        .reason = text_of(frame, "reason")};
	if (json_object_get(frame, "function")) {
		f.count = json_array_size(inlines) + 1;
		f.calls = arena_alloc(&to->arena, f.count * sizeof *f.calls);
		if (!f.calls)
			return no_memory(e);
		for (size_t i = 0; i + 1 < f.count; i++)
			f.calls[i] = place_of(json_array_get(inlines, i));
		f.calls[f.count - 1] = place_of(frame);
	}
	print_frame(&f, to);
	return ERR_OK;
}

/* Whether all modules of a result were found. */
static bool found_all(const json_t *result)
{
	const char *key;
	json_t *found;
	json_object_foreach(
	        json_object_get(result, "found_modules"), key, found) if (json_is_false(found)) return false;
	return true;
}

enum err answer_print(
        const struct buffer *reply, const struct naming *naming, struct answer_tally *tally, struct error *e)
{
	struct printing to = {naming, tally, {0}};
	const json_t *result;
	json_t *root = answer_parse(reply, &result);
	const json_t *stacks = json_object_get(result, "stacks");
	bool all = found_all(result);
	enum err err = json_is_array(stacks) ? ERR_OK : error_set(e, ERR_CORRUPT, "the reply has no stacks");
	arena_init(&to.arena, SIZE_MAX);
	for (size_t i = 0; i < json_array_size(stacks) && !err; i++) {
		const json_t *stack = json_array_get(stacks, i);
		begin_stack(tally);
		for (size_t j = 0; j < json_array_size(stack) && !err; j++) {
			const json_t *frame = json_array_get(stack, j);
			err = print_reply_frame(frame, &to, e);
			arena_reset(&to.arena);
			if (all && !json_object_get(frame, "function"))
				tally->nameless++;
		}
	}
	arena_release(&to.arena);
	json_decref(root);
	return err;
}

/* ---- maps ---- */

/* A map's string, which is escaped for JSON. */
static bool decode(struct offmap_string s, struct arena *arena, struct str *out)
{
	*out = (struct str){(const char *)s.data, s.len};
	if (!scan_has_escape(*out))
		return true;
	char *text = arena_alloc(arena, s.len);
	if (text)
		*out = (struct str){text, scan_decode(text, *out)};
	return text;
}

static bool decode_call(const struct offmap_call *c, struct arena *arena, struct place *p)
{
	p->line = c->file.len ? c->line : 0;
	return decode(c->function, arena, &p->function) && decode(c->file, arena, &p->file);
}

static bool decode_calls(const struct offmap_answer *a, struct arena *arena, struct shown *f)
{
	f->count = a->inline_count + (size_t)1;
	f->calls = arena_alloc(arena, f->count * sizeof *f->calls);
	for (uint32_t i = 0; i < a->inline_count && f->calls; i++)
		if (!decode_call(&a->inlines[i], arena, &f->calls[i]))
			return false;
	return f->calls && decode_call(&a->frame, arena, &f->calls[f->count - 1]);
}

static enum err print_map_frame(const char *module, const struct offmap *map, uint64_t address, struct printing *to,
        bool *named, struct error *e)
{
	struct offmap_answer a;
	uint8_t offset[18];
	struct shown f = {.module = str_from(answer_module(module))};
	enum err err = answer_look_up(map, address, &to->arena, &a);
	if (!err && a.found && !decode_calls(&a, &to->arena, &f))
		err = ERR_NO_MEMORY;
	if (err)
		return answer_failed(err, e);
	enum reason why = answer_reason(map, address, &a);
	f.reason = str_from(why ? reason_row(why)->word : "");
	f.offset = (struct str){(char *)offset, (size_t)(put_hex(PUT(offset, "0x"), address) - offset)};
	print_frame(&f, to);
	*named = f.count;
	return ERR_OK;
}

enum err answer_print_local(const struct question *q, struct offmap *const *maps, const struct naming *naming,
        struct answer_tally *tally, struct error *e)
{
	struct printing to = {naming, tally, {0}};
	enum err err = ERR_OK;
	bool all = true, named = false;
	for (size_t i = 0; i < q->module_count; i++)
		all = all && maps[i];
	arena_init(&to.arena, SIZE_MAX);
	for (size_t i = 0, stack = 0; stack < q->stack_count && !err; stack++) {
		begin_stack(tally);
		for (; i < q->ends[stack] && !err; i++) {
			const struct question_frame *f = &q->frames[i];
			err = print_map_frame(q->modules[f->module], maps[f->module], f->address, &to, &named, e);
			arena_reset(&to.arena);
			tally->nameless += !err && all && !named;
		}
	}
	arena_release(&to.arena);
	return err;
}
