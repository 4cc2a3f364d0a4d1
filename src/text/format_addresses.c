/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of addresses in memory, which a memory map in the text may explain; and those that have an offset or a fixed
 * address of their own: Node.js, Python's faulthandler, strace -k. */
#include <config.h>

#include "text/formats.h"
#include "text/path.h"
#include "text/signs.h"

enum {
	ADDRESSES_MAX = 256, /* of a line */
	FIXED_MAX = 0x7fffffff,
	HANDLER_FRAMES = 3, /* of glog and absl, up to where a signal came */
	SWIFT_MARKS = 8,
	NUMBERS_MAX = 8, /* of a line, tried as addresses */
};

struct addresses {
	unsigned at_depth; /* addresses of glog's stack so far */
	uint64_t pc_line;  /* the last line "PC: @" */
	bool at_signal;    /* one of them stands before this stack */
	uint64_t at_line;  /* the last line of one */
	uint64_t ada_line; /* the one below Ada's heading, with the stack */
};

/* An address of a process. */
static bool found_address(
        struct text_reader *r, struct text_frame *f, enum text_address address, struct str gap, enum text_style style)
{
	return text_found_at(r, f, address, NOTHING, gap, style);
}

/* The same of a caller in this file, unless a signal came there. */
static bool found_caller(
        struct text_reader *r, struct text_frame *f, struct str path, struct str gap, enum text_style style)
{
	text_caller(r, f, path, NOTHING);
	return found_address(r, f, TEXT_IS_SET, gap, style);
}

/* A frame that has a name, which may be the trampoline's. */
static bool pass_named(struct text_reader *r, uint64_t address, struct str name)
{
	struct text_frame f = {.offset = address};
	text_caller(r, &f, NOTHING, name);
	return true;
}

/* glog: "    @     0x55d902ef6f36 (unknown)", "    @     0x55d902ef6f36 main"; absl with the size of the stack frame
 * before the name: "    @     0x55d902ef6f36         32  (unknown)", where that may be unknown as well. "PC: @ 0x…
 * (unknown)" is where a signal came. That place is also among the first three addresses of the stack, behind those of
 * the handler. */
static bool read_at(struct text_reader *r, struct rest line)
{
	struct addresses *a = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	uint64_t size;
	blanks(&line);
	bool top = take_literal(&line, "PC: ");
	blanks(&line);
	if (!take_literal(&line, "@") || !blanks(&line) || !take_0x(&line, &f.offset) || !blanks(&line))
		return false;
	a->at_depth = top ? 0 : a->at_depth + 1;
	if (top)
		a->pc_line = r->line;
	if (a->at_depth == 1)
		a->at_signal = a->pc_line && r->line - a->pc_line <= 2;
	a->at_line = r->line;
	struct rest behind = line;
	if ((take_decimal(&behind, &size) || take_literal(&behind, "(unknown)")) && blanks(&behind) &&
	        behind.at < behind.end)
		line = behind;
	const char *name = line.at;
	if (!take_literal(&line, "(unknown)"))
		return !take_literal(&line, "0x"); /* it has a name, or is of a heap profile */
	bool exact = top || (a->at_signal && a->at_depth <= HANDLER_FRAMES);
	return found_address(r, &f, exact ? TEXT_EXACT : TEXT_CALL, between(name, line.at), TEXT_AT);
}

bool text_found_addresses(struct text_reader *r, struct rest line, enum text_address address)
{
	for (unsigned i = 0; i < ADDRESSES_MAX && !r->result; i++) {
		struct text_frame f = {.base = TEXT_ELF};
		if (!take_0x(&line, &f.offset))
			break;
		text_found_behind(r, &f, address, NOTHING, line.at);
		blanks(&line);
	}
	return r->frames > 0;
}

/* Heap profiles of tcmalloc and jemalloc: "1: 1000 [ 1: 1000] @ 0x401136 0x401157", "@ 0x401136 0x401157" */
static bool read_heap(struct text_reader *r, struct rest line)
{
	const char *at = find_word(line.at, line.end, "@ 0x");
	if (!at || (at != line.at && (at - line.at < 2 || at[-2] != ']')))
		return false;
	line.at = at + 2;
	text_found_addresses(r, line, TEXT_CALL);
	return true;
}

/* Ada: below "Call stack traceback locations:", one line of addresses, those of calls. */
static bool read_ada(struct text_reader *r, struct rest line)
{
	struct addresses *a = r->state;
	blanks(&line);
	if (take_literal(&line, "Call stack traceback locations:")) {
		a->ada_line = r->line + 1;
		text_await(r, 1);
	}
	if (r->line != a->ada_line || !take_literal(&line, "0x"))
		return false;
	line.at -= strlen("0x");
	text_found_addresses(r, line, TEXT_EXACT);
	return true;
}

