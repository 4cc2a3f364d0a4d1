/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/reader.h"

#include <stdlib.h>

#include "base/hash.h"
#include "text/formats.h"
#include "text/prefix.h"
#include "text/signs.h"
#include "text/unescape.h"

enum { DEBUG_ID_PART = 8 }; /* hex digits with which each debug id and build id begins */
enum { SEARCH_TIMES = 64 }; /* how often each byte of a line may be searched for a module, in all ways to cut it */
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* with which Windows begins a text */

struct text_reader *text_reader_new(
        uint32_t max_modules, bool (*frame)(void *arg, const struct text_frame *f), void *arg)
{
	struct text_reader *r = calloc(1, sizeof *r + text_states_size());
	if (!r)
		return NULL;
	r->frame = frame;
	r->arg = arg;
	text_index_init(&r->index);
	text_states_init(r, r + 1);
	text_maps_init(&r->maps);
	if (text_modules_init(&r->modules, max_modules))
		return r;
	text_reader_free(r);
	return NULL;
}

void text_reader_free(struct text_reader *r)
{
	if (!r)
		return;
	text_modules_release(&r->modules);
	text_maps_release(&r->maps);
	free(r->unescaped);
	text_states_free_late(r);
	free(r);
}

size_t text_reader_memory(const struct text_reader *r)
{
	return sizeof *r + text_states_size() + text_states_late(r) + (r->unescaped ? sizeof *r->unescaped : 0) +
	       text_modules_memory(&r->modules) + text_maps_memory(&r->maps);
}

bool text_reader_know(struct text_reader *r, struct str name, struct str id)
{
	const struct text_module *ignored;
	const char *end = id.data + id.len, *slash = find_last(id.data, end, '/');
	struct rest behind = {slash ? slash + 1 : end, end};
	if (take_hex_digits(&behind).len < DEBUG_ID_PART) /* a FileID in base64 may have a slash, too */
		slash = NULL;
	struct str symbols = between(id.data, slash ? slash : id.data);
	if (!id.len)
		return text_modules_know_name(&r->modules, name);
	if (slash)
		id = between(slash + 1, end);
	return text_modules_know(&r->modules, name, symbols, id, TEXT_ID_GIVEN, true, &ignored);
}

void text_reader_use_fixed(struct text_reader *r, struct str program)
{
	r->uses_fixed = true;
	r->program = program;
}

void text_reader_tell_named(struct text_reader *r, bool titles)
{
	r->stacks.wanted = true;
	r->stacks.titled = titles;
}

const struct text_stack *text_reader_stack(const struct text_reader *r)
{
	return &r->stacks.stack;
}

uint64_t text_reader_named(const struct text_reader *r)
{
	return r->stacks.named;
}

uint32_t text_reader_modules(const struct text_reader *r)
{
	return r->modules.count;
}

const struct text_module *text_reader_module(const struct text_reader *r, uint32_t index)
{
	return text_modules_at(&r->modules, index);
}

bool text_reader_is_crowded(const struct text_reader *r)
{
	return text_modules_crowded(&r->modules);
}

void text_reader_trim(struct text_reader *r)
{
	if (text_maps_crowded(&r->maps))
		text_maps_forget(&r->maps);
}

void text_reader_forget(struct text_reader *r)
{
	text_modules_forget(&r->modules);
	text_maps_forget(&r->maps);
	r->base_count = 0;
}

void text_reader_begin(struct text_reader *r)
{
	text_reader_forget(r);
	text_maps_begin_process(&r->maps);
	text_states_free_late(r);
	memset(r + 1, 0, text_states_size());
	*r = (struct text_reader){.modules = r->modules,
	        .maps = r->maps,
	        .uses_fixed = r->uses_fixed,
	        .program = r->program,
	        .guess = r->guess,
	        .all_frames = r->all_frames,
	        .stacks = {.wanted = r->stacks.wanted, .titled = r->stacks.titled, .named = r->stacks.named},
	        .frame = r->frame,
	        .arg = r->arg,
	        .index = r->index,
	        .at = r->at,
	        .unescaped = r->unescaped};
	text_states_init(r, r + 1);
}

