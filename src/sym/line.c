/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sym/line.h"

#include <string.h>
#include <strings.h>

#include "base/hex.h"

/* ---- fields ---- */

static inline bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t';
}

static void skip_blanks(struct line *l)
{
	while (l->at < l->end && is_blank(*l->at))
		l->at++;
}

/* A field ends at a blank or the end of the line. */
static bool field_ends(const struct line *l)
{
	return l->at == l->end || is_blank(*l->at);
}

/* inline into take_hex, which reads three fields of each symbol */
inline bool line_slow_hex(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	const uint8_t *c = *at;
	uint64_t v = 0;
	for (int d; c < end && (d = hex_value(*c)) >= 0; c++) {
		if (v >> 60)
			return false;
		v = v << 4 | (unsigned)d;
	}
	if (c == *at)
		return false;
	*value = v;
	*at = c;
	return true;
}

bool line_slow_decimal(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	const uint8_t *c = *at;
	uint64_t v = 0;
	for (; c < end && *c >= '0' && *c <= '9'; c++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*c - '0'), &v))
			return false;
	if (c == *at)
		return false;
	*value = v;
	*at = c;
	return true;
}

static bool take_hex(struct line *l, uint64_t *value)
{
	skip_blanks(l);
	return line_slow_hex(&l->at, l->end, value) && field_ends(l);
}

/* An id has at most 64 bits. */
static bool take_id(struct line *l, uint64_t *value)
{
	skip_blanks(l);
	return line_slow_decimal(&l->at, l->end, value) && field_ends(l);
}

static bool take_decimal(struct line *l, uint32_t *value)
{
	uint64_t v;
	if (!take_id(l, &v) || v > UINT32_MAX)
		return false;
	*value = (uint32_t)v;
	return true;
}

static struct str take_rest(struct line *l)
{
	skip_blanks(l);
	return (struct str){(const char *)l->at, (size_t)(l->end - l->at)};
}

static struct str take_word(struct line *l)
{
	skip_blanks(l);
	const uint8_t *start = l->at;
	while (!field_ends(l))
		l->at++;
	return (struct str){(const char *)start, (size_t)(l->at - start)};
}

/* Takes the keyword and the blank after it, or nothing. */
static inline bool take_keyword(struct line *l, const char *word, size_t len)
{
	if ((size_t)(l->end - l->at) < len || memcmp(l->at, word, len) != 0)
		return false;
	if ((size_t)(l->end - l->at) > len && !is_blank(l->at[len]))
		return false;
	l->at += len;
	return true;
}
#define TAKE_KEYWORD(l, word) take_keyword((l), (word), sizeof(word) - 1)

static void take_multiple_mark(struct line *l)
{
	struct line mark = *l;
	struct str word = take_word(&mark);
	if (word.len == 1 && word.data[0] == 'm')
		*l = mark;
}

/* ---- lines ---- */

struct line line_content(const uint8_t *at, const uint8_t *end)
{
	struct line l = {at, end};
	const uint8_t *nul = memchr(at, 0, (size_t)(end - at));
	if (nul)
		l.end = nul;
	while (l.end > l.at && l.end[-1] == '\r')
		l.end--;
	return l;
}

enum line_kind line_take_kind(struct line *l)
{
	skip_blanks(l);
	if (l->at == l->end)
		return LINE_BLANK;
	if (TAKE_KEYWORD(l, "FUNC"))
		return LINE_FUNC;
	if (TAKE_KEYWORD(l, "INLINE"))
		return LINE_INLINE;
	if (TAKE_KEYWORD(l, "PUBLIC"))
		return LINE_PUBLIC;
	if (TAKE_KEYWORD(l, "INLINE_ORIGIN"))
		return LINE_ORIGIN;
	if (TAKE_KEYWORD(l, "FILE"))
		return LINE_FILE;
	if (TAKE_KEYWORD(l, "STACK"))
		return LINE_STACK;
	return TAKE_KEYWORD(l, "INFO") ? LINE_INFO : LINE_OTHER;
}

bool line_read_module(struct line l, struct str *id)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
	size_t n = sizeof mark - 1;
	if ((size_t)(l.end - l.at) > n && memcmp(l.at, mark, n) == 0)
		l.at += n;
	bool ok = TAKE_KEYWORD(&l, "MODULE") && take_word(&l).len && take_word(&l).len;
	*id = ok ? take_word(&l) : (struct str){"", 0};
	for (size_t i = 0; i < id->len; i++)
		ok = ok && hex_value(id->data[i]) >= 0;
	return ok && id->len && take_rest(&l).len;
}

