/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/answer_print.h"

#include <inttypes.h>
#include <stdio.h>

#include "json/scan.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

bool answer_text(struct str s, struct arena *arena, struct str *out)
{
	*out = s;
	if (!scan_has_escape(s))
		return true;
	char *text = arena_alloc(arena, s.len);
	if (text)
		*out = (struct str){text, scan_decode(text, s)};
	return text;
}

/* ---- for people ---- */

/* FUNCTION at FILE:LINE, as far as they are known. */
static bool print_call(const struct text_call *c, const struct naming *naming, struct arena *arena)
{
	struct str function, file;
	bool bold = is_coloured();
	if (!answer_text(c->function, arena, &function) || !answer_text(c->file, arena, &file))
		return false;
	fputs(bold ? "\033[1m" : "", stdout);
	print_visible_str(stdout, naming_function(naming, function, arena));
	fputs(bold ? "\033[0m" : "", stdout);
	if (file.len) {
		fputs(" at ", stdout);
		print_visible_str(stdout, naming_file(naming, file));
	}
	if (file.len && c->line)
		printf(":%" PRIu32, c->line);
	putchar('\n');
	return true;
}

/* Innermost first: the first has the address, the others stand below it. */
static bool print_frame(
        struct str module, const struct ask_frame *f, bool reason, const struct naming *naming, struct arena *arena)
{
	int indent = print_visible_str(stdout, module) + printf("+0x%" PRIx64 "  ", f->address);
	bool ok = true;
	if (!f->names.count)
		printf("??%s%s\n", reason ? "  " : "", reason ? reason_row(f->names.why)->word : "");
	for (size_t i = 0; i < f->names.count && ok && !(i && naming->no_inlines); i++) {
		if (i)
			printf("%*s(inlined by) ", indent, "");
		ok = print_call(&f->names.calls[i], naming, arena);
	}
	return ok;
}

static void count_frame(struct answer_tally *tally, const struct frame_names *names)
{
	tally->frames++;
	tally->named += names->count > 0;
	tally->nameless += !names->count && !reason_is_of_module(names->why);
	tally->in_memory += names->why == REASON_WRONG_OFFSET;
}

enum err answer_print(const struct question *q, const struct asker *asker, bool all_reasons,
        const struct naming *naming, struct answer_tally *tally, struct error *e)
{
	struct arena arena;
	bool ok = true;
	arena_init(&arena, SIZE_MAX);
	for (size_t i = 0, stack = 0; stack < q->stack_count; stack++) {
		if (tally->stacks++)
			putchar('\n');
		for (; i < q->ends[stack] && ok; i++) {
			const struct ask_frame *f = &q->frames[i];
			bool reason = all_reasons || !reason_is_of_module(f->names.why);
			count_frame(tally, &f->names);
			ok = print_frame(asker_name(asker, (uint32_t)f->module), f, reason, naming, &arena);
			arena_reset(&arena);
		}
	}
	arena_release(&arena);
	return ok ? ERR_OK : no_memory(e);
}

/* ---- as JSON ---- */

static void put_string(struct buffer *out, const char *before, struct str escaped)
{
	buffer_printf(out, "%s\"", before);
	buffer_append_str(out, escaped);
	buffer_append(out, "\"", 1);
}

static void put_place(struct buffer *out, const struct text_call *c)
{
	if (c->file.len)
		put_string(out, ",\"file\":", c->file);
	if (c->file.len && c->line)
		buffer_printf(out, ",\"line\":%" PRIu32, c->line);
}

static void put_names(struct buffer *out, const struct frame_names *n)
{
	const struct text_call *last = &n->calls[n->count - 1];
	put_string(out, ",\"function\":", last->function);
	buffer_printf(out, ",\"function_offset\":\"0x%" PRIx64 "\"", n->behind);
	if (n->has_size)
		buffer_printf(out, ",\"function_size\":\"0x%" PRIx64 "\"", n->size);
	put_place(out, last);
	for (size_t i = 0; i + 1 < n->count; i++) {
		put_string(out, i ? "},{\"function\":" : ",\"inlines\":[{\"function\":", n->calls[i].function);
		put_place(out, &n->calls[i]);
	}
	if (n->count > 1)
		buffer_printf(out, "}]");
}

static void put_frame(struct buffer *out, size_t number, struct str module, const struct ask_frame *f)
{
	buffer_printf(out, "%s{\"frame\":%zu,\"module\":", number ? "," : "", number);
	buffer_append_json(out, module);
	buffer_printf(out, ",\"module_offset\":\"0x%" PRIx64 "\"", f->address);
	if (f->names.count)
		put_names(out, &f->names);
	buffer_printf(out, "}");
}

static void put_found(struct buffer *out, const struct asker *asker)
{
	static const char *const words[] = {[ASK_UNKNOWN] = "null", [ASK_FOUND] = "true", [ASK_LACKING] = "false"};
	for (uint32_t i = 0; i < asker_count(asker); i++) {
		buffer_printf(out, "%s", i ? "," : "");
		buffer_append_json(out, str_from(asker_key(asker, i)));
		buffer_printf(out, ":%s", words[asker_found(asker, i)]);
	}
}

enum err answer_print_json(const struct question *q, const struct asker *asker, struct error *e)
{
	struct buffer out;
	size_t i = 0;
	buffer_init(&out, SIZE_MAX);
	buffer_printf(&out, "{\"results\":[{\"stacks\":[");
	for (size_t stack = 0; stack < q->stack_count; stack++) {
		size_t first = i;
		buffer_printf(&out, "%s[", stack ? "," : "");
		for (; i < q->ends[stack]; i++)
			put_frame(&out, i - first, asker_name(asker, (uint32_t)q->frames[i].module), &q->frames[i]);
		buffer_printf(&out, "]");
	}
	buffer_printf(&out, "],\"found_modules\":{");
	put_found(&out, asker);
	buffer_printf(&out, "}}]}");
	enum err err = out.failed ? no_memory(e) : ERR_OK;
	if (!err)
		print_json_text(stdout, (struct str){(const char *)out.data, out.len});
	putchar('\n');
	buffer_release(&out);
	return err;
}
