/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that start with # and a number. In this order, as in the samples of tests/data/text: sanitizers (addresses are
 * already those of calls), systemd-coredump, Firefox, Android (addresses of calls, too), gdb, eu-stack. */
#include <config.h>

#include "text/formats.h"
#include "text/path.h"
#include "text/signs.h"

enum {
	TRIES = 8, /* at a character that may start a frame */
	LLVM_WIDTH = 18,
};

bool text_last_group(struct rest line, struct text_group *g)
{
	const char *plus = line.end;
	for (unsigned i = 0; i < TRIES; i++) {
		plus = find_last(line.at, plus, '+');
		if (!plus)
			return false;
		struct rest r = {plus + 1, line.end};
		g->spaced = plus > line.at && plus[-1] == ' ' && take_literal(&r, " ");
		if (!take_0x(&r, &g->offset) || peek(&r) != ')')
			continue;
		const char *end = g->spaced ? plus - 1 : plus, *open = text_path_opening(line.at, r.at);
		if (!open || open >= end)
			continue;
		g->open = open;
		g->close = r.at + 1;
		g->path = between(open + 1, end);
		return g->path.len > 0;
	}
	return false;
}

struct str text_build_id(struct rest after)
{
	blanks(&after);
	struct str id = {"", 0};
	if (take_literal(&after, "(BuildId: "))
		id = take_hex_digits(&after);
	return peek(&after) == ')' ? id : NOTHING;
}

/* #01: ???[/path/libxul.so +0x1234], where ??? may be a function; addresses are return addresses (_Unwind_GetIP). */
static bool read_firefox(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	const char *close = find_last(line.at, line.end, ']');
	const char *plus = find_last(line.at, close ? close : line.at, '+');
	if (!plus || plus - line.at < 3 || plus[-1] != ' ')
		return false;
	struct rest offset = {plus + 1, close};
	const char *open = close ? text_path_opening(line.at, close) : NULL;
	if (!open || open >= plus - 1 || !take_0x(&offset, &f.offset) || offset.at != close)
		return false;
	struct str path = between(open + 1, plus - 1), name = between(line.at, open);
	text_caller(r, &f, path, str_equal(name, str_from("???")) ? NOTHING : name);
	return text_found_at(r, &f, TEXT_IS_SET, path, name, TEXT_AT);
}

/* What stands in " (…)" at the end of the line, which is cut off; empty: nothing. */
static struct str cut_group(struct rest *line)
{
	const char *close = line->end - 1,
	           *open = close > line->at && *close == ')' ? text_opening(line->at, close) : NULL;
	if (!open || open - line->at < 2 || open[-1] != ' ')
		return NOTHING;
	line->end = open - 1;
	return between(open + 1, close);
}

/* "abort+168", "abort"; but not "deleted" nor the (1) of a copied file. */
static bool is_android_name(struct str group)
{
	return group.len && !is_digit((unsigned char)*group.data) && !str_equal(group, str_from("deleted")) &&
	       !str_equal(str_first(group, strlen("offset 0x")), str_from("offset 0x"));
}

/* #00 pc 0000000000051b9c  /system/lib64/libc.so (offset 0x1000) (abort+168) (BuildId: …)
 * Crashlytics and the Play Console write 0x before the address, and Crashlytics no folders. */
static bool read_android(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_ELF};
	take_literal(&line, "0x");
	if (!take_hex(&line, &f.offset) || !blanks(&line))
		return false;
	f.address = f.offset;
	while (line.end > line.at && is_blank((unsigned char)line.end[-1]))
		line.end--;
	struct rest rest = line;
	struct str id = cut_group(&rest);
	const char *end = rest.end;
	if (id.len && (id = text_build_id((struct rest){end, line.end})).len)
		line.end = end;
	rest.end = line.end;
	const char *gap = is_android_name(cut_group(&rest)) ? rest.end : line.end;
	text_edit_one(r, &f, gap, line.end, TEXT_PARENTHESES);
	line.end = rest.end = gap;
	if (str_equal(str_first(cut_group(&rest), strlen("offset 0x")), str_from("offset 0x")))
		line.end = rest.end;
	const char *bugly = line.end > line.at && line.end[-1] == ']' ? text_opening(line.at, line.end - 1) : NULL;
	if (bugly && bugly - line.at > 1 && bugly[-1] == ' ') /* "libc.so [armeabi-v7a::9de9f4ad…]" */
		line.end = bugly - 1;
	struct str module = between(line.at, line.end);
	if (!module.len || *line.at == '<' || *line.at == '[') {
		module.len = 0;
		f.base = TEXT_IMAGE; /* in a mapping that the text does not tell */
	}
	return text_found(r, &f, module, id, TEXT_ID_BUILD);
}

/* 0x7fff in ?? (), or in ?? () from /lib/libc.so.6; n/a (n/a + 0x0); (<unknown module>); Chromium's <unknown>, where
 * all are return addresses: no more than an address. After gdb's <signal handler called> it is where the signal came,
 * not a return address. */
