/* SPDX-License-Identifier: Apache-2.0 */
/* What .NET and ClickHouse write of a crash. */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

struct runtimes {
	uint64_t managed_line;    /* the last line "at …" of .NET's */
	uint64_t clickhouse_line; /* the last of ClickHouse's stack */
};

enum { CLICKHOUSE_LINES = 16 }; /* from frame to frame: inlined calls have lines of their own */

/* "   at MyApp!<BaseAddress>+0x254fc3", also with " at offset 283 in file:line:column <filename unknown>:0:0" behind
 * it. The name lacks its extension. The first frame of a stack may be where a fault came; below it are return
 * addresses. */
static bool read_native_aot(struct text_reader *r, struct rest line)
{
	static const char mark[] = "!<BaseAddress>+0x";
	struct runtimes *state = r->state;
	struct text_frame f = {.base = TEXT_IMAGE};
	bool caller = state->managed_line && state->managed_line + 1 == r->line;
	blanks(&line);
	if (!take_literal(&line, "at "))
		return false;
	state->managed_line = r->line;
	const char *end = find_word(line.at, line.end, mark);
	if (!end || end == line.at)
		return false;
	struct str name = between(line.at, end);
	line.at = end + sizeof mark - 1;
	if (name.len > TEXT_NAME_MAX || !take_hex(&line, &f.offset) ||
	        (line.at < line.end && !is_blank((unsigned char)*line.at)))
		return false;
	return text_found_windows(r, &f, caller ? TEXT_RETURN : TEXT_EXACT, name, line.at);
}

/* ClickHouse: "16. ? @ 0x000000000ea0d041 in /usr/bin/clickhouse", an address in the file; with "in ?", or nothing, in
 * place of the file it is one in memory. The first frame is where a signal came, or has a name. */
static bool read_clickhouse(struct text_reader *r, struct rest line)
{
	struct runtimes *state = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	const char *at = find_word(line.at, line.end, "@ 0x"), *dot = at ? find_word(line.at, at, ". ") : NULL;
	while (dot && (dot == line.at || !is_digit((unsigned char)dot[-1])))
		dot = find_word(dot + 1, at, ". ");
	if (!dot)
		return false;
	bool caller = state->clickhouse_line && r->line - state->clickhouse_line <= CLICKHOUSE_LINES;
	state->clickhouse_line = r->line;
	const char *name = dot + strlen(". "), *number = dot;
	while (number > line.at && is_digit((unsigned char)number[-1]))
		number--;
	struct text_named named;
	r->stacks.line = (struct rest){number, line.end}; /* behind the logger's time, thread, level and name */
	if (*name != '?') {
		if (r->stacks.wanted && !r->named_frames && text_read_named(r->stacks.line, false, &named))
			text_found_named(r, &named);
		return false;
	}
	line.at = at + strlen("@ ");
	if (!str_equal(between(name, at), str_from("? ")) || !take_0x(&line, &f.offset))
		return false;
	struct str path = {"", 0};
	if (take_literal(&line, " in /"))
		path = between(line.at - 1, line.end);
	return text_found_at(r, &f, caller ? TEXT_RETURN : TEXT_EXACT, path, between(name, name + 1), TEXT_AT);
}

static bool read_runtime(struct text_reader *r, struct rest line)
{
	return read_native_aot(r, line) || read_clickhouse(r, line);
}

TEXT_FORMAT(text_runtimes, .names = ".NET NativeAOT, ClickHouse", .which = TEXT_ANCHORED, .signs = SIGN_HEX,
        .words = TEXT_WORDS("at "), .read = read_runtime, .state_size = sizeof(struct runtimes));
