/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/common.h"

enum {
	ADDRESS_DIGITS_MIN = 5, /* of /proc/PID/maps */
	BEHIND = 4,             /* bytes behind what lines have in common that tell their shape */
	FNV_START = 0x811c9dc5,
	FNV_PRIME = 0x01000193,
};

/* A hash of how lines begin, runs of hex digits being alike. */
struct shape {
	uint32_t hash, count;
	bool number; /* a run is open */
};

static void add_to_shape(struct shape *s, unsigned char c)
{
	bool is = hex_value(c) >= 0;
	if (!is || !s->number) {
		s->hash = (s->hash ^ (is ? '9' : c)) * FNV_PRIME;
		s->count++;
	}
	s->number = is;
}

/* Passes what both have in common: the same bytes, or digits in both. */
static void pass_common(struct rest *a, struct rest *b, struct shape *s)
{
	const char *x = a->at, *y = b->at; /* many lines of a log come here */
	while (x < a->end && y < b->end) {
		bool digits = is_digit((unsigned char)*x) && is_digit((unsigned char)*y);
		if (!digits && *x != *y)
			break;
		add_to_shape(s, (unsigned char)*x++);
		y++;
		if (!digits)
			continue;
		while (x < a->end && is_digit((unsigned char)*x))
			x++;
		while (y < b->end && is_digit((unsigned char)*y))
			y++;
	}
	a->at = x;
	b->at = y;
}

struct str text_common_match(struct rest line, struct str prefix)
{
	const char *from = line.at;
	struct rest p = {prefix.data, prefix.data + prefix.len};
	pass_common(&line, &p, &(struct shape){0});
	/* editors and mailers take away the blank at the end of a line that is empty otherwise */
	bool ends = line.at == line.end && p.at + 1 == p.end && is_blank(*p.at);
	return p.at == p.end || ends ? between(from, line.at) : NOTHING;
}

struct str text_common_with_before(const struct text_common *c, struct rest line, uint32_t *shape)
{
	struct shape s = {.hash = FNV_START};
	const char *kept = c->before ? c->before : "";
	struct rest common = line, before = {kept, kept + c->before_len};
	if (line.end - line.at > COMMON_MAX)
		common.end = line.at + COMMON_MAX;
	pass_common(&common, &before, &s);
	uint32_t in_common = s.count - s.number; /* as if numbers had nothing in common */
	for (const char *at = common.at; at < line.end && at < common.at + BEHIND; at++)
		add_to_shape(&s, (unsigned char)*at);
	*shape = (s.hash ^ in_common) | 1;
	return between(line.at, common.at);
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
