/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that servers and simulations print of themselves, and those of the ESP32: Envoy, Seastar, DPDK, folly, Intel
 * Fortran, compute-sanitizer. */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

enum {
	SIGNS_MAX = 8,    /* tried in a path */
	FRAMES_MAX = 256, /* of a line */
	FIXED_MAX = 0x7fffffff,
	FOLLY_DIGITS = 16,          /* of an address */
	FORTRAN_LINES = 2,          /* from row to row: there may be an empty line between them */
	FORTRAN_HANDLER = 3,        /* rows within which the signal's trampoline is */
	ENVOY_LINE = 4096,          /* bytes of a line that is searched for its frame */
	ESP_ADDRESSES = 0x20000000, /* code is above */
};

struct servers {
	uint64_t envoy_fault;  /* the line above Envoy's stack of a crash */
	uint64_t seastar_line; /* the last of Seastar's stack, or the one above it */
};

struct fortran {
	uint64_t line; /* the last row, or the heading */
	unsigned rows;
	bool signal; /* the last may be the trampoline of signals */
};

/* The program itself, which these do not name: the one that the user gave, else this one. */
static struct str program_or(const struct text_reader *r, const char *name)
{
	return r->program.len ? r->program : str_from(name);
}

/* ---- Envoy ---- */

/* "Address mapping: 555555554000-5555570a0000 /usr/local/bin/envoy": the code of the program. */
static bool read_envoy_map(struct text_reader *r, struct rest line)
{
	static const char mark[] = "Address mapping: ";
	struct text_mapping m = {.kind = MAP_EXEC, .executable = true};
	if (line.end - line.at > ENVOY_LINE)
		return false;
	line.at = find_word(line.at, line.end, mark);
	if (!line.at)
		return false;
	line.at += sizeof mark - 1;
	if (!take_hex(&line, &m.start) || !take_literal(&line, "-") || !take_hex(&line, &m.end) ||
	        !take_literal(&line, " /"))
		return false;
	m.path = trimmed(between(line.at - 1, line.end));
	return text_mapped(r, &m, NOTHING, NOTHING, TEXT_ID_GIVEN);
}

/* "#2: [0x55555b1a2b3c]", or with a name before the bracket. All are return addresses, but below the signal's
 * trampoline, with which the stack of a crash begins. */
static bool read_envoy_frame(struct text_reader *r, struct rest line)
{
	struct servers *s = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	uint64_t number;
	const char *sign = memchr(line.at, '#', (size_t)(line.end - line.at));
	while (sign && sign > line.at && !is_blank((unsigned char)sign[-1]))
		sign = memchr(sign + 1, '#', (size_t)(line.end - sign - 1));
	struct rest at = {sign ? sign + 1 : line.end, line.end};
	if (!take_decimal(&at, &number) || !take_literal(&at, ": "))
		return false;
	const char *end = line.end;
	if (!cut_address(&at, &f.offset))
		return false;
	struct str function = trimmed(between(at.at, at.end));
	r->begins = r->stacks.line.at = sign;
	bool below_handler = number == 1 && s->envoy_fault && r->line - s->envoy_fault <= 8;
	if (below_handler)
		r->signal_line = r->line;
	text_caller(r, &f, NOTHING, function);
	if (function.len) {
		return text_pass_named(r, &(struct text_named){.function = function});
	}
	return text_found_behind(r, &f, TEXT_IS_SET, NOTHING, end);
}

static bool read_envoy(struct text_reader *r, struct rest line)
{
	struct servers *s = r->state;
	if (line.end - line.at > ENVOY_LINE)
		return false;
	const char *caught = find_word(line.at, line.end, "Caught ");
	if (caught && find_word(caught, line.end, ", suspect faulting address 0x"))
		s->envoy_fault = r->line;
	return read_envoy_frame(r, line);
}

/* ---- Seastar, ESP32 ---- */

