/* SPDX-License-Identifier: Apache-2.0 */
/* What Windows and its programs write of a crash: the event log, Windows Error Reporting, Dr. Mingw, Unreal Engine's
 * <PCallStack>, Blender, and the list of modules of minidump_stackwalk. */
#include <config.h>

#include "text/formats.h"
#include "text/path.h"
#include "text/signs.h"

enum {
	FAULT_LINES = 8, /* from the module's name to the offset: entries of the log may be wrapped */
	LINE_MAX = 1024, /* bytes of such a line */
	STAMP_DIGITS = 8,
	BARE_DIGITS_MIN = 4, /* of an offset without 0x */
	PLUS_MAX = 4,        /* plus signs of a line that are looked at for one */
};

struct windows {
	char module[256]; /* in which the fault was, and in which line it stood */
	size_t module_len;
	uint64_t module_line;
	bool is_second;                    /* the line above names the program in the same way */
	unsigned offset_number;            /* of Sig[] in a Report.wer; 0: it has none that is known */
	uint64_t modules_line;             /* of Blender's list of modules */
	uint64_t blender_line, mingw_line; /* the last frames of theirs */
	uint64_t portable_line;            /* of Unreal's <PCallStack> */
	unsigned portable_depth;
};

/* Where linkers put 64-bit programs and libraries unless they are told otherwise. No image has 4 GiB. */
#define IMAGE_MAX (UINT64_C(1) << 32)
#define PROGRAM_BASE UINT64_C(0x140000000)
#define LIBRARY_BASE UINT64_C(0x180000000)

/* ---- names ---- */

static bool is_windows(struct str name)
{
	return text_windows_stem(name).len > 0;
}

/* The module that WinDbg, .NET and Unreal name without its extension, which the user may have given with it. */
static struct str with_extension(const struct text_reader *r, struct str name, char room[TEXT_NAME_MAX])
{
	static const char *const added[] = {".pdb", ".exe", ".dll"};
	for (size_t i = 0; i < sizeof added / sizeof *added && !text_modules_is_known(&r->modules, name); i++) {
		struct str with = {room, name.len + strlen(added[i])};
		if (with.len > TEXT_NAME_MAX)
			break;
		memcpy(room, name.data, name.len);
		memcpy(room + name.len, added[i], strlen(added[i]));
		if (text_modules_is_known(&r->modules, with))
			return with;
	}
	return name;
}

bool text_found_windows(
        struct text_reader *r, struct text_frame *f, enum text_address address, struct str name, const char *end)
{
	char room[TEXT_NAME_MAX];
	return text_found_behind(r, f, address, with_extension(r, name, room), end);
}

void text_lower_base(struct text_frame *f, struct str path)
{
	uint64_t base = f->address >= LIBRARY_BASE ? LIBRARY_BASE : PROGRAM_BASE;
	if (f->address < PROGRAM_BASE || f->address - base >= IMAGE_MAX || !is_windows(path))
		return;
	f->address -= base;
	f->base = TEXT_IMAGE;
}

/* ---- the event log ---- */

static void keep_fault(struct text_reader *r, struct str name)
{
	struct windows *w = r->state;
	w->module_len = name.len <= sizeof w->module && !str_equal(name, str_from("unknown")) ? name.len : 0;
	memcpy(w->module, name.data, w->module_len);
	w->module_line = r->line;
}

/* An offset, behind which the function's name goes. */
static bool found_fault(struct text_reader *r, uint64_t offset, const char *end)
{
	struct windows *w = r->state;
	struct text_frame f = {.base = TEXT_IMAGE, .offset = offset};
	struct str module = {w->module, w->module_len};
	if (!module.len)
		return false;
	w->module_len = 0;
	return text_found_behind(r, &f, TEXT_EXACT, module, end);
}

/* Passes ", ", or what Japanese and Chinese have in its place. */
static const char *find_comma(struct rest line)
{
	static const char *const commas[] = {", ", "\xe3\x80\x81", "\xef\xbc\x8c"};
	const char *first = NULL;
	for (size_t i = 0; i < sizeof commas / sizeof *commas; i++) {
		const char *at = find_word(line.at, first ? first : line.end, commas[i]);
		first = at ? at : first;
	}
	return first;
}

