/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing here is recursive: the nesting of a skipped value is an array of flags, so no body can exhaust a thread's
 * stack.
 */
#include <config.h>

#include "json/scan.h"

#include "base/hex.h"
#include "base/utf8.h"

static bool fault(struct scan *s, const char *what)
{
	s->fault = what;
	return false;
}

/* The value of four hex digits, or -1. */
static int32_t hex4(const uint8_t *p)
{
	uint64_t value;
	return hex_read_number((struct str){(const char *)p, 4}, &value) ? (int32_t)value : -1;
}

static bool scan_escape(struct scan *s)
{
	size_t left = (size_t)(s->end - s->at);
	if (left > 5 && s->at[1] == 'u' && hex4(s->at + 2) >= 0)
		s->at += 6;
	else if (left > 1 && s->at[1] && strchr("\"\\/bfnrt", s->at[1]))
		s->at += 2;
	else
		return fault(s, "bad escape in a string");
	return true;
}

static bool scan_utf8(struct scan *s)
{
	unsigned n = utf8_sequence(s->at, (size_t)(s->end - s->at));
	s->at += n;
	return n > 0 || fault(s, "a string that is not UTF-8");
}

int scan_peek_far(struct scan *s)
{
	while (s->at < s->end) {
		const uint8_t *stop = s->end - s->at > SCAN_UNYIELDING ? s->at + SCAN_UNYIELDING : s->end;
		for (; s->at < stop; s->at++)
			if (!scan_is_blank(*s->at))
				return *s->at;
		scan_yield(s);
	}
	return SCAN_END;
}

/* The rest of a string, up to its quote or `stop`. False: it is broken. */
static bool scan_piece(struct scan *s, const uint8_t *stop)
{
	while (s->at < stop && *s->at != '"') {
		uint8_t c = *s->at;
		if (c < 0x20)
			return fault(s, "control character in a string");
		if (c < 0x80 && c != '\\')
			s->at++;
		else if (!(c == '\\' ? scan_escape(s) : scan_utf8(s)))
			return false;
	}
	return true;
}

bool scan_string(struct scan *s, struct str *raw)
{
	const uint8_t *first = ++s->at;
	while (s->at < s->end && *s->at != '"') {
		scan_yield(s);
		if (!scan_piece(s, s->end - s->at > SCAN_UNYIELDING ? s->at + SCAN_UNYIELDING : s->end))
			return false;
	}
	if (s->at == s->end)
		return fault(s, "a string does not end");
	*raw = (struct str){(const char *)first, (size_t)(s->at++ - first)};
	return true;
}

static bool scan_digits(struct scan *s)
{
	const uint8_t *first = s->at;
	while (s->at < s->end && scan_is_digit(*s->at))
		s->at++;
	return s->at > first || fault(s, "expected a digit");
}

/* Nineteen digits cannot overflow. */
static inline bool scan_whole(struct scan *s, struct scan_number *n)
{
	const uint8_t *p = s->at, *end = s->end;
	uint64_t v = 0;
	bool over = false;
	if (p == end || !scan_is_digit(*p))
		return fault(s, "expected a digit");
	if (*p == '0') /* no digit may follow a leading 0 */
		end = p + 1;
	for (const uint8_t *safe = end - p > 19 ? p + 19 : end; p < safe && scan_is_digit(*p); p++)
		v = v * 10 + (uint64_t)(*p - '0');
	for (; p < end && scan_is_digit(*p); p++) {
		over |= __builtin_mul_overflow(v, 10, &v);
		over |= __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v);
	}
	s->at = p;
	n->magnitude = v;
	n->huge = over;
	return true;
}

static bool scan_fraction(struct scan *s, struct scan_number *n)
{
	n->integer = false;
	if (*s->at == '.') {
		s->at++;
		if (!scan_digits(s))
			return false;
	}
	if (s->at == s->end || (*s->at | 0x20) != 'e')
		return true;
	s->at++;
	if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
		s->at++;
	return scan_digits(s);
}

bool scan_number(struct scan *s, struct scan_number *n)
{
	const uint8_t *first = s->at;
	n->integer = true;
	n->negative = *first == '-';
	s->at += n->negative;
	if (!scan_whole(s, n))
		return false;
	if (s->at < s->end && (*s->at == '.' || (*s->at | 0x20) == 'e') && !scan_fraction(s, n))
		return false;
	n->text = (struct str){(const char *)first, (size_t)(s->at - first)};
	return true;
}

static bool skip_word(struct scan *s)
{
	static const char *const words[] = {"true", "false", "null"};
	for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
		size_t n = strlen(words[i]);
		if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
			s->at += n;
			return true;
		}
	}
	return fault(s, "expected a value");
}

