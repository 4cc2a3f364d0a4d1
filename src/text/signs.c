/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/signs.h"

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const uint8_t sign_of[256] = {['+'] = SIGN_PLUS,
        ['{'] = SIGN_BRACE,
        ['|'] = SIGN_BRACE,
        ['}'] = SIGN_BRACE,
        ['~'] = SIGN_BRACE,
        [0x7f] = SIGN_BRACE,
        ['"'] = SIGN_QUOTE,
        ['#'] = SIGN_QUOTE,
        ['('] = SIGN_PAREN};

const char *text_scan_line_plain(const char *from, const char *end, unsigned *signs)
{
	unsigned seen = 0, before = '\n';
	for (; from < end && *from != '\n'; from++) {
		unsigned c = (unsigned char)*from;
		seen |= sign_of[c];
		if (c == 'x' && before == '0')
			seen |= SIGN_HEX;
		if (c == '-' && before == 'd')
			seen |= SIGN_BUILD;
		if (c == ' ' && before == 'p')
			seen |= SIGN_MAP;
		before = c;
	}
	*signs = seen;
	return from;
}

#ifdef __SSE2__
static __m128i are(__m128i bytes, char c)
{
	return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}

static unsigned any(__m128i found, unsigned sign)
{
	return _mm_movemask_epi8(found) ? sign : 0;
}
#endif

const char *text_scan_line(const char *from, const char *end, unsigned *signs)
{
	unsigned head = 0;
#ifdef __SSE2__
	__m128i plus = _mm_setzero_si128(), brace = plus, quote = plus, paren = plus, hex = plus, build = plus,
	        map = plus;
	static const uint8_t before[32] = {
	        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
	int line_feeds = 0;
	for (; end - from > 16 && !line_feeds; from += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from),
		        next = _mm_loadu_si128((const __m128i *)(const void *)(from + 1));
		line_feeds = _mm_movemask_epi8(are(bytes, '\n'));
		if (line_feeds) /* what comes behind has no sign */
			bytes = _mm_and_si128(bytes,
			        _mm_loadu_si128((const __m128i *)(const void *)(before + 16 -
			                                                        __builtin_ctz((unsigned)line_feeds))));
		plus = _mm_or_si128(plus, are(bytes, '+'));
		brace = _mm_or_si128(brace, _mm_cmpgt_epi8(bytes, _mm_set1_epi8('z')));
		quote = _mm_or_si128(quote, are(_mm_or_si128(bytes, _mm_set1_epi8(1)), '#'));
		paren = _mm_or_si128(paren, are(bytes, '('));
		hex = _mm_or_si128(hex, _mm_and_si128(are(bytes, '0'), are(next, 'x')));
		build = _mm_or_si128(build, _mm_and_si128(are(bytes, 'd'), are(next, '-')));
		map = _mm_or_si128(map, _mm_and_si128(are(bytes, 'p'), are(next, ' ')));
	}
	*signs = head = any(plus, SIGN_PLUS) | any(brace, SIGN_BRACE) | any(quote, SIGN_QUOTE) |
	                any(paren, SIGN_PAREN) | any(hex, SIGN_HEX) | any(build, SIGN_BUILD) | any(map, SIGN_MAP);
	if (line_feeds)
		return from - 16 + __builtin_ctz((unsigned)line_feeds);
#endif
	from = text_scan_line_plain(from, end, signs);
	*signs |= head;
	return from;
}
