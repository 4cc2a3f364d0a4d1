/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/write_names.h"

#include <inttypes.h>

#include "base/put.h"
#include "text/scan.h"

bool text_edit_applies(const struct text_edit *edit, uint64_t *done)
{
	if (edit->at < *done)
		return false;
	*done = edit->at + edit->cut;
	return true;
}

enum {
	STEP = 4, /* columns by which inlined calls stand behind their frame */
	TAB = 8,
	INDENT_MAX = 200,
};

void text_put_inlines_below(struct text_frame *f, uint64_t before, uint64_t after, struct str text, uint64_t base)
{
	struct text_edit *edit = f->edits, *below = f->edits + 1;
	if (!f->alone || f->edit_count != 1 || f->stack == TEXT_NO_STACK || edit->style >= TEXT_FIELDS ||
	        f->line == before || f->line == after)
		return;
	const char *start = text.data, *at = text.data + (edit->at - base), *end = text.data + text.len;
	const char *feed = memrchr(start, '\n', (size_t)(at - start)), *stop = memchr(at, '\n', (size_t)(end - at));
	struct rest line = {feed ? feed + 1 : start, stop ? stop : end};
	bool crlf = line.end > at && line.end[-1] == '\r';
	unsigned indent = 0;
	for (; is_blank(peek(&line)) && indent < INDENT_MAX; line.at++)
		indent = *line.at == ' ' ? indent + 1 : (indent / TAB + 1) * TAB;
	edit->style |= TEXT_INNERMOST;
	*below = (struct text_edit){.at = base + (uint64_t)(line.end - crlf - text.data),
	        .style = (uint8_t)((edit->style & ~TEXT_INNERMOST) | TEXT_BELOW),
	        .indent = (uint8_t)indent,
	        .crlf = crlf};
	f->edit_count++;
}

static void put_words(struct buffer *out, const char *text)
{
	buffer_append(out, text, strlen(text));
}

/* The length of a character that JSON need not escape but that nobody sees, or that changes how its neighbours are
 * read: DEL, control characters above 0x7f, marks of direction, spaces without width, ends of lines and paragraphs. 0:
 * none of these. web/visible.js has the same. */