/* "/lib64/libc.so.6+0x3df9f"; there may be blanks in the path. */
static bool take_place(struct rest *line, struct str *path, uint64_t *offset)
{
	const char *from = line->at, *plus = from;
	for (unsigned i = 0; i < SIGNS_MAX && (plus = find_word(plus + 1, line->end, "+0x")); i++) {
		struct rest hex = {plus + 1, line->end};
		if (!take_0x(&hex, offset) || (hex.at < hex.end && !is_blank((unsigned char)*hex.at)))
			continue;
		*path = between(from, plus);
		line->at = hex.at;
		return true;
	}
	return false;
}

/* One frame of "0x400d1f2a:0x3ffb4f60" (with the stack's address), "0x2f5c3e4" or "/lib64/libc.so.6+0x3df9f": all are
 * addresses of calls already. */
static bool take_traced(struct text_reader *r, struct rest *line, bool alone)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	struct str path = NOTHING;
	uint64_t stack;
	if (peek(line) == '/') {
		if (!take_place(line, &path, &f.offset))
			return false;
	} else if (!take_0x(line, &f.offset)) {
		return false;
	} else if (peek(line) == ':' && !alone && f.offset >= ESP_ADDRESSES) {
		line->at++;
		if (!take_0x(line, &stack))
			return false;
		f.base = TEXT_ELF;
		path = program_or(r, "firmware.elf");
	} else {
		path = program_or(r, "scylla");
	}
	if (line->at < line->end && !is_blank((unsigned char)*line->at))
		return false;
	return text_found_behind(r, &f, TEXT_EXACT, path, line->at);
}

/* A line of the stack comes next, or one of the tasks that wait. */
static void await_seastar(struct text_reader *r)
{
	struct servers *s = r->state;
	s->seastar_line = r->line;
	text_await(r, 1);
}

/* "… backtrace:" */
static bool read_backtrace_heading(struct text_reader *r, struct rest line)
{
	struct str whole = between(line.at, line.end);
	if (line.end[-1] == ':' && (ends_with(whole, "Backtrace:") || ends_with(whole, "backtrace:")))
		await_seastar(r);
	return false;
}

/* ESP-IDF: "Backtrace: 0x400d1f2a:0x3ffb4f60 0x400d1f4e:0x3ffb4f80", perhaps with " |<-CORRUPTED" behind it. Seastar:
 * "… Backtrace: 0x1e0b2c1 /lib64/libc.so.6+0x3df9f", or "Backtrace:" with a line for each below it. */
static bool read_backtrace(struct text_reader *r, struct rest line)
{
	static const char mark[] = "ktrace:", before[] = "bac";
	const char *at = find_word(line.at, line.end, mark); /* k is rarer than b */
	if (!at || at - line.at < 3 || (at[-3] | 0x20) != before[0] || memcmp(at - 2, before + 1, 2) != 0)
		return false;
	line.at = at + sizeof mark - 1;
	blanks(&line);
	if (line.at == line.end) {
		await_seastar(r);
		return false;
	}
	if (peek(&line) != '/' && peek(&line) != '0') /* "std::backtrace::Backtrace::create" */
		return false;
	text_stacks_close(r);
	for (unsigned i = 0; i < FRAMES_MAX && !r->result && take_traced(r, &line, false); i++)
		blanks(&line);
	return r->frames > 0;
}

static bool read_seastar(struct text_reader *r, struct rest line)
{
	struct servers *s = r->state;
	if (!s->seastar_line || s->seastar_line + 1 != r->line || !blanks(&line))
		return false;
	struct rest whole = line;
	uint64_t offset;
	struct str path;
	bool is = peek(&whole) == '/' ? take_place(&whole, &path, &offset) : take_0x(&whole, &offset);
	if (is && whole.at == whole.end) {
		await_seastar(r);
		return take_traced(r, &line, true);
	}
	if (take_literal(&whole, "--------") || take_literal(&whole, "seastar::")) /* of tasks that wait */
		await_seastar(r);
	return false;
}

/* ---- DPDK ---- */

