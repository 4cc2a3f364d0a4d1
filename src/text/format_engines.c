/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of Unreal Engine on Linux, of Unity on Windows, and of Dart programs that were compiled ahead of time (Flutter
 * with --split-debug-info). */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

enum {
	MODULE_LINE = 4096,
	BUILD_ID_MIN = 16, /* digits */
	UNITY_LINES = 2,   /* from frame to frame: one may tell of an error between them */
};

struct engines {
	uint64_t unity_line; /* the last frame of Unity's */
	bool unity_signal;   /* it was the dispatcher of exceptions */
	char dart_id[64];    /* the build id above Dart's stacks */
	size_t dart_id_len;
};

/* Unreal Engine: "0x00007f04622e0d90 libc.so.6!UnknownFunction(0x29d8f)", behind a log's prefix or not. All but the
 * first are already those of calls; so is what stands below a signal's trampoline, where none was. */
static bool read_unreal(struct text_reader *r, struct rest line)
{
	static const char mark[] = "!UnknownFunction(";
	struct text_frame f = {.base = TEXT_IMAGE};
	const char *end = find_word(line.at, line.end, mark), *from = end ? find_0x(line.at, end) : NULL;
	struct rest before = {from ? from + strlen("0x") : NULL, end};
	if (!from || !take_hex_digits(&before).len || !take_literal(&before, " ") || before.at == end)
		return false;
	from = before.at;
	line.at = end + sizeof mark - 1;
	if (!take_0x(&line, &f.offset) || !take_literal(&line, ")"))
		return false;
	struct str name = between(from, end);
	f.offset += r->line == r->signal_line;
	if (text_may_be_trampoline(f.offset + 1, name))
		r->signal_line = r->line + 1;
	return text_found_behind(r, &f, TEXT_EXACT, name, line.at);
}

/* Unity: "0x00007FFC5AFB36A0 (UnityPlayer) (function-name not available)"; in the list of modules above it names have
 * extensions and addresses. The first frame is where the stack was taken, and so is the one below the dispatcher of
 * exceptions. */
static bool read_unity(struct text_reader *r, struct rest line)
{
	static const char unnamed[] = ") (function-name not available)";
	struct engines *e = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	blanks(&line);
	if (!take_0x(&line, &f.offset) || !take_literal(&line, " ("))
		return false;
	const char *none = find_word(line.at, line.end, unnamed), *close = find_word(line.at, line.end, ") ");
	if (!close)
		return false;
	line.at = none ? none + strlen(") ") : close + strlen(") ");
	bool exact = !e->unity_line || r->line - e->unity_line > UNITY_LINES || e->unity_signal;
	e->unity_line = r->line;
	e->unity_signal = str_equal(between(line.at, line.end), str_from("KiUserExceptionDispatcher"));
	const char *name = line.at;
	if (!take_literal(&line, unnamed + strlen(") ")))
		return false;
	return text_found_at(r, &f, exact ? TEXT_EXACT : TEXT_CALL, NOTHING, between(name, line.at), TEXT_AT);
}

/* "C:\game\UnityPlayer.dll:UnityPlayer.dll (00007FFC5A000000), size: 26095616 (result: 0), SymType: …" */
static bool read_unity_module(struct text_reader *r, struct rest line)
{
	static const char mark[] = "), size: ";
	struct text_mapping m = {.kind = MAP_FILES, .executable = true};
	uint64_t size;
	if (line.end - line.at < 2 || line.at[1] != ':')
		return false;
	const char *close = line.end - line.at > MODULE_LINE ? NULL : find_word(line.at, line.end, mark),
	           *open = find_last(line.at, close, '('), *colon = find_last(line.at, open, ':');
	struct rest hex = {open ? open + 1 : NULL, close}, behind = {close ? close + sizeof mark - 1 : NULL, line.end};
	if (!colon || !take_hex(&hex, &m.start) || hex.at != close || !take_decimal(&behind, &size) ||
	        !take_literal(&behind, " (result: ") || size > UINT64_MAX - m.start)
		return false;
	m.end = m.start + size;
	m.path = between(line.at, colon);
	return text_mapped(r, &m, NOTHING, NOTHING, TEXT_ID_GIVEN);
}

/* "build_id: '4dbecf547733e72ae1688d73ebb5f062'" stands above Dart's stacks, of which program they are. */
static bool read_dart_id(struct text_reader *r, struct rest line)
{
	struct engines *e = r->state;
	blanks(&line);
	if (!take_literal(&line, "build_id: '"))
		return false;
	struct str id = take_hex_digits(&line);
	e->dart_id_len = 0;
	if (peek(&line) != '\'' || id.len < BUILD_ID_MIN || id.len > sizeof e->dart_id)
		return true;
	memcpy(e->dart_id, id.data, id.len);
	e->dart_id_len = id.len;
	return true;
}

/* Dart: "    #00 abs 000000723d6346d7 virt 00000000001ed6d7 _kDartIsolateSnapshotInstructions+0x1e26d7", where the
 * addresses are those of calls. Without a build id, the program may be older than Dart 2.14, and the addresses others
 * than those of its symbols. */
static bool read_dart(struct text_reader *r, struct rest line)
{
	struct engines *e = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	uint64_t number, address;
	const char *mark = e->dart_id_len ? find_word(line.at, line.end, " abs ") : NULL,
	           *sign = find_last(line.at, mark, '#');
	if (!sign)
		return false;
	line.at = sign + 1;
	if (!take_decimal(&line, &number) || line.at != mark)
		return false;
	line.at = mark + strlen(" abs ");
	if (!take_hex(&line, &address) || !take_literal(&line, " virt ") || !take_hex(&line, &f.offset) ||
	        (!take_literal(&line, " _kDartIsolateSnapshotInstructions+") &&
	                !take_literal(&line, " _kDartVmSnapshotInstructions+")) ||
	        !take_0x(&line, &number))
		return false;
	f.address = f.offset;
	text_edit_one(r, &f, line.at, line.at, TEXT_PARENTHESES);
	return text_found(r, &f, str_from("libapp.so"), (struct str){e->dart_id, e->dart_id_len}, TEXT_ID_BUILD);
}

static bool read_engine(struct text_reader *r, struct rest line)
{
	return read_unreal(r, line) || read_unity(r, line) || read_dart(r, line);
}

static bool read_heading(struct text_reader *r, struct rest line)
{
	return read_unity_module(r, line) || read_dart_id(r, line);
}

TEXT_FORMAT(text_engines, .names = "Unreal Engine, Unity, Dart", .which = TEXT_ANCHORED, .signs = SIGN_HEX,
        .read = read_engine, .state_size = sizeof(struct engines));

TEXT_FORMAT(text_engine_headings, .which = TEXT_ANCHORED, .signs = SIGN_PAREN, .begins = "b", .read = read_heading,
        .state_of = &text_engines);
