/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON piece by piece, strictly by RFC 8259, from memory that ends anywhere. */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
	SCAN_END = -1,         /* scan_peek at the end of the text */
	SCAN_DEPTH_MAX = 2048, /* deepest nesting of lists and objects in a value that is skipped */
};

/* A position in a text. The caller sets start, at and end. */
struct scan {
	const uint8_t *start, *at, *end;
	const char *fault; /* what is wrong at `at`, after a function here has returned false */
};

struct scan_number {
	struct str text; /* as written */
	uint64_t magnitude;
	bool negative;
	bool integer; /* written without fraction and exponent */
	bool huge;    /* magnitude would be 2^64 or more, and means nothing */
};

/* Reads a string; its opening quote must be next. raw is what stands between the quotes, with escapes; UTF-8 and
 * escapes have been checked. */
bool scan_string(struct scan *s, struct str *raw);
/* Reads a number; its first byte, a digit or '-', must be next. */
bool scan_number(struct scan *s, struct scan_number *n);
/* Reads a key and its colon, with white space before either. */
bool scan_key(struct scan *s, struct str *raw);
/* Skips a value of any kind, with white space before it. */
bool scan_skip(struct scan *s);
/* The same; nothing but white space may follow. */
bool scan_document(struct scan *s);

/* Decodes a raw string to at most raw.len bytes; returns their number. Half a surrogate pair becomes U+FFFD. */
size_t scan_decode(char *out, struct str raw);

/* Whether a raw string contains half a surrogate pair. */
bool scan_has_half(struct str raw);
/* Copies the string with \ufffd in place of each half: raw.len bytes. */
void scan_mend(char *out, struct str raw);

static inline bool scan_has_escape(struct str raw)
{
	return raw.len > 0 && memchr(raw.data, '\\', raw.len);
}

static inline bool scan_is_digit(int c)
{
	return c >= '0' && c <= '9';
}

/* The next byte that is not white space, without taking it. */
static inline int scan_peek(struct scan *s)
{
	for (; s->at < s->end; s->at++)
		if (*s->at > ' ' || (*s->at != ' ' && *s->at != '\n' && *s->at != '\r' && *s->at != '\t'))
			return *s->at;
	return SCAN_END;
}

/* Takes the byte if it is next after any white space. */
static inline bool scan_take(struct scan *s, int c)
{
	if (scan_peek(s) != c)
		return false;
	s->at++;
	return true;
}

/* Steps to the next item of a list or an object; *first is true before the first call. Returns 1 before an item, 0
 * after the closing bracket, -1 on anything else. */
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
