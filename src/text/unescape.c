/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/unescape.h"

enum { OTHER = 0x7f }; /* in place of a character beyond ASCII, or of a control character */

const char *text_string_end(const char *from, const char *end)
{
	for (; from < end && *from != '"'; from++)
		from += *from == '\\';
	return from < end ? from : NULL;
}

/* What stands behind \u: four hex digits, which are passed. */
static char take_code(struct rest *r)
{
	unsigned code = 0;
	for (unsigned i = 0; i < 4 && hex_value(peek(r)) >= 0; i++, r->at++)
		code = code << 4 | (unsigned)hex_value(peek(r));
	return code == ESCAPE || (code >= ' ' && code < OTHER) ? (char)code : OTHER;
}

/* The character behind a backslash, which has been passed. */
static char take_escape(struct rest *r)
{
	char c = r->at < r->end ? *r->at++ : '\\';
	return c == 't' ? '\t' : c == 'r' ? '\r' : c == 'u' ? take_code(r) : c;
}

/* ---- colours ---- */

/* "\033[1;31m", "\033[K", "\033(B": a sequence that moves nothing, which is passed. */
static bool take_sequence(struct rest *r)
{
	const char *from = r->at;
	if (take_literal(r, "\033(") && r->at < r->end) {
		r->at++;
		return true;
	}
	r->at = from;
	if (!take_literal(r, "\033["))
		return false;
	while (is_digit(peek(r)) || peek(r) == ';')
		r->at++;
	if (take_literal(r, "m") || take_literal(r, "K"))
		return true;
	r->at = from;
	return false;
}

static void drop_colours(struct text_unescaped *u)
{
	struct rest r = {memchr(u->text, ESCAPE, u->len), u->text + u->len};
	if (!r.at)
		return;
	size_t len = (size_t)(r.at - u->text);
	while (r.at < r.end) {
		if (take_sequence(&r))
			continue;
		u->at[len] = u->at[r.at - u->text];
		u->text[len++] = *r.at++;
	}
	u->at[len] = u->at[u->len];
	u->len = len;
}

bool text_unescape_colours(struct text_unescaped *u, struct rest line)
{
	for (u->len = 0; line.at < line.end && u->len < UNESCAPED_MAX; u->len++) {
		u->at[u->len] = (uint32_t)(line.at - u->start);
		u->text[u->len] = *line.at++;
	}
	u->at[u->len] = (uint32_t)(line.at - u->start);
	drop_colours(u);
	return line.at == line.end;
}

/* ---- strings ---- */

/* "#011": a tab, in what rsyslog writes. */
static char take_plain(struct rest *string)
{
	return take_literal(string, "#011") ? '\t' : *string->at++;
}

bool text_unescape_line(struct text_unescaped *u, struct rest *string, const char *line_feed)
{
	bool json = *line_feed == '\\';
	u->len = 0;
	if (string->at == string->end)
		return false;
	while (string->at < string->end && u->len < UNESCAPED_MAX) {
		u->at[u->len] = (uint32_t)(string->at - u->start);
		if (take_literal(string, line_feed)) {
			drop_colours(u);
			return true;
		}
		char c = json ? *string->at++ : take_plain(string);
		u->text[u->len++] = json && c == '\\' ? take_escape(string) : c;
	}
	u->at[u->len] = (uint32_t)(string->at - u->start);
	drop_colours(u);
	return string->at == string->end;
}

/* ---- HTML ---- */

static const struct entity {
	const char *name;
	char c;
} entities[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&#34;", '"'}, {"&#39;", '\''},
        {"&#x27;", '\''}, {"&apos;", '\''}, {"&nbsp;", ' '}};

/* The character that an entity stands for, which is passed; 0: there is none here. */
static char take_entity(struct rest *r)
{
	for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
		if (take_literal(r, entities[i].name))
			return entities[i].c;
	return 0;
}

bool text_is_html(const char *at, const char *end)
{
	while (at < end && (at = memchr(at, '&', (size_t)(end - at)))) {
		struct rest r = {at++, end};
		if (take_entity(&r))
			return true;
	}
	return false;
}

bool text_unescape_html(struct text_unescaped *u, struct rest line)
{
	for (u->len = 0; line.at < line.end && u->len < UNESCAPED_MAX; u->len++) {
		u->at[u->len] = (uint32_t)(line.at - u->start);
		char c = peek(&line) == '&' ? take_entity(&line) : 0;
		u->text[u->len] = c ? c : *line.at++;
	}
	u->at[u->len] = (uint32_t)(line.at - u->start);
	return line.at == line.end;
}

struct str text_span_read(struct text_unescaped *u, struct str whole, const struct text_span *span)
{
	struct rest r = {whole.data + span->at, whole.data + span->at + span->len};
	if (!span->len || (!span->escaped && !memchr(r.at, ESCAPE, span->len)))
		return between(r.at, r.end);
	u->start = r.at;
	if (!span->escaped)
		text_unescape_colours(u, r);
	else if (span->escaped == TEXT_STRING)
		text_unescape_line(u, &r, TEXT_JSON_FEED);
	else
		text_unescape_html(u, r);
	return (struct str){u->text, u->len};
}