/* "3: /usr/bin/app (5594abc000+0x1139) [55d9c3a01139]", or with a function in place of where the file begins; before
 * DPDK 20.11 "3: [./app(+0x1139) [0x55d9c3a01139]]" and "3: [./app() [0x401136]]", outermost first. All are return
 * addresses. */
static bool read_dpdk(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	uint64_t number, base, address;
	blanks(&line);
	if (!take_decimal(&line, &number) || !take_literal(&line, ": "))
		return false;
	if (peek(&line) == '[' && ends_with(between(line.at, line.end), "]]"))
		return text_read_glibc(r, (struct rest){line.at + 1, line.end - 1});
	const char *open = find_last(line.at, line.end, '['), *plus = open ? find_last(line.at, open, '+') : NULL,
	           *group = plus ? find_last(line.at, plus, '(') : NULL;
	struct rest hex = {open ? open + 1 : line.end, line.end}, begin = {group ? group + 1 : line.end, plus},
	            offset = {plus ? plus + 1 : line.end, open};
	if (!group || group - line.at < 2 || group[-1] != ' ' || !take_hex(&hex, &address) ||
	        !take_literal(&hex, "]") || hex.at != hex.end || !take_0x(&offset, &f.offset) ||
	        !take_literal(&offset, ") ") || offset.at != open)
		return false;
	struct str path = between(line.at, group - 1);
	if (!take_hex(&begin, &base) || begin.at != plus || base + f.offset != address) {
		text_caller(r, &f, NOTHING, between(group + 1, plus));
		return text_pass_named(r, &(struct text_named){.function = between(group + 1, plus), .module = path});
	}
	return text_found_behind(r, &f, TEXT_RETURN, path, line.end);
}

/* ---- folly ---- */

/* "    @ 0000000000401136 (unknown)": glog's form without 0x. Addresses are those of calls. */
static bool read_folly(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_ELF};
	blanks(&line);
	if (!take_literal(&line, "@ "))
		return false;
	const char *from = line.at;
	if (!take_hex(&line, &f.offset) || line.at - from != FOLLY_DIGITS || !blanks(&line))
		return false;
	const char *name = line.at;
	if (!take_literal(&line, "(unknown)"))
		return false;
	return text_found_at(r, &f, TEXT_EXACT, NOTHING, between(name, line.at), TEXT_AT);
}

/* ---- Intel Fortran ---- */

static bool read_fortran_heading(struct text_reader *r, struct rest line)
{
	struct fortran *s = r->state;
	static const char *const columns[] = {"Image", "PC", "Routine", "Line", "Source"};
	struct rest image = line;
	blanks(&image);
	if (!take_literal(&image, columns[0]))
		return false;
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		if (!str_equal(take_word(&line), str_from(columns[i])))
			return false;
	s->line = r->line;
	text_await(r, FORTRAN_LINES);
	s->rows = 0;
	s->signal = false;
	text_stacks_close(r);
	return true;
}

/* What stands in libc at a multiple of 16 may be the trampoline of signals; names of images are cut. */
static bool is_trampoline(struct str image, uint64_t address)
{
	static const char *const names[] = {"libpthread", "libc.so", "libc-"};
	for (size_t i = 0; i < sizeof names / sizeof *names && address % 16 == 0; i++)
		if (str_equal(str_first(image, strlen(names[i])), str_from(names[i])))
			return true;
	return false;
}

/* "wrf.exe            0000000004A057CA  Unknown               Unknown  Unknown": an address of the process. Names of
 * images are cut. */
