/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/path.h"

#include "text/reader.h"
#include "text/scan.h"

static bool is_slash(int c)
{
	return c == '/' || c == '\\';
}

static bool has_slash(const char *at, const char *end)
{
	while (at < end && !is_slash(*at))
		at++;
	return at < end;
}

bool text_is_rooted(const char *at, const char *end)
{
	struct rest r = {at, end};
	int first = peek(&r);
	if (is_letter(first))
		return end - at > 2 && at[1] == ':' && is_slash(at[2]);
	if (first != '.' && first != '\\')
		return first == '/';
	return take_literal(&r, "./") || take_literal(&r, "../") || take_literal(&r, "\\\\");
}

static const char *lowest(const char *from, const char *end)
{
	return end - from > TEXT_NAME_MAX ? end - TEXT_NAME_MAX : from;
}

const char *text_opening(const char *from, const char *close)
{
	char closes = *close, opens = closes == ')' ? '(' : '[';
	unsigned depth = 1;
	const char *at = close;
	for (from = lowest(from, close); at > from && depth;) {
		at--;
		depth += *at == closes;
		depth -= *at == opens;
	}
	return depth ? NULL : at;
}

const char *text_path_opening(const char *from, const char *close)
{
	char opens = *close == ')' ? '(' : '[', between_groups[] = {*close, ' ', 0};
	const char *pair = text_opening(from, close);
	if (pair && text_is_rooted(pair + 1, close))
		return pair;
	from = lowest(from, close);
	const char *last = find_last(from, close, opens), *at = last;
	while (at && (!text_is_rooted(at + 1, close) || (at < last && at > from && !is_blank((unsigned char)at[-1]))))
		at = find_last(from, at, opens);
	if (at && (!pair || !find_word(at, pair, between_groups)))
		return at;
	return pair ? pair : last;
}

/* What cannot be part of a name without blanks. */
static bool ends_name(int c)
{
	return is_blank(c) || strchr("()[]<>{}\"'`,;=|!", c);
}

static bool may_precede(int c)
{
	return is_blank(c) || strchr("([{<=,;|", c);
}

static bool is_quote(int c)
{
	return c == '"' || c == '\'' || c == '`';
}

/* A path may begin at `at`, which is not the first byte. */
static bool may_begin(const char *from, const char *at)
{
	if (may_precede((unsigned char)at[-1]))
		return true;
	return is_quote((unsigned char)at[-1]) && (at - 1 == from || may_precede((unsigned char)at[-2]));
}

/* Without brackets in pairs only if there is none with. */
const char *text_path_start(const char *from, const char *end)
{
	const char *word = end, *name = end, *low = lowest(from, end), *unpaired = NULL;
	unsigned depth = 0;
	bool slash = false;
	while (word > low && !is_blank((unsigned char)word[-1]))
		word--;
	while (name > word && !ends_name((unsigned char)name[-1]))
		name--;
	bool may_have_blanks = has_slash(word, end);
	while (word < end && (may_precede((unsigned char)*word) || is_quote((unsigned char)*word)))
		word++;
	for (const char *at = end; at-- > low;) {
		slash = slash || is_slash((unsigned char)*at);
		depth += *at == ')';
		if (*at == '(' && !depth && !slash) /* a function's name stands behind it: "/lib/libc.so.6(abort" */
			break;
		depth -= depth && *at == '(';
		if (!text_is_rooted(at, end) || (at > from && !may_begin(from, at)) ||
		        (at < word && at > from && !may_have_blanks))
			continue;
		if (!depth)
			return at;
		unpaired = unpaired ? unpaired : at;
	}
	return unpaired ? unpaired : name;
}
