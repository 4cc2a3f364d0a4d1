/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "format/breakpad_scan.h"

#include <stdbool.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* No comparison looks behind a line feed, and one ends the memory. */
static bool is_inline_record(const uint8_t *at)
{
	static const char word[] = "INLINE ";
	for (unsigned i = 0; word[i]; i++)
		if (at[i] != (uint8_t)word[i])
			return false;
	return true;
}

/* Any line may start with blanks; those with other bytes that are no letters cost a closer look only. */
static bool may_matter(const uint8_t *at)
{
	return *at <= ' ' || *at == 'F' || *at == 'P' || (*at == 'I' && !is_inline_record(at));
}

#ifdef __SSE2__

/* Bit i: at[i] starts a line that is worth a look. Reads at[-1] to at[15]. */
static inline uint64_t line_starts(const uint8_t *at)
{
	__m128i c = _mm_loadu_si128((const __m128i *)(const void *)at);
	__m128i before = _mm_loadu_si128((const __m128i *)(const void *)(at - 1));
	__m128i blank = _mm_cmpeq_epi8(_mm_min_epu8(c, _mm_set1_epi8(' ')), c);
	__m128i f = _mm_cmpeq_epi8(c, _mm_set1_epi8('F')), p = _mm_cmpeq_epi8(c, _mm_set1_epi8('P'));
	__m128i i = _mm_cmpeq_epi8(c, _mm_set1_epi8('I'));
	__m128i any = _mm_or_si128(_mm_or_si128(blank, f), _mm_or_si128(p, i));
	__m128i both = _mm_and_si128(any, _mm_cmpeq_epi8(before, _mm_set1_epi8('\n')));
	return (uint64_t)(unsigned)_mm_movemask_epi8(both);
}

/* Goes on from *at, in steps of 64 bytes. Leaves *at at most 64 bytes before the end when nothing was found: NULL. */
static const uint8_t *scan_blocks(const uint8_t **at, const uint8_t *end)
{
	for (; end - *at >= 64; *at += 64) {
		uint64_t found = line_starts(*at) | line_starts(*at + 16) << 16 | line_starts(*at + 32) << 32 |
		                 line_starts(*at + 48) << 48;
		for (; found; found &= found - 1) {
			const uint8_t *line = *at + __builtin_ctzll(found);
			if (may_matter(line))
				return line;
		}
	}
	return NULL;
}

#else

static const uint8_t *scan_blocks(const uint8_t **at, const uint8_t *end)
{
	(void)at;
	(void)end;
	return NULL;
}

#endif

const uint8_t *keyword_line(const uint8_t *at, const uint8_t *end)
{
	if (at == end || may_matter(at))
		return at;
	at++; /* so that there is a byte before it */
	const uint8_t *found = scan_blocks(&at, end);
	if (found)
		return found;
	at--;
	while ((at = memchr(at, '\n', (size_t)(end - at))) && ++at < end)
		if (may_matter(at))
			return at;
	return end;
}
