/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of macOS and iOS: frames first, then the table of images with their UUIDs. All but the first frame of a
 * thread, or the innermost of a call graph, have return addresses. Where a frame has no offset, the table tells what
 * lies at its address. */
#include <config.h>

#include "text/formats.h"
#include "text/prefix.h"
#include "text/signs.h"

enum { UUID_LETTERS = 36, UUID_DIGITS = 32 };

/* Crashlytics: 3  Flutter    0x65cc04 (Missing UUID c25599caa061358c97027de247525350), an offset in the image, with the
 * word in the reader's language. */
static bool read_crashlytics(struct text_reader *r, struct rest line, struct str image, uint64_t number)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	if (!take_0x(&line, &f.offset) || !take_literal(&line, " ("))
		return false;
	const char *end = line.at - strlen(" ("), *word = find_word(line.at, line.end, " UUID ");
	struct rest id = {word ? word + strlen(" UUID ") : line.end, line.end};
	struct str uuid = take_hex_digits(&id);
	if (uuid.len != UUID_DIGITS || peek(&id) != ')')
		return false;
	f.address = f.offset;
	if (number)
		text_caller(r, &f, image, NOTHING);
	text_edit_one(r, &f, end, end, TEXT_PARENTHESES);
	return text_found(r, &f, image, uuid, TEXT_ID_UUID);
}

/* " + 18644", or in hex. */
static bool take_offset(struct rest *line, uint64_t *offset)
{
	return take_literal(line, " + ") && (take_0x(line, offset) || take_decimal(line, offset));
}

/* " (MyApp + 124)" at the end of the line, beside a name or what stands for one: an offset in the image. */
static bool take_beside(struct rest *line, uint64_t *offset)
{
	struct rest r = *line;
	blanks(&r);
	if (!take_literal(&r, "("))
		return false;
	const char *close = find_last(r.at, r.end, ')'), *plus = find_last(r.at, close, '+');
	r.at = plus && plus > r.at ? plus - 1 : r.end;
	if (!take_offset(&r, offset) || r.at != close)
		return false;
	line->at = close + 1;
	return true;
}

/* What a frame has behind its address, when that is no name. *in_memory: f->offset is its address, and a list of images
 * tells the rest. */
static bool take_unnamed(struct rest *line, struct str image, struct text_frame *f, bool *in_memory)
{
	struct rest r = *line;
	uint64_t address = f->offset, base, beside;
	*in_memory = false;
	if (take_0x(&r, &base)) {
		if (!take_offset(&r, &f->offset) || address - base != f->offset)
			return false;
	} else if (take_literal(&r, "<redacted>") || take_literal(&r, "???")) {
		*in_memory = true;
		take_offset(&r, &beside);
		f->offset = address;
	} else if (str_equal(str_first(between(r.at, r.end), image.len), image)) {
		r.at += image.len;
		if (!take_offset(&r, &f->offset))
			return false;
	} else {
		return false;
	}
	line->at = r.at;
	if (take_beside(&r, &beside)) {
		line->at = r.at;
		f->offset = beside;
		*in_memory = false;
	}
	return true;
}

/* 1   MyApp   0x0000000104b5c8d4 0x104b58000 + 18644, or with the image's name in place of its address, or <redacted>,
 * which iOS writes for functions of its own; and perhaps with " (MyApp + 18644)" beside it. */
static bool read_frame(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	uint64_t number;
	bool in_memory;
	blanks(&line);
	if (!take_decimal(&line, &number) || !blanks(&line))
		return false;
	const char *hex = find_0x(line.at, line.end);
	if (!hex || hex == line.at || !is_blank(hex[-1]))
		return false;
	struct str image = trimmed(between(line.at, hex));
	line.at = hex;
	if (image.len && read_crashlytics(r, line, image, number))
		return true;
	if (!image.len || !take_0x(&line, &f.offset) || !blanks(&line))
		return false;
	struct rest named = line;
	if (take_literal(&named, "_sigtramp + "))
		r->signal_line = r->line + 1;
	if (!take_unnamed(&line, image, &f, &in_memory))
		return false;
	const char *end = line.at;
	blanks(&line);
	if (line.at != line.end)
		return false;
	if (in_memory || str_equal(image, str_from("???")))
		image.len = 0;
	return text_found_behind(r, &f, number ? TEXT_RETURN : TEXT_EXACT, image, end);
}

/* Below "Last Exception Backtrace:", "(0x18e7d2ed8 0x18d0a5b54 0x104b5c8d4)": all are return addresses. */
static bool read_exception(struct text_reader *r, struct rest line)
{
	static const char heading[] = "Last Exception Backtrace:";
	uint64_t *above = r->state;
	if (take_literal(&line, heading)) {
		*above = r->line;
		text_stacks_close(r);
		blanks(&line);
		if (line.at == line.end)
			return true;
	}
	if (!*above || r->line - *above > 1 || !take_literal(&line, "(0x"))
		return false;
	line.at -= strlen("0x");
	return text_found_addresses(r, line, TEXT_CALL);
}