static unsigned is_hidden(const char *p, const char *end, unsigned *code)
{
	const uint8_t *c = (const uint8_t *)p;
	if ((*code = c[0]) == 0x7f)
		return 1;
	if (end - p > 1 && (c[0] & 0xe0) == 0xc0) {
		*code = (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
		return (*code >= 0x80 && *code < 0xa0) || *code == 0x61c ? 2 : 0;
	}
	if (end - p > 2 && (c[0] & 0xf0) == 0xe0) {
		*code = (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
		return (*code >= 0x200b && *code <= 0x200f) || (*code >= 0x2028 && *code <= 0x202e) ||
		                       (*code >= 0x2060 && *code <= 0x2069) || *code == 0xfeff
		               ? 3
		               : 0;
	}
	return 0;
}

/* A string escaped for JSON, as readers want to see it: quotes and backslashes are plain, control characters stay
 * escaped, and what is hidden is. */
static void write_plain(struct buffer *out, struct str s)
{
	static const bool may_be_odd[256] = {
	        ['\\'] = true, [0x7f] = true, [0xc2] = true, [0xd8] = true, [0xe2] = true, [0xef] = true};
	const char *end = s.data + s.len, *from = s.data;
	for (const char *p = s.data; p < end; p++) {
		if (!may_be_odd[(unsigned char)*p])
			continue;
		unsigned code, hidden = is_hidden(p, end, &code);
		bool quoted = *p == '\\' && end - p > 1;
		if (!hidden && !quoted)
			continue;
		if (quoted && p[1] != '"' && p[1] != '\\' && p[1] != '/') {
			p++;
			continue;
		}
		buffer_append(out, from, (size_t)(p - from));
		if (hidden)
			buffer_printf(out, "\\u%04x", code);
		from = quoted ? p + 1 : p + hidden;
		p = quoted ? p + 1 : p + hidden - 1;
	}
	buffer_append(out, from, (size_t)(end - from));
}

/* The same, with what means something else in HTML as entities. */
static void write_html(struct buffer *out, struct str s)
{
	const char *end = s.data + s.len, *from = s.data;
	for (const char *p = s.data; p < end; p++) {
		if (*p != '<' && *p != '>' && *p != '&')
			continue;
		write_plain(out, (struct str){from, (size_t)(p - from)});
		put_words(out, *p == '<' ? "&lt;" : *p == '>' ? "&gt;" : "&amp;");
		from = p + 1;
	}
	write_plain(out, (struct str){from, (size_t)(end - from)});
}

/* escaped: TEXT_STRING, TEXT_HTML, or 0 for plain text. */
static void put_name(struct buffer *out, struct str s, unsigned escaped)
{
	if (escaped == TEXT_STRING)
		buffer_append_str(out, s);
	else if (escaped == TEXT_HTML)
		write_html(out, s);
	else
		write_plain(out, s);
}

static void put_line(struct buffer *out, uint32_t line)
{
	uint8_t text[1 + 20];
	buffer_append(out, text, (size_t)(put_decimal(PUT(text, ":"), line) - text));
}

/* NAME, followed by the place if it is known. */
static void put_call(struct buffer *out, const struct text_call *c, const char *at, unsigned escaped)
{
	put_name(out, c->function, escaped);
	if (!c->file.len)
		return;
	put_words(out, at);
	put_name(out, c->file, escaped);
	if (c->line)
		put_line(out, c->line);
}

static void put_calls(struct buffer *out, const struct text_call *calls, size_t count, const char *at, unsigned escaped)
{
	for (size_t i = 0; i < count; i++) {
		put_words(out, i ? ", inlined by " : "");
		put_call(out, &calls[i], at, escaped);
	}
}

/* Bars inside would separate fields. */
static void put_field(struct buffer *out, struct str s, unsigned escaped)
{
	size_t from = out->len;
	put_name(out, s, escaped);
	for (size_t i = from; i < out->len; i++)
		if (out->data[i] == '|')
			out->data[i] = '_';
}

static void put_json_string(struct buffer *out, struct str s)
{
	if (!s.len) {
		put_words(out, "null");
		return;
	}
	put_words(out, "\"");
	buffer_append_str(out, s);
	put_words(out, "\"");
}

static void put_json_line(struct buffer *out, uint32_t line)
{
	if (line)
		buffer_printf(out, "%" PRIu32, line);
	else
		put_words(out, "null");
}

/* As minidump-stackwalk writes them: the calls inside the frame's own function, innermost first. */
static void put_json_inlines(struct buffer *out, const struct text_call *calls, size_t count)
{
	if (count < 2) {
		put_words(out, "null");
		return;
	}
	for (size_t i = 0; i + 1 < count; i++) {
		put_words(out, i ? ",{\"file\":" : "[{\"file\":");
		put_json_string(out, calls[i].file);
		put_words(out, ",\"function\":");
		put_json_string(out, calls[i].function);
		put_words(out, ",\"line\":");
		put_json_line(out, calls[i].line);
		put_words(out, "}");
	}
	put_words(out, "]");
}

/* The function's name, file and line under these keys, as far as they are known, and the calls inside it. No comma
 * stands before the first. */
static void put_json_members(struct buffer *out, const char *function, const char *file, const char *line,
        const struct text_call *calls, size_t count)
{
	const struct text_call *own = &calls[count - 1];
	buffer_printf(out, "\"%s\":", function);
	put_json_string(out, own->function);
	if (own->file.len) {
		buffer_printf(out, ",\"%s\":", file);
		put_json_string(out, own->file);
	}
	if (own->file.len && own->line)
		buffer_printf(out, ",\"%s\":%" PRIu32, line, own->line);
	if (count > 1) {
		put_words(out, ",\"inlines\":");
		put_json_inlines(out, calls, count);
	}
}

/* As llvm-symbolizer --pretty-print has them. */
static void put_below(
        struct buffer *out, const struct text_edit *edit, const struct text_call *calls, size_t count, const char *at)
{
	for (size_t i = 1; i < count; i++) {
		put_words(out, edit->crlf ? "\r\n" : "\n");
		buffer_printf(out, "%*s(inlined by) ", edit->indent + STEP, "");
		put_call(out, &calls[i], at, 0);
	}
}

void text_write_names(struct buffer *out, const struct text_edit *edit, const struct text_call *calls, size_t count)
{
	static const char *const forms[][3] = {[TEXT_AT] = {"", " at ", ""},
	        [TEXT_IN] = {" in ", " ", " "},
	        [TEXT_BLANK] = {"", " ", ""},
	        [TEXT_PARENTHESES] = {" (", " at ", ")"}};
	const struct text_call *function = &calls[count - 1];
	unsigned escaped = edit->style & (TEXT_STRING | TEXT_HTML);
	unsigned form = edit->style & ~(escaped | TEXT_INNERMOST | TEXT_BELOW);
	if (edit->style & TEXT_BELOW) {
		put_below(out, edit, calls, count, forms[form][1]);
	} else if (form < TEXT_FIELDS) {
		put_words(out, forms[form][0]);
		put_calls(out, calls, edit->style & TEXT_INNERMOST ? 1 : count, forms[form][1], escaped);
		put_words(out, forms[form][2]);
	}
	switch (form) {
	case TEXT_FIELDS:
		put_field(out, function->function, escaped);
		put_words(out, "|");
		put_field(out, function->file, escaped);
		put_words(out, "|");
		if (function->file.len && function->line)
			buffer_printf(out, "%" PRIu32, function->line);
		break;
	case TEXT_JSON_FUNCTION:
		put_json_string(out, function->function);
		break;
	case TEXT_JSON_FILE:
		put_json_string(out, function->file);
		break;
	case TEXT_JSON_LINE:
		put_json_line(out, function->file.len ? function->line : 0);
		break;
	case TEXT_JSON_INLINES:
		put_json_inlines(out, calls, count);
		break;
	case TEXT_JSON_SENTRY:
		put_words(out, ",");
		/* fall through */
	case TEXT_JSON_SENTRY_MEMBERS:
		put_json_members(out, "function", "filename", "lineno", calls, count);
		break;
	case TEXT_JSON_IPS:
		put_words(out, ",");
		put_json_members(out, "symbol", "sourceFile", "sourceLine", calls, count);
		break;
	}
}