/* Whether a version of four numbers stands there. */
static bool has_version(struct rest line)
{
	unsigned dots = 0;
	for (; line.at < line.end && dots < 3; line.at++)
		if (*line.at == '.' && is_digit((unsigned char)line.at[-1]))
			dots++;
		else if (!is_digit((unsigned char)*line.at))
			dots = 0;
	return dots == 3 && is_digit(peek(&line));
}

/* "Faulting module name: ucrtbase.dll,": entries of the log may be wrapped. */
static bool read_wrapped_name(struct text_reader *r, struct rest line)
{
	if (!take_literal(&line, "Faulting module name: "))
		return false;
	const char *comma = find_comma(line);
	keep_fault(r, trimmed(between(line.at, comma ? comma : line.end)));
	return true;
}

/* "Faulting module name: ucrtbase.dll, version: 10.0.26100.33158, time stamp: 0x32c000ad", in any language: a label, a
 * file's name, a version, and eight digits in the end. */
static bool read_fault_name(struct text_reader *r, struct rest line)
{
	uint64_t stamp;
	const char *comma = find_comma(line), *last = comma ? find_last(comma, line.end, 'x') : NULL;
	struct rest hex = {last ? last - 1 : NULL, line.end};
	if (!last || line.end - last != 1 + STAMP_DIGITS || !take_0x(&hex, &stamp) ||
	        !has_version((struct rest){comma + 1, line.end}))
		return false;
	const char *colon = find_last(line.at, comma, ':'), *blank = find_last(line.at, comma, ' '), *name = line.at;
	while ((last = find_word(name, comma, "\xef\xbc\x9a"))) /* a wide colon */
		name = last + 3;
	if (name == line.at)
		name = colon ? colon + 1 : blank ? blank + 1 : comma;
	struct str file = trimmed(between(name, comma));
	if (!file.len)
		return false;
	struct windows *w = r->state;
	w->is_second = w->module_line && w->module_line + 1 == r->line;
	keep_fault(r, file);
	return true;
}

/* "Fault offset: 0x00000000000edb0b" is the second line below the module's name, whatever its label is. */
static bool read_fault_offset(struct text_reader *r, struct rest line)
{
	struct windows *w = r->state;
	uint64_t offset;
	bool named = take_literal(&line, "Fault offset: ");
	if (!w->module_len || r->line - w->module_line > FAULT_LINES)
		return false;
	if (!named) {
		const char *x =
		        w->is_second && r->line == w->module_line + 2 ? find_last(line.at, line.end, 'x') : NULL;
		if (!x || x == line.at)
			return false;
		line.at = x - 1;
	}
	return take_0x(&line, &offset) && line.at == line.end && found_fault(r, offset, line.end);
}

/* ---- Windows Error Reporting ---- */

/* Report.wer: "Sig[3].Value=app.dll", "Sig[7].Value=0000000000029d90"; the number of the offset is that of the event's
 * type. */
static bool read_report(struct text_reader *r, struct rest line)
{
	struct windows *w = r->state;
	uint64_t number, offset;
	if (take_literal(&line, "EventType=")) {
		struct str type = between(line.at, line.end);
		w->offset_number = str_equal(type, str_from("APPCRASH"))                                    ? 7
		                   : str_equal(type, str_from("BEX")) || str_equal(type, str_from("BEX64")) ? 6
		                                                                                            : 0;
		return true;
	}
	if (!take_literal(&line, "Sig[") || !take_decimal(&line, &number) || !take_literal(&line, "].Value="))
		return false;
	if (number == 3)
		keep_fault(r, between(line.at, line.end));
	return w->offset_number && number == w->offset_number && take_hex(&line, &offset) && line.at == line.end &&
	       found_fault(r, offset, line.end);
}

/* "Fault Module Name:	app.dll", "Exception Offset:	0000000000029d90" */
static bool read_signature(struct text_reader *r, struct rest line)
{
	struct windows *w = r->state;
	uint64_t offset;
	if (take_literal(&line, "Fault Module Name:")) {
		keep_fault(r, trimmed(between(line.at, line.end)));
		return true;
	}
	if (!take_literal(&line, "Exception Offset:") || r->line - w->module_line > FAULT_LINES)
		return false;
	blanks(&line);
	take_literal(&line, "0x");
	return take_hex(&line, &offset) && line.at == line.end && found_fault(r, offset, line.end);
}