/* Rust: "   4:     0x55d9f3f4a1b2 - <unknown>" */
static bool read_rust(struct text_reader *r, struct rest line, uint64_t address)
{
	struct text_frame f = {.base = TEXT_ELF, .offset = address};
	if (!take_literal(&line, " - "))
		return false;
	const char *name = line.at;
	if (!address) /* "0x0 - <unknown>" ends the stack */
		return true;
	if (!take_literal(&line, "<unknown>"))
		return pass_named(r, address, trimmed(between(name, line.end)));
	return found_address(r, &f, TEXT_RETURN, between(name, line.at), TEXT_AT);
}

/* Node.js and Electron: " 4: 0x10fb205  [node]". The executable is loaded where it was linked, or it needs a map. */
static bool read_node(struct text_reader *r, struct rest line, uint64_t address)
{
	struct text_frame f = {.base = TEXT_ELF, .offset = address};
	struct str gap = {line.at + 1, 0};
	while (line.end > line.at && is_blank((unsigned char)line.end[-1]))
		line.end--;
	if (!take_literal(&line, "  [") || line.end[-1] != ']')
		return false;
	struct str path = between(line.at, line.end - 1);
	text_names_file(r, &f, path);
	return text_found_at(r, &f, TEXT_CALL, address > FIXED_MAX ? NOTHING : path, gap, TEXT_AT);
}

/* boost::stacktrace: " 0# 0x000055D9F2B4119A in ./app" */
static bool read_boost(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_ELF};
	if (!take_literal(&line, "# ") || !take_0x(&line, &f.offset) || !take_literal(&line, " in ") ||
	        line.at == line.end)
		return false;
	struct str path = between(line.at, line.end);
	text_names_file(r, &f, path);
	return found_caller(r, &f, path, between(line.end, line.end), TEXT_PARENTHESES);
}

/* Swift: "3 [ra] [system] 0x00007f8b7d45a050 <unknown> in libx.so", with as many blanks as the columns need. */
static bool read_swift(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	bool caller = false;
	blanks(&line);
	for (unsigned i = 0; i < SWIFT_MARKS && take_literal(&line, "["); i++) {
		caller = take_literal(&line, "ra]") || caller;
		while (line.at < line.end && line.at[-1] != ']')
			line.at++;
		blanks(&line);
	}
	if (!take_0x(&line, &f.offset) || !take_literal(&line, " "))
		return false;
	struct str gap = {line.at, strlen("<unknown>")};
	if (!take_literal(&line, "<unknown> in "))
		return false;
	text_names_file(r, &f, between(line.at, line.end));
	return found_address(r, &f, caller ? TEXT_CALL : TEXT_EXACT, gap, TEXT_AT);
}

/* Wine: "=>0 0x00000321661370 in app (+0x1370) (0x0000000021fcb0)", with " 1" and so on below it. A frame whose
 * function is known has its name in place of "in". The dispatcher of exceptions lies above where one came. */
static bool read_wine(struct text_reader *r, struct rest line, uint64_t number)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	uint64_t address;
	if (!take_literal(&line, " ") || !take_0x(&line, &address) || !take_literal(&line, " "))
		return false;
	if (take_literal(&line, "KiUserExceptionDispatcher"))
		r->signal_line = r->line + 1;
	if (!take_literal(&line, "in "))
		return false;
	const char *plus = find_word(line.at, line.end, " (+0x");
	struct rest offset = {plus ? plus + strlen(" (+") : line.end, line.end};
	if (!plus || !take_0x(&offset, &f.offset) || !take_literal(&offset, ") ("))
		return false;
	return text_found_behind(r, &f, number ? TEXT_RETURN : TEXT_EXACT, between(line.at, plus), line.end);
}

static bool read_counted(struct text_reader *r, struct rest line)
{
	uint64_t number, address;
	take_literal(&line, "=>");
	if (!take_decimal(&line, &number))
		return false;
	if (peek(&line) == '#')
		return read_boost(r, line);
	if (peek(&line) == ' ')
		return read_swift(r, line) || read_wine(r, line, number);
	if (!take_literal(&line, ":") || !blanks(&line) || !take_0x(&line, &address))
		return false;
	return read_rust(r, line, address) || read_node(r, line, address);
}

/* The file that a line names behind "???" in parentheses, or as Object "…" before it; empty: none. */
static struct str file_named(struct rest line, struct rest marks)
{
	const char *close = find_last(marks.at, marks.end, ')');
	blanks(&marks);
	take_literal(&marks, "(");
	take_literal(&marks, "in ");
	if (close > marks.at)
		return between(marks.at, close);
	const char *object = find_word(line.at, line.end, "Object \"");
	const char *quote = object ? find_last(object + strlen("Object \""), line.end, '"') : NULL;
	return quote ? between(object + strlen("Object \""), quote) : NOTHING;
}

