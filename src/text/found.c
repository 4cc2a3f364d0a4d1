/* SPDX-License-Identifier: Apache-2.0 */
/* What formats find in a line, on its way to the caller: a frame gets its module, where its name goes in the text, its
 * stack, and whether its address is that of a call; and, once all is read, what memory maps say of it. */
#include <config.h>

#include "text/formats.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* with which Windows begins a text */

static enum text_result no_room(const struct text_reader *r)
{
	return text_modules_full(&r->modules) ? TEXT_TOO_MANY_MODULES : TEXT_NO_MEMORY;
}

static enum text_result set_module(struct text_reader *r, struct text_frame *f, int32_t module)
{
	if (module < 0)
		return no_room(r);
	f->module = module;
	return TEXT_OK;
}

bool text_may_be_trampoline(uint64_t offset, struct str path)
{
	struct str file = text_base_name(path);
	return offset % 16 == 0 &&
	       (str_equal(file, str_from("libc.so.6")) || str_equal(file, str_from("libpthread.so.0")));
}

/* ---- what formats find ---- */

static void tell(struct text_reader *r, const struct text_frame *f)
{
	r->stacks.named += f->named;
	if (!r->result && !r->frame(r->arg, f))
		r->result = TEXT_STOPPED;
}

/* The name in place of which another would be written, if it is one. */
static void keep_replaced(struct text_reader *r, struct text_frame *f)
{
	const struct text_edit *edit = f->edits;
	if (!f->edit_count || f->own.function.len || !edit->cut || edit->at < r->at || r->stacks.in_json)
		return;
	const char *from = r->start + (edit->at - r->at);
	struct str name = trimmed(between(from, from + edit->cut));
	if (text_is_placeholder(name))
		return;
	if (name.len > 2 && *name.data == '(' && ends_with(name, ")"))
		name = (struct str){name.data + 1, name.len - 2};
	if (ends_with(name, " <null>"))
		name = trimmed((struct str){name.data, name.len - strlen(" <null>")});
	if ((edit->style & ~(unsigned)(TEXT_STRING | TEXT_HTML)) == TEXT_IN &&
	        str_equal(str_first(name, 3), str_from("in ")))
		name = trimmed((struct str){name.data + 3, name.len - 3});
	name = text_without_offset(name);
	if (!text_is_placeholder(name) && !memchr(name.data, '|', name.len))
		f->own.function = (struct text_span){
		        r->at + (uint64_t)(name.data - r->start), (uint32_t)name.len, (uint8_t)r->escaped};
}

/* Tells the caller of a frame, and before it of one that has a name and was held back until it was not alone. */
static void tell_in_stack(struct text_reader *r, struct text_frame *f)
{
	struct text_stacks *s = &r->stacks;
	if (!s->wanted) {
		tell(r, f);
		return;
	}
	bool holds = s->holds, begins = text_stacks_place(r, f);
	if (f->stack == TEXT_NO_STACK) {
		tell(r, f);
		return;
	}
	if (holds && !begins) {
		s->holds = false;
		tell(r, &s->held);
	}
	if (begins && f->named) {
		s->held = *f;
		s->holds = true;
		return;
	}
	tell(r, f);
}

void text_found_own(struct text_reader *r, const struct text_own *own)
{
	struct text_frame f = {.line = r->line - r->inner_lines, .module = TEXT_NO_MODULE, .named = true, .own = *own};
	if (!r->stacks.wanted || r->result)
		return;
	text_json_flush(r);
	r->named_frames++;
	tell_in_stack(r, &f);
}

void text_found_named(struct text_reader *r, const struct text_named *named)
{
	if (!text_is_placeholder(named->function))
		text_found_own(r, &(struct text_own){text_span_of(r, named->function), text_span_of(r, named->file),
		                          text_span_of(r, named->module), named->line});
}

