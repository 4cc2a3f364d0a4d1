/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/utf8.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/hex.h"

/* The short escapes of JSON for control characters; 0: \u00XX. */
static const char short_escape[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};

static int continues(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

unsigned utf8_sequence(const uint8_t *p, size_t n)
{
	if (p[0] < 0x80)
		return 1;
	if (n < 2 || !continues(p[1]) || p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	if (p[0] < 0xe0)
		return 2;
	/* The second byte rules out over-long forms, surrogates and what is above U+10FFFF. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	        (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	if (n < 3 || !continues(p[2]))
		return 0;
	if (p[0] < 0xf0)
		return 3;
	return n < 4 || !continues(p[3]) ? 0 : 4;
}

/* Needs no escape and is ASCII. */
static int is_plain(uint8_t c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* How many of the eight bytes at p are plain before the first special one; big-endian hosts return 0 for some, which is
 * only slower. */
static unsigned plain_in_word(const uint8_t *p)
{
	const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
	uint64_t w;
	memcpy(&w, p, sizeof w);
	uint64_t quote = w ^ ones * '"', backslash = w ^ ones * '\\';
	/* A byte's top bit is set if the byte is below 0x20, '"', '\' or above 0x7f; a borrow can corrupt only bytes
	 * above such a one. */
	uint64_t special = ((w - ones * 0x20) | (quote - ones) | (backslash - ones) | w) & tops;
	if (!special)
		return 8;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (unsigned)__builtin_ctzll(special) / 8;
#else
	return 0;
#endif
}

#ifdef __SSE2__
/* One bit for each of the 16 bytes at p that is not plain. */
static unsigned special_in_16(const uint8_t *p)
{
	__m128i v = _mm_loadu_si128((const __m128i *)p);
	__m128i low =
	        _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)); /* signed comparison: bytes from 0x80 up are below it, too */
	__m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
	__m128i backslash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
	return (unsigned)_mm_movemask_epi8(_mm_or_si128(low, _mm_or_si128(quote, backslash)));
}
#endif

/* The number of plain bytes that p starts with. */
static size_t plain_run(const uint8_t *p, size_t n)
{
	size_t i = 0;
#ifdef __SSE2__
	for (; n - i >= 16; i += 16) {
		unsigned special = special_in_16(p + i);
		if (special)
			return i + (unsigned)__builtin_ctz(special);
	}
#endif
	for (; n - i >= 8; i += 8) {
		unsigned plain = plain_in_word(p + i);
		if (plain < 8) {
			i += plain;
			break;
		}
	}
	while (i < n && is_plain(p[i]))
		i++;
	return i;
}

/* Escapes the byte or sequence at p, which is not plain. Returns the length written; *used is how many bytes of p it
 * consumed. */
static unsigned escape_one(uint8_t out[6], const uint8_t *p, size_t n, unsigned *used)
{
	*used = 1;
	if (p[0] >= 0x80) {
		unsigned len = utf8_sequence(p, n);
		*used = len ? len : 1;
		memcpy(out, len ? p : (const uint8_t *)"\xef\xbf\xbd", len ? len : 3);
		return len ? len : 3;
	}
	out[0] = '\\';
	out[1] = p[0] < 0x20 ? (uint8_t)short_escape[p[0]] : p[0];
	if (out[1])
		return 2;
	memcpy(out + 1, "u00", 3);
	out[4] = (uint8_t)hex_digit(p[0] >> 4);
	out[5] = (uint8_t)hex_digit(p[0]);
	return 6;
}

size_t json_escaped_length(const uint8_t *p, size_t n)
{
	size_t len = 0;
	for (size_t i = 0; i < n;) {
		uint8_t out[6];
		unsigned used;
		size_t run = plain_run(p + i, n - i);
		len += run;
		i += run;
		if (i == n)
			break;
		len += escape_one(out, p + i, n - i, &used);
		i += used;
	}
	return len;
}

size_t json_escape(uint8_t *out, const uint8_t *p, size_t n)
{
	uint8_t *start = out;
	for (size_t i = 0; i < n;) {
		unsigned used;
		size_t run = plain_run(p + i, n - i);
		memcpy(out, p + i, run);
		out += run;
		i += run;
		if (i == n)
			break;
		out += escape_one(out, p + i, n - i, &used);
		i += used;
	}
	return (size_t)(out - start);
}