/* ---- lists of modules ---- */

/* minidump_stackwalk: "0x00400000 - 0x0047ffff  app.exe  1.2.3.4  (WARNING: No symbols, app.pdb, 5A98…1)", where the
 * warning tells the id of a module without symbols. */
static bool read_loaded(struct text_reader *r, struct rest line)
{
	struct text_mapping m = {.kind = MAP_STARTS, .executable = true};
	struct str symbols = {"", 0}, id = {"", 0};
	if (!take_0x(&line, &m.start) || !take_literal(&line, " - ") || !take_0x(&line, &m.end) ||
	        !take_literal(&line, "  ") || m.end == UINT64_MAX)
		return false;
	m.end++;
	const char *end = find_word(line.at, line.end, "  "), *warning = find_word(line.at, line.end, "  (WARNING: ");
	if (!end) /* the version: macOS writes one blank */
		return false;
	m.path = trimmed(between(line.at, end));
	const char *first = warning ? find_word(warning, line.end, ", ") : NULL,
	           *second = first ? find_last(first + 2, line.end, ',') : NULL;
	if (second && line.end[-1] == ')') {
		symbols = between(first + 2, second);
		id = trimmed(between(second + 1, line.end - 1));
	}
	return m.path.len && text_mapped(r, &m, symbols, id, TEXT_ID_GIVEN);
}

/* Blender: "0x00007FF6A8A10000 4.2.1.0              blender.exe C:\blender.pdb" below "Loaded Modules :" */
static bool read_blender_module(struct text_reader *r, struct rest line)
{
	struct text_mapping m = {.kind = MAP_STARTS, .executable = true};
	struct windows *w = r->state;
	if (take_literal(&line, "Loaded Modules :")) {
		w->modules_line = r->line;
		return true;
	}
	if (!w->modules_line || w->modules_line + 1 != r->line || !take_0x(&line, &m.start) || !blanks(&line))
		return false;
	w->modules_line = r->line;
	take_word(&line); /* the version */
	m.end = m.start + 1;
	m.path = take_word(&line);
	return m.path.len && text_mapped(r, &m, NOTHING, NOTHING, TEXT_ID_GIVEN);
}

/* ---- frames ---- */

/* Whether a line is the first of a stack of this form, whose others have return addresses. */
static enum text_address next_address(const struct text_reader *r, uint64_t *last)
{
	bool caller = *last && (*last == r->line || *last + 1 == r->line);
	*last = r->line;
	return caller ? TEXT_CALL : TEXT_EXACT;
}

/* Blender: "blender.exe         :0x00007FF6A8A11139  Symbols not available" */
static bool read_blender(struct text_reader *r, struct rest line)
{
	static const char unnamed[] = "Symbols not available";
	struct windows *w = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	const char *from = line.at, *colon = find_word(line.at, line.end, ":0x");
	line.at = colon ? colon + 1 : line.end;
	if (!take_0x(&line, &f.offset) || !take_literal(&line, "  ") || !is_windows(trimmed(between(from, colon))))
		return false;
	enum text_address address = next_address(r, &w->blender_line);
	const char *name = line.at;
	return take_literal(&line, unnamed) && text_found_at(r, &f, address, NOTHING, between(name, line.at), TEXT_AT);
}

/* Dr. Mingw: "00007FF9D3C8DF5E  KERNELBASE.dll!0x2df5e"; others write the address in memory, which a list of modules
 * places. */
static bool read_offset(struct text_reader *r, struct rest line)
{
	struct windows *w = r->state;
	struct text_frame f = {.base = TEXT_IMAGE};
	const char *mark = find_word(line.at, line.end, "!0x"), *name = mark;
	while (name && name > line.at && mark - name < TEXT_NAME_MAX && !is_blank((unsigned char)name[-1]) &&
	        !strchr("([<\"'|,;=", name[-1]))
		name--;
	if (!mark || !is_windows(between(name, mark)))
		return false;
	line.at = mark + 1;
	if (!take_0x(&line, &f.offset) || (line.at < line.end && !is_blank(peek(&line)) && !strchr(")],;:.", *line.at)))
		return false;
	struct str module = between(name, mark);
	enum text_address address = next_address(r, &w->mingw_line);
	if (f.offset >= IMAGE_MAX) {
		f.base = TEXT_ELF;
		module.len = 0;
	}
	return text_found_behind(r, &f, address, module, line.at);
}

