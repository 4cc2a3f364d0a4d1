/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/prefix.h"

/* Here a struct rest is put back by its pointer: to copy it takes longer. */

enum {
	PREFIXES_MAX = 8,  /* one behind the other */
	SOURCE_MAX = 128,  /* bytes of a name of host, program, service or pod */
	BRACKETS_MAX = 40, /* bytes of a time in brackets */
};

/* In the form, 9 stands for a digit, - also for a slash, and T also for a blank. */
static bool take_form(struct rest *r, const char *form)
{
	const char *at = r->at, *end = r->end;
	for (; *form && at < end; form++, at++)
		if (*form == '9' ? !is_digit(*at)
		                 : *at != *form && !(*form == '-' && *at == '/') && !(*form == 'T' && *at == ' '))
			return false;
	r->at = at;
	return !*form;
}

/* 18:56:33, 18:56:33.123, 18:56:33,123 */
static bool take_clock(struct rest *r)
{
	if (!take_form(r, "99:99:99"))
		return false;
	if (peek(r) == '.' || peek(r) == ',')
		r->at++;
	while (is_digit(peek(r)))
		r->at++;
	return true;
}

/* Nothing, Z, +01:00, -0500 */
static void take_zone(struct rest *r)
{
	const char *from = r->at;
	if (take_literal(r, "Z") || (peek(r) != '+' && peek(r) != '-'))
		return;
	r->at++;
	bool taken = take_form(r, "99");
	take_literal(r, ":");
	if (!taken || !take_form(r, "99"))
		r->at = from;
}

/* 2026-11-26T18:56:33.123Z, with a blank or T before the clock */
static bool take_date(struct rest *r)
{
	if (!take_form(r, "9999-99-99T") || !take_clock(r))
		return false;
	take_zone(r);
	return true;
}

/* Nov 26 18:56:33 */
static bool take_month_and_day(struct rest *r)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	uint64_t day;
	if (r->end - r->at < 4 || r->at[3] != ' ')
		return false;
	for (unsigned i = 0; i < sizeof months - 1; i += 3) {
		if (memcmp(r->at, months + i, 3) != 0)
			continue;
		r->at += 4;
		blanks(r);
		return take_decimal(r, &day) && take_literal(r, " ") && take_clock(r);
	}
	return false;
}

/* Letters, digits, and -_./@:() */
static bool is_name(unsigned char c)
{
	static const uint64_t names[4] = {TEXT_RANGE('(', ')') | TEXT_RANGE('-', ':'),
	        TEXT_RANGE('@', 'Z') | TEXT_RANGE('_', '_') | TEXT_RANGE('a', 'z')};
	return names[c >> 6] >> (c & 63) & 1;
}

/* A name of 1 to SOURCE_MAX bytes. */
static bool take_name(struct rest *r)
{
	const char *from = r->at, *at = from, *stop = r->end - from > SOURCE_MAX ? from + SOURCE_MAX : r->end;
	while (at < stop && is_name((unsigned char)*at))
		at++;
	r->at = at;
	return at > from && (at == r->end || !is_name((unsigned char)*at));
}

/* "host app[123]: " and "host kernel: "; a colon alone may belong to anything. */
static bool take_host(struct rest *r, struct str *source)
{
	const char *from = r->at;
	uint64_t pid;
	if (!memchr(from, ':', (size_t)(r->end - from)) || !take_name(r) || !take_literal(r, " "))
		return false;
	*source = between(from, r->at);
	if (take_literal(r, "kernel: "))
		return true;
	if (!take_name(r) || !take_literal(r, "[") || !take_decimal(r, &pid) || !take_literal(r, "]: "))
		return false;
	*source = between(from, r->at);
	return true;
}

static bool take_stream(struct rest *r)
{
	return take_literal(r, "stdout F ") || take_literal(r, "stderr F ");
}

/* A time, and behind it the host and program, or the stream of a container's log. */
static bool take_time(struct rest *r, struct str *source)
{
	const char *from = r->at;
	struct str told;
	if (is_digit(peek(r)) ? !take_date(r) : !take_month_and_day(r)) {
		r->at = from;
		if (!take_clock(r))
			return false;
	}
	if (!take_literal(r, " ") && r->at != r->end)
		return false;
	from = r->at;
	if (take_stream(r))
		return true;
	if (take_host(r, &told))
		*source = told;
	else
		r->at = from;
	return true;
}

/* "[2026-11-26 18:56:33] ", "[    5.123456] "; but "[  0] " is an entry of lldb's list of images. */
static bool take_bracketed_time(struct rest *r)
{
	const char *from = r->at;
	bool mark = false;
	if (!take_literal(r, "["))
		return false;
	for (int c; (c = peek(r)) != ']'; r->at++) {
		if (r->at - from > BRACKETS_MAX || (!is_digit(c) && (c < 0 || !strchr(" :.,-/TZ+", c) || !c)))
			return false;
		mark = mark || c == ':' || c == '.';
	}
	return mark && take_literal(r, "] ");
}

/* "[pod/web-1/app] ", "[web] " */
static bool take_pod(struct rest *r, struct str *source)
{
	const char *from = r->at++;
	if (is_digit(peek(r)) || !take_name(r) || !take_literal(r, "] "))
		return false;
	*source = between(from, r->at);
	return true;
}

/* "web-1  | " */
static bool take_service(struct rest *r, struct str *source)
{
	const char *from = r->at;
	if (!take_name(r) || !blanks(r) || !take_literal(r, "| "))
		return false;
	*source = between(from, r->at);
	return true;
}

/* "> ", ">> ": the blank belongs to it */
static bool take_quote(struct rest *r)
{
	if (!take_literal(r, ">"))
		return false;
	return take_literal(r, " ") || r->at == r->end || *r->at == '>';
}

/* By its first byte. */
static bool take_prefix(struct rest *r, bool has_bar, struct str *source)
{
	const char *from = r->at;
	int first = peek(r);
	bool found = false;
	if (first == '>')
		found = take_quote(r);
	else if (first == '(')
		found = take_literal(r, "(EE) ");
	else if (first == '[')
		found = take_bracketed_time(r);
	else if (is_digit(first) || (first >= 'A' && first <= 'S')) /* April to September */
		found = take_time(r, source);
	if (!found && !source->len && (first == '[' || has_bar)) {
		r->at = from;
		found = first == '[' ? take_pod(r, source) : take_service(r, source);
	}
	if (!found)
		r->at = from;
	return found;
}

struct rest text_without_prefix(struct rest line, bool has_bar, struct str *source)
{
	*source = NOTHING;
	for (unsigned i = 0; i < PREFIXES_MAX && line.at < line.end && take_prefix(&line, has_bar, source); i++)
		;
	return line;
}

bool text_prefix_goes_on(struct rest line, bool has_bar)
{
	struct rest host = line;
	struct str ignored = {"", 0};
	bool is_word = peek(&line) >= 'a' && peek(&line) <= 'z' && !has_bar; /* as most texts begin */
	return (!is_word && take_prefix(&line, has_bar, &ignored)) || take_host(&host, &ignored) || take_stream(&line);
}