const char *line_foreign(const uint8_t *at, const uint8_t *end)
{
	static const struct {
		const char *begin;
		uint8_t len;
		const char *is;
	} kinds[] = {
	        {"\xff\xfe", 2, ": it is UTF-16, not UTF-8"},
	        {"\xfe\xff", 2, ": it is UTF-16, not UTF-8"},
	        {"\x1f\x8b", 2, ": it is packed as gzip once more"},
	        {"<", 1, ": it is HTML or XML, perhaps a server's error message"},
	};
	while (at < end && (is_blank(*at) || *at == '\r'))
		at++;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if ((size_t)(end - at) >= kinds[i].len && memcmp(at, kinds[i].begin, kinds[i].len) == 0)
			return kinds[i].is;
	return "";
}

bool line_read_symbol(struct line l, bool is_public, uint64_t *addr, uint64_t *size, struct str *name)
{
	uint64_t parameters;
	take_multiple_mark(&l);
	*size = 0;
	if (!take_hex(&l, addr) || (!is_public && !take_hex(&l, size)) || !take_hex(&l, &parameters))
		return false;
	*name = take_rest(&l);
	return true;
}

/* In the form of 2021 the file's number, or -1, precedes the name. */
static void take_file_number(struct definition_fields *d)
{
	struct line l = {(const uint8_t *)d->name.data, (const uint8_t *)d->name.data + d->name.len}, number = l;
	const uint8_t *digits = l.at;
	if (l.end - l.at >= 2 && l.at[0] == '-' && l.at[1] == '1') {
		l.at += 2;
	} else {
		while (l.at < l.end && *l.at >= '0' && *l.at <= '9')
			l.at++;
	}
	if (l.at == digits || l.at == l.end || !is_blank(*l.at))
		return;
	struct str text = take_rest(&l);
	if (!text.len)
		return;
	d->name = text;
	d->has_file = take_decimal(&number, &d->file);
}

bool line_is_module_id(struct str id, struct str asked)
{
	enum { WITHOUT_AGE = 32 };
	if (id.len == WITHOUT_AGE && asked.len == WITHOUT_AGE + 1 && asked.data[WITHOUT_AGE] == '0')
		asked.len = WITHOUT_AGE;
	if (asked.len == WITHOUT_AGE && id.len == WITHOUT_AGE + 1 && id.data[WITHOUT_AGE] == '0')
		id.len = WITHOUT_AGE;
	return id.len == asked.len && strncasecmp(id.data, asked.data, id.len) == 0;
}

bool line_read_definition(struct line l, bool is_origin, struct definition_fields *out)
{
	*out = (struct definition_fields){0};
	if (!take_id(&l, &out->id))
		return false;
	out->name = take_rest(&l);
	if (!is_origin)
		return out->name.len != 0;
	take_file_number(out);
	return true;
}

bool line_read_record(struct line l, uint64_t *addr, uint64_t *size, uint32_t *line, uint64_t *file)
{
	if (!take_hex(&l, addr) || !take_hex(&l, size))
		return false;
	struct line number = l;
	struct str word = take_word(&l);
	bool known = take_decimal(&number, line) && number.at == l.at;
	if (!known)
		*line = 0;
	/* Electron's files have negative lines. */
	return word.len > 0 && take_id(&l, file);
}

bool line_read_code_file(struct line l, struct str *id, struct str *name)
{
	skip_blanks(&l);
	if (!TAKE_KEYWORD(&l, "CODE_ID") || !(*id = take_word(&l)).len)
		return false;
	*name = take_rest(&l);
	return true;
}

/* Whether the rest of the line is one or more pairs of hex numbers. */
static bool has_ranges(struct line l)
{
	uint64_t addr, size, pairs = 0;
	for (skip_blanks(&l); l.at < l.end; skip_blanks(&l), pairs++)
		if (!take_hex(&l, &addr) || !take_hex(&l, &size))
			return false;
	return pairs != 0;
}

bool line_read_inline(struct line *l, struct inline_fields *out)
{
	uint32_t third;
	if (!take_decimal(l, &out->depth) || !take_decimal(l, &out->call_line) || !take_decimal(l, &third))
		return false;
	struct line behind = *l;
	/* With a call file there are four numbers before the ranges; the form of 2021 has three. */
	out->has_call_file = take_decimal(&behind, &out->origin) && has_ranges(behind);
	out->call_file = third;
	if (out->has_call_file) {
		*l = behind;
		return true;
	}
	out->origin = third;
	return has_ranges(*l);
}

bool line_take_range(struct line *l, uint64_t *addr, uint64_t *size)
{
	skip_blanks(l);
	return l->at < l->end && take_hex(l, addr) && take_hex(l, size);
}