/* Unreal Engine: "Game                 0x00007ff7b1230000 + 1139" between <PCallStack> and </PCallStack>: the module
 * without its extension, where it is, and an offset in hex. The first is where the program stopped. */
static bool read_portable(struct text_reader *r, struct rest line)
{
	static const char mark[] = "<PCallStack>";
	struct windows *w = r->state;
	struct text_frame f = {.base = TEXT_IMAGE};
	uint64_t base;
	const char *open = *line.at == '<' ? find_word(line.at, line.end, mark) : NULL;
	if (open) {
		line.at = open + sizeof mark - 1;
		w->portable_line = r->line;
		w->portable_depth = 0;
	} else if (!w->portable_line || w->portable_line + 1 != r->line) {
		return false;
	}
	const char *zero = find_word(line.at, line.end, " 0x");
	struct str name = zero ? trimmed(between(line.at, zero)) : NOTHING;
	if (!name.len || name.len > TEXT_NAME_MAX)
		return open;
	line.at = zero + 1;
	if (!take_0x(&line, &base) || !take_literal(&line, " + ") || !take_hex(&line, &f.offset))
		return open;
	w->portable_line = r->line;
	enum text_address address = w->portable_depth++ ? TEXT_CALL : TEXT_EXACT;
	return text_found_windows(r, &f, address, name, line.at);
}

static bool read_windows(struct text_reader *r, struct rest line)
{
	blanks(&line);
	if (line.at == line.end || line.end - line.at > LINE_MAX)
		return false;
	switch (*line.at) {
	case 'E':
	case 'S':
	case 'F':
		if (read_report(r, line) || read_signature(r, line) || read_wrapped_name(r, line))
			return true;
		break;
	case '0':
		if (read_loaded(r, line) || read_blender_module(r, line))
			return true;
		break;
	case 'L':
		if (read_blender_module(r, line))
			return true;
		break;
	default:
		break;
	}
	if (read_portable(r, line))
		return true;
	if (!(r->signs & SIGN_HEX))
		return false;
	return read_offset(r, line) || read_blender(r, line) || read_fault_name(r, line) || read_fault_offset(r, line);
}

/* The offset behind this plus sign, and where the module before it begins; NULL: it is none. */
static const char *bare_module(struct rest line, const char *plus, struct rest *hex, uint64_t *offset)
{
	const char *name = text_path_start(line.at, plus);
	*hex = (struct rest){plus + 1, line.end};
	const char *from = hex->at;
	if (name == plus) /* a name without a path */
		while (name > line.at && !is_blank((unsigned char)name[-1]) && !strchr("([<{\"'|,;=:", name[-1]))
			name--;
	bool is = is_windows(between(name, plus)) && take_hex(hex, offset) && hex->at - from >= BARE_DIGITS_MIN &&
	          (hex->at == hex->end || !(is_letter(*hex->at) || strchr("_/\\+", *hex->at)));
	return is ? name : NULL;
}

/* "app.dll+00F18CB": an offset in hex without 0x, as in logs of games. */
static bool read_bare_offset(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	struct rest hex;
	const char *plus = line.end - line.at <= LINE_MAX ? line.at : line.end;
	for (unsigned i = 0; i < PLUS_MAX && plus < line.end; i++, plus++) {
		plus = memchr(plus, '+', (size_t)(line.end - plus));
		if (!plus)
			break;
		const char *name = bare_module(line, plus, &hex, &f.offset);
		if (!name)
			continue;
		r->begins = name;
		return text_found_behind(r, &f, TEXT_EXACT, between(name, plus), hex.at);
	}
	return false;
}

TEXT_FORMAT(text_windows, .names = "Windows event log", .which = TEXT_ANCHORED, .signs = SIGN_HEX, .begins = "EFSL<",
        .words = TEXT_WORDS("Faulting ", "Fault ", "Exception ", "EventType=", "Sig[", "Loaded "), .read = read_windows,
        .state_size = sizeof(struct windows));

TEXT_FORMAT(text_bare_offsets, .which = TEXT_ANYWHERE, .signs = SIGN_PLUS, .read = read_bare_offset);
