/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON piece by piece, strictly by RFC 8259, from memory that ends anywhere. */
#ifndef FORMAT_JSON_SCAN_H
#define FORMAT_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
	SCAN_END = -1,         /* scan_peek at the end of the text */
	SCAN_DEPTH_MAX = 2048, /* lists and objects inside each other in a value that is skipped */
};

/* A position in a text. The caller sets start, at and end. */
struct scan {
	const uint8_t *start, *at, *end;
	const char *fault; /* after a function here gave false: what is wrong at `at` */
};

struct scan_number {
	struct str text; /* as written */
	uint64_t magnitude;
	bool negative;
	bool integer; /* written without fraction and exponent */
	bool huge;    /* magnitude would be 2^64 or more, and means nothing */
};

/* A string whose opening quote is next. raw is what stands between the quotes, escapes and all; UTF-8 and escapes have
 * been checked. */
bool scan_string(struct scan *s, struct str *raw);
/* A number whose first byte, a digit or '-', is next. */
bool scan_number(struct scan *s, struct scan_number *n);
/* A key and its colon, with white space before either. */
bool scan_key(struct scan *s, struct str *raw);
/* A value of any kind, with white space before it. */
bool scan_skip(struct scan *s);
/* The same, with nothing but white space behind it. */
bool scan_document(struct scan *s);

/* What a raw string means: at most raw.len bytes. A surrogate without its other half becomes U+FFFD. */
size_t scan_decode(char *out, struct str raw);

/* Whether a raw string has a \uXXXX that is half a surrogate pair. */
bool scan_has_half(struct str raw);
/* The same string with \ufffd in place of each half; raw.len bytes. */
void scan_mend(char *out, struct str raw);

static inline bool scan_has_escape(struct str raw)
{
	return raw.len > 0 && memchr(raw.data, '\\', raw.len);
}

static inline bool scan_is_digit(int c)
{
	return c >= '0' && c <= '9';
}

/* The next byte that is not white space; it stays unread. */
static inline int scan_peek(struct scan *s)
{
	for (; s->at < s->end; s->at++)
		if (*s->at > ' ' || (*s->at != ' ' && *s->at != '\n' && *s->at != '\r' && *s->at != '\t'))
			return *s->at;
	return SCAN_END;
}

/* Reads the byte if it is next, with any white space before it. */
static inline bool scan_take(struct scan *s, int c)
{
	if (scan_peek(s) != c)
		return false;
	s->at++;
	return true;
}

/* Steps to the next item of a list or an object; *first is true before the first call. 1 when there should be an item,
 * 0 behind the closing bracket, -1 for anything else. */
static inline int scan_step(struct scan *s, int close, bool *first)
{
	int c = scan_peek(s);
	if (*first && c != close) {
		*first = false;
		return 1;
	}
	if (c != close && c != ',')
		return -1;
	s->at++;
	return c == ',';
}

#endif
