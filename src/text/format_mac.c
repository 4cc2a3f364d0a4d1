/* SPDX-License-Identifier: Apache-2.0 */
/* Crash reports of macOS and iOS: frames first, then the table of images with their UUIDs. All but the first frame of a
 * thread have return addresses. */
#include <config.h>

#include "text/formats.h"

enum { UUID_LETTERS = 36 };

/* "Process:  TextEdit [1234]" or "Incident Identifier: …" */
static bool begins_report(struct rest line)
{
	return take_literal(&line, "Process: ") || take_literal(&line, "Incident Identifier: ");
}

/* 1   MyApp   0x0000000104b5c8d4 0x104b58000 + 18644, or with the image's name in place of its address */
static bool read_frame(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	uint64_t number, address, base = 0;
	blanks(&line);
	if (!take_decimal(&line, &number) || !blanks(&line))
		return false;
	const char *hex = find_word(line.at, line.end, "0x");
	if (!hex || hex == line.at || !is_blank(hex[-1]))
		return false;
	struct str image = trimmed(between(line.at, hex));
	line.at = hex;
	if (!image.len || !take_0x(&line, &address) || !blanks(&line))
		return false;
	struct rest named = line;
	bool by_address = take_0x(&line, &base);
	if (!by_address) {
		line = named;
		if (take_literal(&named, "_sigtramp + "))
			r->signal_line = r->line + 1;
		if ((size_t)(line.end - line.at) < image.len || memcmp(line.at, image.data, image.len) != 0)
			return false;
		line.at += image.len;
	}
	if (!take_literal(&line, " + ") || !take_decimal(&line, &f.offset))
		return false;
	const char *end = line.at;
	blanks(&line);
	if (line.at != line.end || (by_address && address - base != f.offset))
		return false;
	if (str_equal(image, str_from("???")))
		image.len = 0;
	f.address = f.offset;
	if (number)
		text_caller(r, &f, image, (struct str){"", 0});
	text_edit_one(r, &f, end, end, TEXT_PARENTHESES);
	return text_found(r, &f, image, (struct str){"", 0}, TEXT_ID_GIVEN);
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
	return text_told(r, path, (struct str){"", 0}, id, TEXT_ID_UUID);
}

bool text_read_mac(struct text_reader *r, struct rest line)
{
	if (begins_report(line)) {
		text_modules_begin_report(&r->modules);
		return true;
	}
	return read_frame(r, line) || read_image(r, line);
}
