/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON piece by piece, strictly by RFC 8259, from memory that ends anywhere. */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/yield.h"

enum {
	SCAN_END = -1,              /* scan_peek at the end of the text */
	SCAN_DEPTH_MAX = 2048,      /* deepest nesting of lists and objects in a value that is skipped */
	SCAN_UNYIELDING = 64 << 10, /* bytes between calls of yield, at least */
	SCAN_FEW = 16,              /* as much white space is usual */
};

/* A position in a text. The caller sets start, at and end, and yield, which may be NULL: it is called now and then. */
struct scan {
	const uint8_t *start, *at, *end;
	const struct yield *yield;
	const uint8_t *yielded; /* where it was called last; NULL: not yet */
	const char *fault;      /* what is wrong at `at`, after a function here has returned false */
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

/* Takes a number that is written as 1 to `most` digits, at most 18, as nearly all are; false: nothing is taken. */
static inline bool scan_plain(struct scan *s, int most, uint64_t *value)
{
	const uint8_t *p = s->at, *end = s->end - p > most ? p + most + 1 : s->end;
	uint64_t v = 0;
	for (; p < end && scan_is_digit(*p); p++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (p == s->at || p == end || *p == '.' || (*p | 0x20) == 'e' || (*s->at == '0' && p - s->at > 1))
		return false;
	s->at = p;
	*value = v;
	return true;
}

/* Calls yield if enough has been read since. */
static inline void scan_yield(struct scan *s)
{
	if (s->at - (s->yielded ? s->yielded : s->start) < SCAN_UNYIELDING)
		return;
	s->yielded = s->at;
	yield_now(s->yield);
}

static inline bool scan_is_blank(uint8_t c)
{
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t');
}

/* The same as scan_peek for much white space. */
int scan_peek_far(struct scan *s);

/* The next byte that is not white space, without taking it. */
static inline int scan_peek(struct scan *s)
{
	for (unsigned i = 0; i < SCAN_FEW && s->at < s->end; i++, s->at++)
		if (!scan_is_blank(*s->at))
			return *s->at;
	return scan_peek_far(s);
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
	scan_yield(s);
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