/* Addresses that the program did not find a name for, each with a map. All have gone back from return addresses:
 *   ==123==    by 0x4853104: ??? (in /tmp/libx.so)         valgrind; its massif and dhat too
 *   #1  0x7f0c97b0d104 in ???                              gfortran
 *   ???:?:?: 0x7f3d62e6610f in ??? (/tmp/libx.so)          Zig
 *   #1    Object "/tmp/libx.so", at 0x7f97a43ab104, in     backward-cpp
 *   ??:? ???[0x7f3c7e7ba10f]                               D
 * before: what stands before the address; after: behind it. */
static bool read_unknown_at(struct text_reader *r, struct rest line, const char *hex)
{
	static const struct {
		const char *before, *after;
		unsigned name; /* where the name goes, so far behind the address */
	} forms[] = {
	        {"", ": ??? (in ", 2},
	        {"  ", " in ???", 4},
	        {"???:?:?: ", " in ??? (", 4},
	        {"\", at ", ", in ", 5},
	        {"??:? ???[", "]", 1},
	        {"??:? [", "]", 1},
	};
	struct text_frame f = {.base = TEXT_ELF};
	struct rest rest = {hex, line.end};
	if (!take_0x(&rest, &f.offset))
		return false;
	for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
		struct rest after = rest;
		if (peek(&after) != *forms[i].after || !ends_with(between(line.at, hex), forms[i].before) ||
		        !take_literal(&after, forms[i].after))
			continue;
		struct rest marks = {rest.at + forms[i].name, line.end};
		const char *name = marks.at;
		if (!take_literal(&marks, "???") && marks.at != line.end)
			return false; /* it has a name */
		text_names_file(r, &f, file_named(line, marks));
		return found_address(
		        r, &f, TEXT_EXACT, between(name, marks.at), forms[i].name > 1 ? TEXT_AT : TEXT_PARENTHESES);
	}
	return false;
}

/* callgrind_annotate, with the address of a function in its file: "27,852 (17.01%)  ???:0x0000000000001115 (1x)
 * [/tmp/libx.so]", where (1x) is only in trees of calls */
static bool read_callgrind(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_ELF};
	uint64_t calls;
	const char *at = find_word(line.at, line.end, ") "), *name = at ? find_word(at, line.end, " ???:0x") : NULL;
	if (!name)
		return false;
	line.at = name + strlen(" ???:");
	if (!take_0x(&line, &f.offset))
		return false;
	struct rest tree = line;
	if (take_literal(&tree, " (") && take_decimal(&tree, &calls) && take_literal(&tree, "x)"))
		line = tree;
	if (!take_literal(&line, " [/") || line.end[-1] != ']')
		return false;
	return text_found_behind(r, &f, TEXT_EXACT, between(line.at - 1, line.end - 1), line.end);
}

static bool read_unknown(struct text_reader *r, struct rest line)
{
	const char *hex = find_0x(line.at, line.end);
	for (unsigned i = 0; hex && i < NUMBERS_MAX; i++, hex = find_0x(hex + 1, line.end))
		if (read_unknown_at(r, line, hex))
			return true;
	return read_callgrind(r, line);
}

/* lldb: "frame #1: 0x0000555555555142 app`___lldb_unnamed_symbol5 + 12" */
static bool read_lldb(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_ELF};
	uint64_t number;
	take_literal(&line, "* ");
	blanks(&line);
	if (!take_literal(&line, "frame #") || !take_decimal(&line, &number) || !take_literal(&line, ": ") ||
	        !take_0x(&line, &f.offset))
		return false;
	const char *tick = memchr(line.at, '`', (size_t)(line.end - line.at)), *name = tick ? tick + 1 : NULL;
	struct rest unnamed = {name, line.end};
	if (name ? !take_literal(&unnamed, "___lldb_unnamed_symbol") : line.at != line.end)
		return pass_named(r, f.offset, name ? between(name, line.end) : NOTHING);
	enum text_style style = name ? TEXT_AT : TEXT_PARENTHESES;
	struct str path = trimmed(between(line.at, name ? tick : line.at)),
	           gap = between(name ? name : line.end, line.end);
	text_names_file(r, &f, path);
	return number ? found_caller(r, &f, path, gap, style) : found_address(r, &f, TEXT_EXACT, gap, style);
}

/* strace -k: " > /usr/lib/libc.so.6(__libc_start_main+0x85) [0x27305]", where the last is an offset. The first frame of
 * a stack is where the process stopped. */