/* Where the count stands with which a line of a call graph begins, behind the lines of its tree; -1: nowhere. */
static ptrdiff_t pass_count(struct rest *line)
{
	const char *from = line->at;
	uint64_t count;
	while (line->at < line->end && *line->at && strchr(" +!:|*", *line->at))
		line->at++;
	const char *at = line->at;
	return take_decimal(line, &count) && blanks(line) ? at - from : -1;
}

/* "(in MyApp)  load address 0x1048e0000 + 0x740  [0x1048e0740]" of sample */
static bool read_sampled(struct rest line, struct str *image, uint64_t *offset)
{
	uint64_t base, address;
	if (!take_literal(&line, "(in "))
		return false;
	const char *close = find_word(line.at, line.end, ")  load address ");
	*image = between(line.at, close ? close : line.at);
	line.at = close ? close + 2 : line.end;
	blanks(&line);
	if (!take_literal(&line, "load address ") || !take_0x(&line, &base) || !take_literal(&line, " + ") ||
	        !take_0x(&line, offset) || !blanks(&line) || !take_literal(&line, "[") || !take_0x(&line, &address) ||
	        !take_literal(&line, "]"))
		return false;
	return image->len && address - base == *offset;
}

/* "(CoreFoundation + 123252) [0x180ab3174]" of spindump */
static bool read_spun(struct rest line, struct str *image, uint64_t *offset)
{
	uint64_t address;
	const char *close = find_word(line.at, line.end, ") [0x"), *plus = find_last(line.at, close, '+');
	if (!take_literal(&line, "(") || !plus || plus - line.at < 2)
		return false;
	*image = between(line.at, plus - 1);
	line.at = plus;
	return take_literal(&line, "+ ") && take_decimal(&line, offset) && take_literal(&line, ") [") &&
	       take_0x(&line, &address) && take_literal(&line, "]");
}

/* "    +   869 ???  (in MyApp)  load address …" and "      8  ??? (CoreFoundation + 123252) [0x180ab3174] 1-8". Callees
 * stand deeper. The heaviest stack of iOS's spindump is not indented: who knows which is the innermost? */
static bool read_graph(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	struct rest next = {r->following.data, r->following.data + r->following.len};
	struct str image, source;
	ptrdiff_t at = pass_count(&line);
	const char *from = line.at;
	if (at < 0 || !take_literal(&line, "???") || !blanks(&line))
		return false;
	bool sampled = read_sampled(line, &image, &f.offset);
	if (!sampled && !read_spun(line, &image, &f.offset))
		return false;
	next = text_without_prefix(next, true, &source);
	ptrdiff_t below = pass_count(&next);
	if ((!sampled && below == at) || r->mapped)
		return true;
	struct str gap = {from, strlen("???")};
	return text_found_at(r, &f, below > at ? TEXT_RETURN : TEXT_EXACT, image, gap, TEXT_AT);
}

/*     0x104b58000 -  0x104b5bfff +com.example.MyApp (1.0 - 1) <UUID> /Applications/MyApp.app/Contents/MacOS/MyApp
 * Frames have either name: that of the bundle before macOS 12, if the image has one. */
static bool read_image(struct text_reader *r, struct rest line)
{
	uint64_t from, to;
	blanks(&line);
	if (!take_0x(&line, &from) || !blanks(&line) || !take_literal(&line, "-") || !blanks(&line) ||
	        !take_0x(&line, &to) || !blanks(&line))
		return false;
	const char *open = find_word(line.at, line.end, " <");
	const char *close = open ? memchr(open, '>', (size_t)(line.end - open)) : NULL;
	if (!close || close - open - 2 > UUID_LETTERS)
		return false;
	struct str path = trimmed(between(close + 1, line.end)), id = between(open + 2, close);
	take_literal(&line, "+");
	const char *space = memchr(line.at, ' ', (size_t)(open - line.at));
	struct str bundle = between(line.at, space ? space : open);
	if (!str_equal(bundle, text_base_name(path)))
		text_told(r, bundle, path, id, TEXT_ID_UUID);
	struct text_mapping m = {
	        .kind = MAP_FILES, .executable = true, .only_addresses = true, .path = path, .start = from};
	m.end = to < UINT64_MAX ? to + 1 : to;
	if (path.len && from < to)
		return text_mapped(r, &m, NOTHING, id, TEXT_ID_UUID);
	return text_told(r, path, NOTHING, id, TEXT_ID_UUID);
}

static bool read_mac(struct text_reader *r, struct rest line)
{
	/* "Process:  TextEdit [1234]" or "Incident Identifier: …" */
	if (take_literal(&line, "Process: ") || take_literal(&line, "Incident Identifier: ")) {
		text_modules_begin_report(&r->modules);
		return true;
	}
	if (read_exception(r, line))
		return true;
	if (!(r->signs & SIGN_HEX))
		return false;
	return read_frame(r, line) || read_graph(r, line) || read_image(r, line);
}

TEXT_FORMAT(text_mac, .names = "macOS, Crashlytics", .which = TEXT_ANCHORED, .signs = SIGN_HEX, .begins = "PIL",
        .read = read_mac, .state_size = sizeof(uint64_t) /* the line above the addresses of an exception */);
