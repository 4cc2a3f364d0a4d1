/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/own_name.h"

#include <ctype.h>
#include <string.h>

static const char OPERATOR[] = "operator";
enum { OPERATOR_LENGTH = sizeof OPERATOR - 1 };

static bool is_letter(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static size_t word_length(struct str s, size_t at)
{
	size_t n = 0;
	while (at + n < s.len && is_letter(s.data[at + n]))
		n++;
	return n;
}

static char char_at(struct str s, size_t at)
{
	return at < s.len ? s.data[at] : 0;
}

/* The length of "operator" with its signs; what may follow them are arguments of a template: "operator<< <int>". */
static size_t operator_length(struct str s, size_t at)
{
	size_t end = at + OPERATOR_LENGTH;
	if ((char_at(s, end) == '(' && char_at(s, end + 1) == ')') ||
	        (char_at(s, end) == '[' && char_at(s, end + 1) == ']'))
		return OPERATOR_LENGTH + 2;
	while (char_at(s, end) && strchr("<>=!+-*/%^&|~,", s.data[end]))
		end++;
	return end - at;
}

static bool is_operator(struct str s, size_t at, size_t word)
{
	return word == OPERATOR_LENGTH && memcmp(s.data + at, OPERATOR, word) == 0;
}

/* Where the last part begins. Between brackets nothing separates parts; a blank separates a return type, but not what
 * follows parameters. "::<" is followed by arguments of the part before it. */
static size_t last_part(struct str s)
{
	size_t part = 0, depth = 0;
	bool ended = false;
	for (size_t i = 0; i < s.len;) {
		size_t word = word_length(s, i);
		if (depth == 0 && is_operator(s, i, word)) {
			word = operator_length(s, i);
			ended = true;
		}
		if (word > 0) {
			i += word;
			continue;
		}
		char c = s.data[i++];
		if (c && strchr("<([{", c)) {
			ended = ended || (depth == 0 && c == '(');
			depth++;
		} else if (c && strchr(">)]}", c) && depth > 0 && (c != '>' || i < 2 || s.data[i - 2] != '-')) {
			depth--;
		} else if (depth == 0 && c == ':' && char_at(s, i) == ':') {
			i++;
			part = char_at(s, i) == '<' ? part : i;
			ended = false;
		} else if (depth == 0 && c == '.') { /* D */
			part = i;
			ended = false;
		} else if (depth == 0 && c == ' ' && !ended) {
			part = i;
		}
	}
	return part;
}

struct str own_name(struct str name)
{
	size_t at = last_part(name);
	while (char_at(name, at) == '{')
		at++;
	size_t word = word_length(name, at + (char_at(name, at) == '~'));
	if (is_operator(name, at, word))
		word = operator_length(name, at);
	else if (char_at(name, at) == '~')
		word++;
	return (struct str){name.data + at, word};
}