static bool read_fortran(struct text_reader *r, struct rest line)
{
	struct fortran *s = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	if (!s->line || r->line - s->line > FORTRAN_LINES)
		return false;
	struct rest at = line;
	struct str image = take_word(&at), pc = take_word(&at), routine = take_word(&at);
	struct rest hex = {pc.data, pc.data + pc.len};
	if (!routine.len || (pc.len != 8 && pc.len != 16) || !take_hex(&hex, &f.offset) || hex.at != hex.end)
		return false;
	bool exact = s->signal;
	s->line = r->line;
	text_await(r, FORTRAN_LINES);
	s->signal = s->rows++ < FORTRAN_HANDLER && is_trampoline(image, f.offset);
	if (!str_equal(routine, str_from("Unknown"))) {
		struct str row = take_word(&at), file = take_word(&at);
		struct rest digits = {row.data, row.data + row.len};
		struct text_named named = {.function = routine, .module = image};
		uint64_t number;
		if (take_decimal(&digits, &number) && number <= UINT32_MAX) {
			named.file = file;
			named.line = (uint32_t)number;
		}
		return text_pass_named(r, &named);
	}
	text_names_file(r, &f, image);
	struct str path = f.offset > FIXED_MAX ? NOTHING : image;
	return text_found_at(r, &f, exact ? TEXT_EXACT : TEXT_CALL, path, routine, TEXT_AT);
}

/* ---- compute-sanitizer ---- */

/* "=========     Host Frame: [0x2ae2ff]" with "=========                in /usr/lib/libcuda.so.1" below it, or " in
 * libcuda.so" behind it; with cuda-memcheck the path stands before the bracket. Return addresses, as offsets. */
static bool read_sanitized(struct text_reader *r, struct rest line)
{
	static const char mark[] = "Host Frame:";
	struct text_frame f = {.base = TEXT_IMAGE};
	const char *at = find_word(line.at, line.end, mark);
	if (!at)
		return false;
	line.at = at + sizeof mark - 1;
	blanks(&line);
	const char *open = find_last(line.at, line.end, '[');
	struct str before = open ? trimmed(between(line.at, open)) : NOTHING, path = NOTHING;
	line.at = open ? open + 1 : line.end;
	if (!take_0x(&line, &f.offset) || !take_literal(&line, "]"))
		return false;
	const char *end = line.at;
	/* as it is in the text: of a string, what comes next is in the same line, and this is of another one */
	struct str following = r->mapped ? NOTHING : r->following;
	struct rest below = {following.data, following.data + following.len};
	const char *in = find_word(below.at, below.end, " in ");
	if (take_literal(&line, " in "))
		path = trimmed(between(line.at, line.end));
	else if (in && find_word(below.at, in, "=====") && !find_word(below.at, in, "Host"))
		path = trimmed(between(in + strlen(" in "), below.end));
	if (ends_with(path, "\r"))
		path.len--;
	if (!path.len && before.len && *before.data == '/' && !memchr(before.data, ':', before.len)) {
		path = before;
		before = NOTHING;
	}
	if (before.len || !path.len)
		return text_pass_named(r, &(struct text_named){.function = before, .module = path});
	return text_found_behind(r, &f, TEXT_CALL, path, end);
}

static bool read_servers(struct text_reader *r, struct rest line)
{
	if (read_envoy_map(r, line) || read_seastar(r, line))
		return true;
	if (!(r->signs & SIGN_HEX))
		return read_backtrace_heading(r, line);
	return read_envoy(r, line) || read_backtrace(r, line) || read_dpdk(r, line) || read_sanitized(r, line);
}

static bool read_columns(struct text_reader *r, struct rest line)
{
	return read_folly(r, line) || read_fortran_heading(r, line) || read_fortran(r, line);
}

TEXT_FORMAT(text_servers, .names = "Envoy, Seastar, DPDK, compute-sanitizer, ESP-IDF", .which = TEXT_ANCHORED,
        .signs = SIGN_HEX | TEXT_AWAITED, .begins = "PIL<MSCE*#htT=F(@bWAB[",
        .words = TEXT_WORDS("Backtrace:", "Address mapping: "), .read = read_servers,
        .state_size = sizeof(struct servers));

TEXT_FORMAT(text_columns, .names = "folly, Intel Fortran", .which = TEXT_ANCHORED, .signs = SIGN_PAREN | TEXT_AWAITED,
        .begins = "I", .words = TEXT_WORDS("Image "), .read = read_columns, .state_size = sizeof(struct fortran));