static bool read_strace(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	if (!blanks(&line) || !take_literal(&line, "> "))
		return false;
	const char *close = find_last(line.at, line.end, ')'), *open = close ? text_opening(line.at, close) : NULL;
	struct rest hex = {close ? close + 1 : line.end, line.end};
	if (!open || open == line.at || !take_literal(&hex, " [") || !take_0x(&hex, &f.offset) ||
	        !take_literal(&hex, "]") || hex.at != hex.end)
		return false;
	struct str path = between(line.at, open), name = between(open + 1, close);
	const char *plus = find_last(open + 1, close, '+');
	if (plus)
		name.len = (size_t)(plus - name.data);
	f.address = f.offset;
	if (r->strace_depth++)
		text_caller(r, &f, path, name);
	return text_found_behind(r, &f, TEXT_IS_SET, path, line.end);
}

/* Python 3.14, with an executable of a fixed address in the last:
 *   Binary file "/usr/lib/libc.so.6", at +0x27249 [0x7f…]
 *   Binary file "/usr/lib/libc.so.6", at __libc_start_main+0x85 [0x7f…]
 *   Binary file "/usr/bin/python3.14" [0x53d28e] */
static bool read_python(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	struct text_place at = {.has_offset = true};
	blanks(&line);
	if (!take_literal(&line, "Binary file \""))
		return false;
	const char *quote = find_last(line.at, line.end, '"');
	if (!quote || quote == line.at)
		return false;
	at.path = between(line.at, quote);
	line.at = quote + 1;
	const char *end = line.at;
	if (take_literal(&line, ", at ")) {
		const char *plus = memchr(line.at, '+', (size_t)(line.end - line.at));
		if (!plus)
			return true;
		at.name = between(line.at, plus);
		at.has_offset = !at.name.len;
		line.at = plus + 1;
		if (!take_0x(&line, &at.offset))
			return true;
		end = line.at;
	}
	if (!take_literal(&line, " [") || !take_0x(&line, &at.address) || peek(&line) != ']')
		return true;
	if (!at.name.len && end == quote + 1) {
		at.offset = at.address;
		at.has_offset = at.address <= FIXED_MAX;
		f.base = TEXT_ELF;
	}
	text_edit_one(r, &f, end, end, TEXT_PARENTHESES);
	return text_found_caller(r, &f, &at);
}

/* PyTorch: "frame #2: <unknown function> + 0x1110 (0x7f38397ed110 in /opt/libours.so)", or a function's name and an
 * offset in it. */
static bool read_torch(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	struct text_place at = {.has_offset = true};
	uint64_t number;
	if (!take_literal(&line, "frame #") || !take_decimal(&line, &number) || !take_literal(&line, ": "))
		return false;
	const char *open = line.end;
	while ((open = find_last(line.at, open, '(')) && memcmp(open + 1, "0x", line.end - open > 2 ? 2 : 0) != 0)
		;
	const char *plus = open ? find_last(line.at, open, '+') : NULL;
	struct rest offset = {plus ? plus + 1 : line.end, line.end}, tail = {open ? open + 1 : line.end, line.end};
	if (!plus || plus[-1] != ' ' || !take_literal(&offset, " ") || !take_0x(&offset, &at.offset) ||
	        !take_literal(&offset, " (") || !take_0x(&tail, &at.address) || !take_literal(&tail, " in ") ||
	        tail.end - tail.at < 2 || tail.end[-1] != ')')
		return false;
	at.path = between(tail.at, tail.end - 1);
	at.name = between(line.at, plus - 1);
	if (str_equal(at.name, str_from("<unknown function>")))
		at.name.len = 0;
	at.has_offset = !at.name.len;
	text_edit_one(r, &f, line.at, plus - 1, TEXT_AT);
	return text_found_caller(r, &f, &at);
}

static bool read_address(struct text_reader *r, struct rest line)
{
	struct addresses *a = r->state;
	unsigned strace_depth = r->strace_depth;
	if (r->line != a->at_line + 1)
		a->at_depth = 0;
	bool found = read_strace(r, line) || read_at(r, line);
	if (!found) {
		struct rest inner = line;
		blanks(&inner);
		found = read_ada(r, line) || read_counted(r, inner) || read_lldb(r, inner) || read_torch(r, inner) ||
		        read_heap(r, inner) || read_python(r, line);
	}
	if (r->strace_depth == strace_depth)
		r->strace_depth = 0;
	return found;
}

TEXT_FORMAT(text_addresses,
        .names = "lldb, PyTorch, strace -k, Python, Rust, Swift, Ada, Wine, Node.js, glog, absl, boost, heap profiles",
        .which = TEXT_ANCHORED, .signs = SIGN_HEX, .begins = "C",
        .words = TEXT_WORDS("frame #", "Binary file", "PC: ", "Call stack "), .read = read_address,
        .state_size = sizeof(struct addresses));

TEXT_FORMAT(text_unknown, .names = "valgrind, gfortran, Zig, D, backward-cpp, callgrind", .which = TEXT_FLOATING,
        .signs = SIGN_HEX, .read = read_unknown);