/* No prefix of a log stands before it, nor is it in a string, in HTML or among colours. */
static bool is_alone(const struct text_reader *r)
{
	struct rest before = {r->start, r->begins ? r->begins : r->stacks.line.at};
	if (r->mapped || r->escaped || r->stacks.in_json || before.at > before.end)
		return false;
	take_literal(&before, BYTE_ORDER_MARK);
	blanks(&before);
	return before.at == before.end;
}

bool text_found(struct text_reader *r, struct text_frame *f, struct str path, struct str id, enum text_id kind)
{
	if (r->result || path.len > TEXT_NAME_MAX || id.len > TEXT_NAME_MAX)
		return true;
	text_json_flush(r);
	f->line = f->line ? f->line : r->line - r->inner_lines;
	f->module = TEXT_NO_MODULE;
	f->process = f->process ? f->process : r->maps.process;
	if (path.len && (r->result = set_module(r, f, text_modules_find(&r->modules, path, id, kind))))
		return true;
	r->frames++;
	r->all_frames++;
	f->alone = is_alone(r);
	if (r->stacks.wanted)
		keep_replaced(r, f);
	tell_in_stack(r, f);
	return true;
}

void text_names_file(struct text_reader *r, struct text_frame *f, struct str path)
{
	if (!r->uses_fixed || !path.len || path.len > TEXT_NAME_MAX || r->result)
		return;
	int32_t file = text_modules_find(&r->modules, path, NOTHING, TEXT_ID_GIVEN);
	if (file < 0)
		r->result = no_room(r);
	else
		f->file = (uint32_t)file + 1;
}

/* name: also with " + 12" behind it, as lldb has it. Without symbols of their own, trampolines have the name of the
 * function before them. */
static bool is_trampoline(uint64_t offset, struct str path, struct str name)
{
	static const char *const names[] = {"__restore_rt", "__kernel_rt_sigreturn", "_sigtramp"},
	                         *const before[] = {"__sigaction", "killpg", "funlockfile"};
	const char *plus = name.len ? find_word(name.data, name.data + name.len, " + ") : NULL;
	if (plus)
		name.len = (size_t)(plus - name.data);
	if (is_one_of(name, names, sizeof names / sizeof *names))
		return true;
	return (!name.len || is_one_of(name, before, sizeof before / sizeof *before)) &&
	       text_may_be_trampoline(offset, path);
}

void text_caller(struct text_reader *r, struct text_frame *f, struct str path, struct str name)
{
	bool signal = r->line == r->signal_line || r->line == r->signal_again;
	r->caller_line = r->line;
	if (r->stacks.wanted && !r->stacks.in_json && name.len && !text_is_placeholder(name))
		f->own.function = text_span_of(r, name);
	f->address = !signal && f->offset ? f->offset - 1 : f->offset;
	f->below_unknown = r->line == r->unknown_line;
	if (!path.len && !name.len && f->offset % 16 == 0)
		r->unknown_line = r->line + 1;
	if (is_trampoline(f->offset, path, name)) {
		f->address = f->offset;
		r->signal_line = r->line + 1;
	}
}

/* Where an edit ends, so far behind the line's start: what changes colours stays. */
static uint64_t before_colours(const struct text_reader *r, uint64_t at, uint64_t end)
{
	const char *from = r->start + at, *to = r->start + end, *plain = memchr(from, ESCAPE, (size_t)(end - at));
	const char *found = plain ? plain : find_word(from, to, "\\u001b");
	return found ? (uint64_t)(found - r->start) : end;
}

void text_edit_one(
        const struct text_reader *r, struct text_frame *f, const char *from, const char *to, enum text_style style)
{
	uint64_t at, end;
	if (!r->mapped) {
		at = (uint64_t)(from - r->start);
		end = (uint64_t)(to - r->start);
	} else {
		at = r->unescaped->at[from - r->unescaped->text];
		end = r->unescaped->at[to - r->unescaped->text];
		style = (enum text_style)((unsigned)style | r->escaped);
		end = before_colours(r, at, end);
	}
	f->edits[0] = (struct text_edit){.at = r->at + at, .cut = (uint32_t)(end - at), .style = (uint8_t)style};
	f->edit_count = 1;
}