/* ---- what maps say ---- */

/* In the file that the line or else the user has told, if that is loaded where it was linked. */
static bool find_in_file(struct text_reader *r, const struct text_frame *f, struct text_location *out)
{
	struct str path = f->file ? text_modules_at(&r->modules, f->file - 1)->path : r->program;
	*out = (struct text_location){path, NULL, 0, TEXT_FIXED};
	return path.len && f->base == TEXT_ELF && !text_maps_cover(&r->maps, f->process, f->address);
}

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

/* ---- when there is none ---- */

const struct guess *text_reader_guess(const struct text_reader *r)
{
	return !r->all_frames && r->guess.score ? &r->guess : NULL;
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

static bool is_one_of(struct str name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (str_equal(name, str_from(names[i])))
			return true;
	return false;
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

/* ---- lines ---- */

/* What is asked of every line takes pointers: a struct rest would be copied within memory. */

/* Java's hs_err: "C  [libjn.so+0x112c]  name+0x1c", "j  J.go()V+1", "v  ~StubRoutines::call_stub". */
static bool is_hotspot(const char *at, const char *end)
{
	while (at < end && is_blank((unsigned char)*at))
		at++;
	return end - at > 2 && at[1] == ' ' && memchr("CVvJjA", *at, 6);
}

/* A number or word alone, as in lists of pretty-printed JSON. */
static bool is_scalar(struct rest line)
{
	if (line.end > line.at && line.end[-1] == ',')
		line.end--;
	while (line.at < line.end && (is_digit(peek(&line)) || strchr("-+.eEtrufalsn", *line.at)) && *line.at)
		line.at++;
	return line.at == line.end;
}

/* A line that is no frame ends a stack of perf, and where a signal came is behind it only if it stands between frames.
 */
static void pass_no_frame(struct text_reader *r, struct rest line)
{
	bool signal = r->signal_line == r->line, unknown = r->unknown_line == r->line;
	if (!r->perf_depth && !signal && !unknown)
		return;
	if (!text_is_between_frames(line)) {
		r->perf_depth = 0;
	} else if (!r->frames && r->caller_line != r->line) {
		r->signal_line += signal;
		r->unknown_line += unknown;
	}
}

/* Where the line ends without blanks; but backward-cpp's ", in " has one. */
static const char *without_end(const char *at, const char *end)
{
	while (end > at && (end[-1] == '\r' || is_blank((unsigned char)end[-1])) &&
	        !ends_with(between(at, end), ", in "))
		end--;
	return end;
}

/* Lines of several programs may stand among each other; each has a process, and a memory map, of its own. The oldest
 * program is forgotten when there are too many. */
static void change_source(struct text_reader *r, struct str source)
{
	uint64_t hash = name_hash_seeded(source, NOTHING, 0);
	if (r->source && r->sources[r->source - 1].hash == hash)
		return;
	if (r->source)
		r->sources[r->source - 1].process = r->maps.process;
	r->perf_depth = r->strace_depth = r->base_count = 0;
	for (r->source = 1; r->source <= TEXT_SOURCES && r->source <= r->source_count; r->source++) {
		if (r->sources[r->source - 1].hash != hash)
			continue;
		r->maps.process = r->sources[r->source - 1].process;
		return;
	}
	r->source = r->source_count++ % TEXT_SOURCES + 1;
	r->sources[r->source - 1].hash = hash;
	text_maps_begin_process(&r->maps);
}

/* Whether its prefix begins and ends like the latest one, and tells of no source: then it need not be read again. */
static bool has_same_prefix(const struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	size_t len = r->prefix_len;
	if (len <= sizeof r->prefix || r->source || (size_t)(end - at) < len)
		return false;
	char last = at[len - 2];
	return !memcmp(at, r->prefix, sizeof r->prefix) && at[len - 1] == ' ' &&
	       (last == r->prefix_last || (is_digit((unsigned char)last) && is_digit((unsigned char)r->prefix_last))) &&
	       !text_prefix_goes_on((struct rest){at + len, end}, signs & SIGN_BRACE);
}

/* Behind what a log puts there, if it does. */
static const char *behind_prefix(struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	struct str source = {"", 0};
	if (has_same_prefix(r, at, end, signs))
		return at + r->prefix_len;
	const char *behind = text_without_prefix((struct rest){at, end}, signs & SIGN_BRACE, &source).at;
	size_t len = (size_t)(behind - at);
	if (!len)
		return at;
	r->prefix_len = 0;
	if (len > sizeof r->prefix && behind[-1] == ' ') {
		r->prefix_len = len;
		r->prefix_last = behind[-2];
		memcpy(r->prefix, at, sizeof r->prefix);
	}
	if (source.len)
		change_source(r, source);
	return behind;
}

/* A line as it begins in one of the ways to cut it. */
struct cut {
	struct rest line;
	unsigned signs, hotspot_depth; /* the latter: of the lines above */
};

/* which: a set of enum text_asked. */
static bool ask_formats(struct text_reader *r, const struct cut *c, unsigned which)
{
	struct rest line = c->line;
	bool hotspot = is_hotspot(line.at, line.end);
	if (which & TEXT_ANCHORED && (hotspot || text_is_counted(line)))
		which |= TEXT_ANYWHERE;
	r->hotspot_depth = hotspot ? c->hotspot_depth + 1 : 0;
	r->begins = NULL;
	r->signs = c->signs;
	r->stacks.line = line;
	unsigned signs = (c->signs & SIGNS_OF_FRAMES) | (r->line <= r->awaited ? TEXT_AWAITED : 0);
	return text_formats_ask(r, line, signs, which);
}

/* A line in which no format found anything to look up. */
static void read_named(struct text_reader *r, struct rest line, unsigned signs)
{
	struct text_named named;
	bool below = r->stacks.count && r->stacks.end + 1 == r->line;
	bool may_be = signs & (SIGN_HEX | SIGN_QUOTE | SIGN_PAREN | SIGN_PLUS | SIGN_BRACE) || below;
	if (r->named_frames)
		return; /* a format has found it */
	if (may_be && text_read_named(r->stacks.line, below, &named))
		text_found_named(r, &named);
	else
		text_stacks_pass(r, line);
}

/* ---- prefixes of unknown forms ---- */

/* "r-xp 00026000" of a memory map, whose lines have no sign of frames */
static bool has_map(const char *at, const char *end, unsigned signs)
{
	return signs & SIGN_MAP && find_word(at, end, "p 0");
}

enum { CUTS_MAX = 24 };

static void know_prefix(struct text_reader *r, struct str prefix)
{
	memcpy(r->common.prefix, prefix.data, prefix.len);
	r->common.len = prefix.len;
}

/* Most lines of a log need not be looked at: a frame has an address or a number, or a path in parentheses as perf
 * writes it. Those of memory maps, and the brace that opens a value of JSON, have none. */
static bool may_have_prefix(const struct text_reader *r, const struct cut *c)
{
	const char *at = c->line.at, *end = c->line.end;
	size_t before = r->common.before_len;
	if (at == end || !before)
		return false;
	return r->common.before[before - 1] == '{' || c->signs & SIGN_HEX || end[-1] == ')' ||
	       (c->signs & SIGN_BRACE && end[-1] == '{') ||
	       (c->signs & SIGN_QUOTE && memchr(at, '#', (size_t)(end - at))) || has_map(at, end, c->signs);
}

/* "3: ", "3 0x", "0|1|", "16. ", "1# ", "47.13%", "27,852 (", "7f4640e1e000-", "0x55…", "00 000000c8`"; no time of day,
 * nor a number before a word. */
static bool may_be_number(struct rest line)
{
	struct rest hex = line;
	size_t digits = take_hex_digits(&hex).len;
	if (digits > 4)
		return true;
	while (is_digit(peek(&line)))
		line.at++;
	int next = peek(&line), second = line.end - line.at > 1 ? (unsigned char)line.at[1] : 0;
	switch (next) {
	case ':':
	case '.':
		return is_blank(second) || (next == '.' && is_digit(second));
	case ' ':
	case '\t':
		return !is_letter(second) || hex_value(second) >= 0;
	default:
		return next >= 0 && strchr("|#x%,<>[", next);
	}
}

/* What begins with a mark: "#0", "==7==", "=>0", "(0x", "(gdb) ", "->99.99%"; any other mark may begin a format. */
static bool may_be_mark(struct rest line)
{
	int next = line.end - line.at > 1 ? (unsigned char)line.at[1] : -1;
	switch (peek(&line)) {
	case '#':
		return is_digit(next) || is_blank(next);
	case '=':
		return next == '=' || next == '>';
	case '(':
		return next == '0' || next == 'g' || next == 'l' || next == 'E';
	case '-':
		return next == '>';
	default:
		return true;
	}
}

/* How lines begin that formats know by their beginning. */
static bool may_be_anchored(struct rest line)
{
	bool indented = blanks(&line);
	int first = peek(&line);
	struct rest digits = line;
	if (is_digit(first))
		return indented || may_be_number(line);
	if (!is_letter(first))
		return may_be_mark(line);
	return is_hotspot(line.at, line.end) || take_hex_digits(&digits).len > 3 ||
	       (line.end - line.at > 1 && line.at[1] == ':') || text_formats_have_word(line);
}

/* The line before, which no format took, without this prefix. Whether one takes it now, or it is a heading. */
static bool read_before(struct text_reader *r, struct str prefix, struct str following)
{
	struct text_common *c = &r->common;
	struct rest before = {c->before, c->before + c->before_len};
	struct str like = text_common_match(before, prefix), kept = r->following;
	const char *start = r->start;
	uint64_t at = r->at, kept_at = r->following_at;
	before.at += like.len;
	if (like.len && c->before_is_read && is_hotspot(before.at, before.end))
		r->hotspot_depth = 1;
	if (!like.len || c->before_is_read || c->before_line + 1 != r->line || r->mapped || !may_be_anchored(before))
		return false;
	uint64_t signal = r->signal_line, awaited = r->awaited;
	r->following = following;
	r->following_at = at + (uint64_t)(following.data - start);
	r->start = c->before;
	r->at = c->before_at;
	r->line--;
	if (r->stacks.above_line == r->line) { /* it is no title */
		r->stacks.above = r->stacks.before;
		r->stacks.above_line = r->stacks.before_line;
	}
	bool opens = str_equal(trimmed(between(before.at, before.end)), str_from("{")); /* a value of JSON */
	bool found = ask_formats(r, &(struct cut){before, c->before_signs, r->hotspot_depth}, TEXT_ANCHORED) || opens ||
	             signal != r->signal_line || awaited != r->awaited;
	r->line++;
	r->following = kept;
	r->following_at = kept_at;
	r->at = at;
	r->start = start;
	r->frames = 0;
	r->frames_before = r->all_frames;
	return found;
}

/* The line that a format was asked of is a frame, though nothing is to be looked up. */
static bool is_named_frame(const struct text_reader *r)
{
	return r->named_frames || r->caller_line == r->line;
}

/* Tries what this line and the one before have in common as a prefix of both; prefix: what is known of it. Sets c->line
 * to what is behind it. */
static bool find_prefix(struct text_reader *r, struct cut *c, const char *begin)
{
	struct cut cut = *c;
	const char *at = c->line.at > begin ? c->line.at : NULL, *end = c->line.end;
	if (!may_have_prefix(r, c) || is_named_frame(r))
		return false;
	uint32_t shape;
	struct str common = text_common_with_before(&r->common, (struct rest){begin, end}, &shape);
	uint32_t *failed = &r->common.failed[shape / 2 % SHAPES];
	if (*failed == shape)
		return false;
	for (unsigned i = 0; i < CUTS_MAX && (at = text_common_cut(common, (struct rest){begin, end}, at)); i++) {
		struct str prefix = between(begin, at);
		bool before = read_before(r, prefix, between(begin, end));
		cut.line.at = at;
		cut.hotspot_depth = r->hotspot_depth ? r->hotspot_depth : c->hotspot_depth;
		bool now = may_be_anchored(cut.line) && ask_formats(r, &cut, TEXT_ANCHORED);
		if (!now && !before && !is_named_frame(r))
			continue;
		if (r->begins > at && r->begins <= common.data + common.len) /* "# " before "#0" */
			prefix.len = (size_t)(r->begins - begin);
		know_prefix(r, prefix);
		*c = cut;
		return now || ask_formats(r, c, TEXT_FLOATING);
	}
	*failed = shape;
	return false;
}

/* A frame that is found wherever it stands tells which prefix is before it. */
static void note_begin(struct text_reader *r, const char *begin)
{
	const char *end = r->begins;
	while (end && end > begin && is_blank((unsigned char)end[-1]))
		end--;
	if (end && end < r->begins)
		end++;
	uint32_t ignored;
	struct str common = {"", 0};
	if (end)
		common = text_common_with_before(&r->common, (struct rest){begin, end}, &ignored);
	if (common.len && end > begin + 1 && common.data + common.len == end)
		know_prefix(r, common);
}

/* What it points to will not stay. */
static void keep_before(struct text_common *c)
{
	if (c->before_len && c->before != c->kept)
		memcpy(c->kept, c->before, c->before_len);
	c->before = c->kept;
}

static void keep_line(struct text_reader *r, const struct cut *c, const char *begin, bool is_read)
{
	struct text_common *kept = &r->common;
	size_t len = (size_t)(c->line.end - begin);
	kept->before_len = len <= BEFORE_MAX ? len : 0;
	kept->before = begin;
	if (r->mapped)
		keep_before(kept);
	kept->before_line = r->line;
	kept->before_at = r->at + (uint64_t)(begin - (r->mapped ? begin : r->start));
	kept->before_signs = c->signs;
	kept->before_is_read = is_read || r->mapped;
}

/* A line of JSON, which is not read twice. */
static bool is_json(struct rest line)
{
	blanks(&line);
	int first = peek(&line), next = line.end - line.at > 1 ? (unsigned char)line.at[1] : '{';
	bool begins = first == '{' || first == '[';
	return first > 0 && (begins ? next > 0 && strchr("{[]}\" ", next) : strchr("}]\",", first) != NULL);
}

/* No format would be asked of it, however it is cut: so are most lines of a log. */
static bool is_plain(const struct text_reader *r, const struct cut *c, const char *begin)
{
	size_t before = r->common.before_len;
	return !(c->signs & SIGNS_OF_FRAMES) && r->line > r->awaited && !r->json_depth &&
	       !(before && r->common.before[before - 1] == '{') &&
	       !text_formats_by_beginning(&r->index, c->line.at, c->line.end) &&
	       (begin == c->line.at || !text_formats_by_beginning(&r->index, begin, c->line.end)) &&
	       !is_hotspot(c->line.at, c->line.end) && !has_map(begin, c->line.end, c->signs);
}

/* Whether a format takes the line: as it is behind the prefix that is known, as it is, or behind another one. Sets
 * c->line to what is behind it. */
static bool read_cut(struct text_reader *r, struct cut *c, const char *begin)
{
	if (is_plain(r, c, begin)) {
		r->hotspot_depth = 0;
		r->begins = NULL;
		keep_line(r, c, begin, false);
		return false;
	}
	bool known = c->line.at > begin, json = r->json_depth || is_json(c->line);
	struct cut whole = *c;
	whole.line.at = begin;
	bool found = ask_formats(r, c, known || json ? TEXT_ANCHORED | TEXT_FLOATING : TEXT_ANCHORED);
	if (found && !known && r->begins)
		note_begin(r, begin);
	if (!found && !json)
		found = find_prefix(r, c, begin);
	bool floats = known || c->signs & r->index.floating_signs;
	if (!found && !json && floats &&
	        ask_formats(r, &whole, known ? TEXT_ANCHORED | TEXT_FLOATING : TEXT_FLOATING)) {
		*c = whole;
		found = true;
		note_begin(r, begin);
	}
	if (!found)
		found = ask_formats(r, c, TEXT_ANYWHERE);
	keep_line(r, c, begin, found || json);
	return found;
}

/* The same prefix as the line before, if that had one of an unknown form. */
static const char *behind_common(const struct text_reader *r, const char *at, const char *end)
{
	int first = (unsigned char)*r->common.prefix;
	if (r->common.len && (first == (unsigned char)*at || (is_digit(first) && is_digit((unsigned char)*at))))
		at += text_common_match((struct rest){at, end}, (struct str){r->common.prefix, r->common.len}).len;
	return at;
}

/* A line without prefix and colours. begin: where a prefix of an unknown form begins, if it has one. Whether a format
 * recognises it. */
static bool read_formats(struct text_reader *r, const char *begin, struct rest *line, unsigned signs)
{
	unsigned perf_depth = r->perf_depth;
	struct cut c = {*line, signs, r->hotspot_depth};
	r->search_left = SEARCH_TIMES * (size_t)(line->end - begin) + TEXT_NAME_MAX;
	r->frames = r->named_frames = 0;
	r->frames_before = r->all_frames;
	bool found = read_cut(r, &c, begin);
	if (!r->frames)
		r->base_count = r->strace_depth = 0;
	r->stacks.line = c.line;
	if (r->stacks.wanted && r->all_frames == r->frames_before)
		read_named(r, c.line, signs);
	if (!r->all_frames && (signs & (SIGN_HEX | SIGN_PLUS | SIGN_QUOTE)))
		guess_look(&r->guess, c.line, r->line - r->inner_lines, signs & SIGN_HEX);
	if (r->perf_depth == perf_depth)
		pass_no_frame(r, c.line);
	*line = c.line;
	return found;
}

/* ---- strings of JSON, and HTML ---- */

static bool begin_unescaping(struct text_reader *r)
{
	if (!r->unescaped && !(r->unescaped = malloc(sizeof *r->unescaped))) {
		r->result = TEXT_NO_MEMORY;
		return false;
	}
	r->unescaped->start = r->start;
	return true;
}

/* One of several lines is a report of its own, so is its memory map. Output that is logged line by line goes on. */
static bool read_string(struct text_reader *r, struct rest string, const char *line_feed)
{
	bool found = false;
	const char *feed = find_word(string.at, string.end, line_feed);
	uint32_t process = r->maps.process;
	bool whole = feed && feed + strlen(line_feed) < string.end;
	if (whole) {
		text_maps_begin_process(&r->maps);
		text_stacks_close(r);
		r->base_count = 0;
	}
	for (bool first = true; !r->result && text_unescape_line(r->unescaped, &string, line_feed); first = false) {
		unsigned signs;
		struct str source;
		const char *at = r->unescaped->text, *end = at + r->unescaped->len;
		text_scan_line(at, end, &signs);
		r->line += !first;
		r->inner_lines += !first;
		end = without_end(at, end);
		struct rest line = {at, end};
		line = text_without_prefix(line, signs & SIGN_BRACE, &source);
		found = read_formats(r, line.at, &line, signs) || found;
	}
	if (whole) {
		r->maps.process = process;
		text_stacks_close(r);
		r->line += 2; /* what follows is not of the same stack */
		r->inner_lines += 2;
		r->perf_depth = r->strace_depth = r->hotspot_depth = r->base_count = 0;
	}
	return found;
}

/* Keys under which logs have a line of output. */
static bool is_logged(struct str key)
{
	static const char *const keys[] = {
	        "log", "message", "msg", "MESSAGE", "@message", "textPayload", "line", "text", "body", "event"};
	enum { SHORTEST = 3, LONGEST = 11 };
	return key.len >= SHORTEST && key.len <= LONGEST && strchr("lmM@tbe", *key.data) &&
	       is_one_of(key, keys, sizeof keys / sizeof *keys);
}

/* The next string of a line of JSON, whose end is passed. */
static bool take_json_string(struct rest *line, struct str *out)
{
	const char *quote = line->at < line->end ? memchr(line->at, '"', (size_t)(line->end - line->at)) : NULL;
	const char *end = quote ? text_string_end(quote + 1, line->end) : NULL;
	if (!end)
		return false;
	*out = between(quote + 1, end);
	line->at = end + 1;
	return true;
}

/* {"log":"#0 0x…","stream":"stderr"} */
static bool has_logged(struct rest line)
{
	struct str string;
	while (take_json_string(&line, &string)) {
		struct rest r = line;
		blanks(&r);
		if (!is_logged(string) || !take_literal(&r, ":"))
			continue;
		blanks(&r);
		if (peek(&r) == '"')
			return true;
	}
	return false;
}

/* Those in which a program's output stands: with \n in or behind it, or under a key that logs use. Whether formats
 * recognise a line. */
static bool read_strings(struct text_reader *r, struct rest line)
{
	struct str string, key = {"", 0};
	bool found = false;
	if (!begin_unescaping(r))
		return false;
	r->escaped = TEXT_STRING;
	r->mapped = true;
	while (!r->result && take_json_string(&line, &string)) {
		struct rest value = {string.data, string.data + string.len};
		if (is_logged(key) || find_word(value.at, value.end, TEXT_JSON_FEED))
			found = read_string(r, value, TEXT_JSON_FEED) || found;
		blanks(&line);
		key = peek(&line) == ':' ? string : NOTHING;
	}
	r->escaped = 0;
	r->mapped = false;
	return found;
}

/* A line that is none of a JSON value ends it. */
static void pass_json(struct text_reader *r, struct rest line)
{
	blanks(&line);
	if (line.at < line.end && !strchr("{}[]\",", *line.at) && !is_scalar(line))
		r->json_depth = 0;
}

/* Whether the line is JSON with strings of lines. */
static bool read_json(struct text_reader *r, struct rest line, unsigned signs)
{
	if (find_word(line.at, line.end, TEXT_JSON_FEED))
		return text_read_json(r, line) || read_strings(r, line) || peek(&line) == '{';
	struct rest inner = line;
	blanks(&inner);
	if (r->json_depth || peek(&inner) != '{' || !has_logged(line))
		return false;
	if (!read_strings(r, line))
		ask_formats(r, &(struct cut){line, signs, r->hotspot_depth}, TEXT_ANCHORED | TEXT_FLOATING);
	return true;
}

static void read_plain(struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	struct rest line = {at, end = without_end(at, end)};
	take_literal(&line, BYTE_ORDER_MARK);
	at = behind_prefix(r, line.at, end, signs);
	line.at = at < end ? behind_common(r, at, end) : at;
	r->frames = 0;
	/* strings before the line around them, which may look like a frame, or like the end of a stack */
	if (!(signs & SIGN_QUOTE) || r->mapped || !read_json(r, line, signs))
		read_formats(r, at, &line, signs);
	if (r->json_depth)
		pass_json(r, line);
}

/* Lines without a sign are none of a stack. The signs found so far may be those of the next line. */
static bool is_html(const char *at, const char *end, unsigned signs)
{
	bool begins = at < end && *at == '&';
	if ((!(signs & SIGNS_OF_FRAMES) && !begins) || !text_is_html(at, end))
		return false;
	text_scan_line(at, end, &signs);
	return signs & SIGNS_OF_FRAMES || begins;
}

static void read_unescaped(struct text_reader *r, enum text_style style)
{
	unsigned signs;
	const char *at = r->unescaped->text, *end = at + r->unescaped->len;
	text_scan_line(at, end, &signs);
	r->escaped = style;
	r->mapped = true;
	read_plain(r, at, end, signs);
	r->escaped = 0;
	r->mapped = false;
}

/* "crash#012    #0 0x…#012    #1 0x…": so rsyslog writes a message of several lines. */
static bool read_syslog(struct text_reader *r, const char *at, const char *end)
{
	struct str source;
	if (!find_word(at, end, TEXT_SYSLOG_FEED) || !begin_unescaping(r))
		return false;
	struct rest line = text_without_prefix((struct rest){at, end}, true, &source);
	r->mapped = true;
	bool found = read_string(r, line, TEXT_SYSLOG_FEED);
	r->mapped = false;
	return found;
}

/* Colours as terminals have them, and entities of HTML, as the source of a page has them: "  4: 0x55d9f3f4a1b2 -
 * &lt;unknown&gt;". */
static void read_line(struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	struct rest line = {at, end};
	bool coloured = r->escape >= at && r->escape < end, html = !coloured && is_html(at, end, signs);
	if ((coloured || html) && !begin_unescaping(r))
		return;
	if (coloured && text_unescape_colours(r->unescaped, line))
		read_unescaped(r, 0);
	else if (html && text_unescape_html(r->unescaped, line))
		read_unescaped(r, TEXT_HTML);
	else if (!(signs & SIGN_QUOTE) || !read_syslog(r, at, end))
		read_plain(r, at, end, signs);
}

/* The next line tells whether a frame of a call graph has callees. False: it is still to come. */
static bool find_following(struct text_reader *r, const char *start, const char *stop, const char *end)
{
	const char *from = stop < end ? stop + 1 : end;
	const char *lf = memchr(from, '\n', (size_t)(end - from));
	r->following = between(from, lf ? lf : end);
	r->following_at = r->at + (uint64_t)(from - start);
	/* of macOS's call graphs, of compute-sanitizer's frames; jemalloc's title */
	bool matters = find_word(start, stop, "??? ") || find_word(start, stop, "Host Frame:") ||
	               (r->stacks.titled && *start == '@');
	return lf || end - start > TEXT_LINE_MAX || !matters;
}

static const char *find_escape(const char *from, const char *end)
{
	const char *at = memchr(from, ESCAPE, (size_t)(end - from));
	return at ? at : end;
}

enum text_result text_reader_read(struct text_reader *r, struct str text, bool last, size_t *used)
{
	*used = 0;
	r->result = TEXT_OK;
	r->escape = find_escape(text.data, text.data + text.len);
	while (*used < text.len && !r->result) {
		unsigned signs;
		const char *start = text.data + *used, *end = text.data + text.len;
		const char *stop = text_scan_line(start, end, &signs);
		bool lf = stop < end;
		size_t len = (size_t)(stop - start);
		r->following = NOTHING;
		if (!lf && !last && !r->skips && len <= TEXT_LINE_MAX)
			break;
		if (signs & SIGN_HEX && !r->skips && !find_following(r, start, stop, end) && !last)
			break;
		if (!r->skips)
			r->line++;
		r->start = start;
		if (r->escape < start)
			r->escape = find_escape(start, end);
		if (!r->skips && len <= TEXT_LINE_MAX)
			read_line(r, start, stop, signs);
		r->skips = !lf && !last;
		len += lf;
		*used += len;
		r->at += len;
	}
	keep_before(&r->common);
	return r->result;
}
