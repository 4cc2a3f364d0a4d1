/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/common.h"

enum { ADDRESS_DIGITS_MIN = 5 }; /* of /proc/PID/maps */

/* Passes what both have in common: the same bytes, or digits in both. */
static void pass_common(struct rest *a, struct rest *b)
{
	while (a->at < a->end && b->at < b->end) {
		if (!is_digit(peek(a)) || !is_digit(peek(b))) {
			if (*a->at != *b->at)
				return;
			a->at++;
			b->at++;
			continue;
		}
		while (is_digit(peek(a)))
			a->at++;
		while (is_digit(peek(b)))
			b->at++;
	}
}

struct str text_common_match(struct rest line, struct str prefix)
{
	const char *from = line.at;
	struct rest p = {prefix.data, prefix.data + prefix.len};
	pass_common(&line, &p);
	/* editors and mailers take away the blank at the end of a line that is empty otherwise */
	bool ends = line.at == line.end && p.at + 1 == p.end && is_blank(*p.at);
	return p.at == p.end || ends ? between(from, line.at) : (struct str){"", 0};
}

struct str text_common_with_before(const struct text_common *c, struct rest line)
{
	const char *from = line.at;
	struct rest before = {c->before, c->before + c->before_len};
	if (line.end - line.at > COMMON_MAX)
		line.end = line.at + COMMON_MAX;
	pass_common(&line, &before);
	return between(from, line.at);
}

uint32_t text_common_shape(struct str common, struct rest line)
{
	enum { BEHIND = 4, FNV_START = 0x811c9dc5, FNV_PRIME = 0x01000193 };
	const char *at = common.data, *end = common.data + common.len, *stop = end;
	uint32_t hash = FNV_START, count = 0, in_common = 0;
	stop += line.end - end > BEHIND ? BEHIND : line.end - end;
	for (bool number = false; at < stop; at++) {
		bool is = hex_value((unsigned char)*at) >= 0;
		if (!is || !number) {
			hash = (hash ^ (is ? '9' : (unsigned char)*at)) * FNV_PRIME;
			count++;
		}
		number = is;
		if (at < end)
			in_common = count - is; /* as if numbers had nothing in common */
	}
	return (hash ^ in_common) | 1;
}

/* Marks behind which the text of a log begins, also without a blank. */
static bool is_mark(int c)
{
	return c > 0 && strchr("]):|>;", c);
}

/* An address, or the first one of a line of a memory map, which stands right behind the number of a line as grep puts
 * it there. */
static bool begins_address(struct rest line)
{
	return take_literal(&line, "0x") || (take_hex_digits(&line).len >= ADDRESS_DIGITS_MIN && peek(&line) == '-');
}

const char *text_common_cut(struct str common, struct rest line, const char *from)
{
	const char *begin = common.data, *end = begin + common.len;
	const char *at = from;
	if (!at)
		for (at = begin; at < end && is_blank((unsigned char)*at); at++)
			;
	while (at < end && ++at < line.end) {
		int last = (unsigned char)at[-1];
		int before = at - begin > 1 ? (unsigned char)at[-2] : ' ';
		bool number = is_digit(before) && is_digit((unsigned char)*at) &&
		              !begins_address((struct rest){at, line.end}); /* of a date or time */
		bool blank = at < end && is_blank((unsigned char)*at);      /* it belongs to the prefix, too */
		bool mark = last == '-' ? is_digit(before) : is_mark(last); /* "app.log-12-" of grep */
		if (is_blank(last) ? !is_blank(before) : mark && !number && !blank)
			return at;
	}
	return NULL;
}