static bool take_address_alone(struct text_reader *r, struct rest line, struct text_frame *f, uint64_t number)
{
	blanks(&line);
	const char *from = line.at;
	enum text_address address = number && r->line != r->signal_line ? TEXT_CALL : TEXT_EXACT;
	struct str gap = {from, 0};
	enum text_style style = TEXT_AT;
	if (take_literal(&line, "in ?? ()")) {
		gap = between(from + strlen("in "), line.at);
		if (take_literal(&line, " from "))
			text_names_file(r, f, between(line.at, line.end));
	} else if (take_literal(&line, "n/a (n/a + 0x0)")) {
		gap.len = strlen("n/a");
	} else if (take_literal(&line, "(<unknown module>)")) {
		style = TEXT_IN;
		address = TEXT_EXACT;
	} else if (take_literal(&line, "<unknown>") && line.at == line.end) {
		gap.len = strlen("<unknown>");
		address = TEXT_RETURN;
	} else {
		return false;
	}
	return text_found_at(r, f, address, NOTHING, gap, style);
}

/* eu-stack of elfutils: only an address, and with -m the module, or a name before that: 0x7f… - /lib/libx.so. With -v
 * return addresses are marked by "- 1". */
static bool take_elfutils(struct text_reader *r, struct rest line, struct text_frame *f, uint64_t number)
{
	struct rest rest = line;
	bool verbose = false, marked = take_literal(&rest, " - 1") && (rest.at == rest.end || peek(&rest) == ' ');
	if (marked)
		line = rest;
	else
		verbose = take_literal(&line, "    ");
	blanks(&line);
	if (line.at != line.end && !take_literal(&line, "- /")) {
		const char *dash = find_word(line.at, line.end, " - /");
		struct str name = trimmed(between(line.at, dash ? dash : line.end));
		text_caller(r, f, NOTHING, name);
		return dash != NULL;
	}
	struct str path = line.at == line.end ? NOTHING : between(line.at - 1, line.end);
	f->address = f->offset - (marked && f->offset);
	if (number && !verbose && !marked)
		text_caller(r, f, path, NOTHING);
	text_names_file(r, f, path);
	return text_found_behind(r, f, TEXT_IS_SET, NOTHING, line.end);
}

/* 0x7fe9  (/lib/libc.so.6+0x27249) (BuildId: …), or 0x7f2d n/a (libc.so.6 + 0x8ce3c), or 0x7fff in ?? (). LLVM's own
 * programs write it as sanitizers do, but return addresses, padded: 0x00007f8b7d45a050 (/lib/libc.so.6+0x3c050) */
static bool take_numbered_address(struct text_reader *r, struct rest line, uint64_t number)
{
	struct text_group g;
	struct text_frame f = {.base = TEXT_ELF};
	const char *from = line.at, *after;
	if (!take_0x(&line, &f.address))
		return false;
	f.offset = f.address;
	after = line.at;
	if (take_address_alone(r, line, &f, number))
		return true;
	if (!text_last_group(line, &g))
		return take_elfutils(r, line, &f, number);
	f.offset = f.address = g.offset;
	blanks(&line);
	struct str name = trimmed(between(line.at, g.open));
	if (g.spaced) {
		f.base = TEXT_IMAGE;
		if (number) /* systemd writes return addresses */
			text_caller(r, &f, g.path, str_equal(name, str_from("n/a")) ? NOTHING : name);
		text_edit_one(r, &f, line.at, g.open > line.at && g.open[-1] == ' ' ? g.open - 1 : g.open, TEXT_AT);
	} else {
		if (after - from == LLVM_WIDTH && from[2] == '0')
			text_caller(r, &f, g.path, name);
		text_lower_base(&f, g.path);
		text_edit_one(r, &f, after, g.open, TEXT_IN);
	}
	return text_found(r, &f, g.path, text_build_id((struct rest){g.close, line.end}), TEXT_ID_BUILD);
}

/* TSan: main <null> (prog+0x4a1b2) (BuildId: …) */
static bool read_tsan(struct text_reader *r, struct rest line)
{
	struct text_group g;
	struct text_frame f = {.base = TEXT_ELF};
	if (!text_last_group(line, &g) || g.spaced)
		return false;
	struct str middle = trimmed(between(line.at, g.open));
	if (!find_word(middle.data, middle.data + middle.len, "<null>")) /* it has a name, or is the sanitizer's own */
		return false;
	f.offset = f.address = g.offset;
	text_edit_one(r, &f, middle.data, middle.data + middle.len, TEXT_BLANK);
	return text_found(r, &f, g.path, text_build_id((struct rest){g.close, line.end}), TEXT_ID_BUILD);
}

static bool read_numbered(struct text_reader *r, struct rest line)
{
	uint64_t number;
	for (unsigned i = 0; i < TRIES && line.at < line.end; i++) {
		const char *sign = memchr(line.at, '#', (size_t)(line.end - line.at));
		if (!sign)
			return false;
		bool begins = sign == line.at || is_blank(sign[-1]);
		line.at = sign + 1;
		if (!begins || !take_decimal(&line, &number))
			continue;
		r->begins = sign;
		if (take_literal(&line, ": "))
			return read_firefox(r, line);
		if (!blanks(&line))
			continue;
		if (take_literal(&line, "pc "))
			return read_android(r, line);
		if (take_literal(&line, "<signal handler called>"))
			r->signal_line = r->line + 1;
		return peek(&line) == '0' ? take_numbered_address(r, line, number) : read_tsan(r, line);
	}
	return false;
}

TEXT_FORMAT(text_numbered, .names = "sanitizers, LLVM, gdb, eu-stack, coredumpctl, Firefox, Chromium, Android",
        .which = TEXT_FLOATING, .signs = SIGN_QUOTE, .read = read_numbered);