bool text_found_at(struct text_reader *r, struct text_frame *f, enum text_address address, struct str path,
        struct str gap, enum text_style style)
{
	if (address == TEXT_RETURN)
		text_caller(r, f, path, NOTHING);
	else if (address != TEXT_IS_SET)
		f->address = f->offset - (address == TEXT_CALL && f->offset);
	text_edit_one(r, f, gap.data, gap.data + gap.len, style);
	return text_found(r, f, path, NOTHING, TEXT_ID_GIVEN);
}

bool text_found_behind(
        struct text_reader *r, struct text_frame *f, enum text_address address, struct str path, const char *end)
{
	return text_found_at(r, f, address, path, between(end, end), TEXT_PARENTHESES);
}

bool text_pass_named(struct text_reader *r, const struct text_named *named)
{
	r->frames++;
	text_found_named(r, named);
	return true;
}

static const struct text_module *know(
        struct text_reader *r, struct str path, struct str symbols, struct str id, enum text_id kind)
{
	const struct text_module *told = NULL;
	if (!r->result && !text_modules_know(&r->modules, path, symbols, id, kind, false, &told))
		r->result = no_room(r);
	return told;
}

bool text_told(struct text_reader *r, struct str path, struct str symbols, struct str id, enum text_id kind)
{
	know(r, path, symbols, id, kind);
	return true;
}

bool text_mapped(struct text_reader *r, struct text_mapping *m, struct str symbols, struct str id, enum text_id kind)
{
	m->told = id.len ? know(r, m->path, symbols, id, kind) : NULL;
	if (!r->result && !text_maps_add(&r->maps, m))
		r->result = TEXT_NO_MEMORY;
	return true;
}

/* ---- what maps say ---- */

/* In the file that the line or else the user has told, if that is loaded where it was linked. */
static bool find_in_file(struct text_reader *r, const struct text_frame *f, struct text_location *out)
{
	struct str path = f->file ? text_modules_at(&r->modules, f->file - 1)->path : r->program;
	*out = (struct text_location){path, NULL, 0, TEXT_FIXED};
	return path.len && f->base == TEXT_ELF && !text_maps_cover(&r->maps, f->process, f->address);
}

enum text_result text_reader_place(struct text_reader *r, struct text_frame *f)
{
	struct text_location at;
	uint64_t caller = (f->offset - f->address) & 1; /* a return address */
	if (f->below_unknown && r->placed_trampoline && caller) {
		f->address++;
		caller = 0;
	}
	r->placed_trampoline = false;
	if (f->module != TEXT_NO_MODULE ||
	        (!text_maps_find(&r->maps, f->process, f->address, &at) && !find_in_file(r, f, &at)))
		return TEXT_OK;
	enum text_result result = set_module(r, f, text_modules_find_told(&r->modules, at.path, at.told));
	if (result)
		return result;
	f->address -= at.start;
	f->offset = f->address + caller;
	f->base = at.base;
	r->placed_trampoline = caller && text_may_be_trampoline(f->offset, at.path);
	return TEXT_OK;
}

enum text_result text_reader_find_path(struct text_reader *r, struct text_frame *f)
{
	struct str name = {"", 0}, path = {"", 0};
	if (f->module != TEXT_NO_MODULE)
		name = text_modules_at(&r->modules, (uint32_t)f->module)->path;
	if (name.len && !memchr(name.data, '/', name.len))
		path = text_maps_path(&r->maps, f->process, name);
	return path.len ? set_module(r, f, text_modules_find_at(&r->modules, (uint32_t)f->module, path)) : TEXT_OK;
}
