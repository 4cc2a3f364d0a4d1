/* SPDX-License-Identifier: Apache-2.0 */
/* Small steps over a line of text. */
#ifndef TEXT_SCAN_H
#define TEXT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hex.h"
#include "base/str.h"

/* What is left of a line. */
struct rest {
	const char *at, *end;
};

/* Characters of one quarter of all 256, as a set of bits. */
#define TEXT_RANGE(from, to) ((UINT64_C(2) << ((to)&63)) - (UINT64_C(1) << ((from)&63)))

static inline int peek(const struct rest *r)
{
	return r->at < r->end ? (unsigned char)*r->at : -1;
}

static inline bool is_blank(int c)
{
	return c == ' ' || c == '\t';
}

static inline bool is_letter(int c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static inline bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

/* Passes blanks; false: there were none. */
static inline bool blanks(struct rest *r)
{
	const char *from = r->at;
	while (is_blank(peek(r)))
		r->at++;
	return r->at > from;
}

static inline bool take_literal(struct rest *r, const char *word)
{
	size_t n = strlen(word);
	if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
		return false;
	r->at += n;
	return true;
}

/* 1 to 16 hex digits, and no further one. */
static inline bool take_hex(struct rest *r, uint64_t *v)
{
	const char *from = r->at;
	*v = 0;
	for (int d; r->at - from < 17 && (d = hex_value(peek(r))) >= 0; r->at++)
		*v = *v << 4 | (unsigned)d;
	return r->at > from && r->at - from < 17;
}

static inline bool take_0x(struct rest *r, uint64_t *v)
{
	return take_literal(r, "0x") && take_hex(r, v);
}

/* 1 to 18 decimal digits, and no further one. */
static inline bool take_decimal(struct rest *r, uint64_t *v)
{
	const char *from = r->at;
	*v = 0;
	for (; r->at - from < 19 && is_digit(peek(r)); r->at++)
		*v = *v * 10 + (uint64_t)(*r->at - '0');
	return r->at > from && r->at - from < 19;
}

/* Passes "\033[1;31m". */
static inline void take_colours(struct rest *r)
{
	const char *from = r->at;
	if (!take_literal(r, "\033["))
		return;
	while (is_digit(peek(r)) || peek(r) == ';')
		r->at++;
	if (!take_literal(r, "m"))
		r->at = from;
}

#define NOTHING ((struct str){"", 0})

static inline struct str between(const char *from, const char *to)
{
	return (struct str){from, (size_t)(to - from)};
}

/* As many hex digits as there are. */
static inline struct str take_hex_digits(struct rest *r)
{
	const char *from = r->at;
	while (hex_value(peek(r)) >= 0)
		r->at++;
	return between(from, r->at);
}

/* What stands up to the next blank, behind blanks. */
static inline struct str take_word(struct rest *r)
{
	blanks(r);
	const char *from = r->at;
	while (r->at < r->end && !is_blank(*r->at))
		r->at++;
	return between(from, r->at);
}

/* "[0x55d9f3f4a1b2]" at the end, which is cut off. */
static inline bool cut_address(struct rest *r, uint64_t *address)
{
	const char *open = r->at < r->end ? memrchr(r->at, '[', (size_t)(r->end - r->at)) : NULL;
	struct rest hex = {open ? open + 1 : r->end, r->end};
	if (!take_0x(&hex, address) || !take_literal(&hex, "]") || hex.at != hex.end)
		return false;
	r->end = open;
	return true;
}

static inline bool ends_with(struct str s, const char *tail)
{
	size_t n = strlen(tail);
	return s.len >= n && memcmp(s.data + s.len - n, tail, n) == 0;
}

/* The last c of [from, to); NULL: there is none. */
static inline const char *find_last(const char *from, const char *to, int c)
{
	return from < to ? memrchr(from, c, (size_t)(to - from)) : NULL;
}

/* Where the word begins; NULL: it is not there. On lines this is faster than memmem, which first makes a table. */
static inline const char *find_word(const char *from, const char *to, const char *word)
{
	size_t len = strlen(word);
	for (; from < to && (size_t)(to - from) >= len; from++) {
		from = memchr(from, *word, (size_t)(to - from) - len + 1);
		if (!from || memcmp(from, word, len) == 0)
			return from;
	}
	return NULL;
}

static inline bool is_one_of(struct str name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (str_equal(name, str_from(names[i])))
			return true;
	return false;
}

/* Where the next 0x stands; NULL: nowhere. x is rarer in logs than 0. */
static inline const char *find_0x(const char *from, const char *to)
{
	while (to - from > 1 && (from = memchr(from + 1, 'x', (size_t)(to - from - 1))))
		if (from[-1] == '0')
			return from - 1;
	return NULL;
}

#endif