static bool skip_scalar(struct scan *s, int c)
{
	struct str ignored;
	struct scan_number number;
	if (c == '"')
		return scan_string(s, &ignored);
	if (c == '-' || scan_is_digit(c))
		return scan_number(s, &number);
	return skip_word(s);
}

bool scan_key(struct scan *s, struct str *raw)
{
	if (scan_peek(s) != '"')
		return fault(s, "expected a key");
	if (!scan_string(s, raw))
		return false;
	return scan_take(s, ':') || fault(s, "expected ':'");
}

/* The lists and objects around a place, outermost first. */
struct nest {
	unsigned depth;
	bool object[SCAN_DEPTH_MAX];
};

/* Enters a list or an object. Stops before its first value or, with *empty set, before its closing bracket. */
static bool nest_enter(struct scan *s, struct nest *n, bool *empty)
{
	struct str ignored;
	if (n->depth == SCAN_DEPTH_MAX)
		return fault(s, "nested too deeply");
	bool object = *s->at++ == '{';
	n->object[n->depth++] = object;
	*empty = scan_peek(s) == (object ? '}' : ']');
	return *empty || !object || scan_key(s, &ignored);
}

/* After a value: leaves the lists and objects that end here, and stops before the next value, or at depth 0. */
static bool nest_go_on(struct scan *s, struct nest *n)
{
	struct str ignored;
	while (n->depth > 0) {
		bool object = n->object[n->depth - 1];
		int c = scan_peek(s);
		if (c == ',') {
			s->at++;
			return !object || scan_key(s, &ignored);
		}
		if (c != (object ? '}' : ']'))
			return fault(s, object ? "expected ',' or '}'" : "expected ',' or ']'");
		s->at++;
		n->depth--;
	}
	return true;
}

bool scan_skip(struct scan *s)
{
	struct nest n;
	n.depth = 0;
	do {
		scan_yield(s);
		int c = scan_peek(s);
		bool descend = c == '[' || c == '{', empty = false;
		if (!(descend ? nest_enter(s, &n, &empty) : skip_scalar(s, c)))
			return false;
		if ((!descend || empty) && !nest_go_on(s, &n))
			return false;
	} while (n.depth > 0);
	return true;
}

bool scan_document(struct scan *s)
{
	return scan_skip(s) && (scan_peek(s) == SCAN_END || fault(s, "text after the JSON value"));
}

static size_t put_utf8(char *out, uint32_t c)
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(lead[n] | c);
	return n;
}

/* The code point of the \uXXXX at *p, or of two that form a surrogate pair; moves *p past it. Half a pair is U+FFFD. */
static uint32_t decode_unicode(const uint8_t **p, const uint8_t *end)
{
	uint32_t c = (uint32_t)hex4(*p + 2);
	*p += 6;
	if (c < 0xd800 || c > 0xdfff)
		return c;
	if (c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
		uint32_t low = (uint32_t)hex4(*p + 2);
		if (low >= 0xdc00 && low <= 0xdfff) {
			*p += 6;
			return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		}
	}
	return 0xfffd;
}

static char decode_letter(uint8_t c)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *at = strchr(from, c);
	return at ? to[at - from] : (char)c;
}

size_t scan_decode(char *out, struct str raw)
{
	const uint8_t *p = (const uint8_t *)raw.data, *end = p + raw.len;
	char *o = out;
	while (p < end) {
		if (*p != '\\') {
			*o++ = (char)*p++;
		} else if (p[1] == 'u') {
			o += put_utf8(o, decode_unicode(&p, end));
		} else {
			*o++ = decode_letter(p[1]);
			p += 2;
		}
	}
	return (size_t)(o - out);
}

/* The first escape from p on that is half a surrogate pair, or NULL. */
static const uint8_t *find_half(const uint8_t *p, const uint8_t *end)
{
	while (p < end && (p = memchr(p, '\\', (size_t)(end - p)))) {
		const uint8_t *escape = p;
		if (p[1] != 'u') {
			p += 2;
			continue;
		}
		uint32_t written = (uint32_t)hex4(p + 2);
		if (decode_unicode(&p, end) == 0xfffd && written != 0xfffd)
			return escape;
	}
	return NULL;
}

bool scan_has_half(struct str raw)
{
	const uint8_t *p = (const uint8_t *)raw.data;
	return raw.len && find_half(p, p + raw.len);
}

void scan_mend(char *out, struct str raw)
{
	static const char replacement[] = "\\ufffd";
	const uint8_t *start = (const uint8_t *)raw.data, *end = start + raw.len, *p = start;
	if (raw.len)
		memcpy(out, raw.data, raw.len);
	while (p < end && (p = find_half(p, end))) {
		memcpy(out + (p - start), replacement, sizeof replacement - 1);
		p += sizeof replacement - 1;
	}
}
