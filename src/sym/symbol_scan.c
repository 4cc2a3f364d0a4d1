/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sym/symbol_scan.h"

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Any line may start with blanks; NUL and CR count as blanks here. No comparison looks past a line feed, and the memory
 * ends with one. */
static inline bool may_matter(const uint8_t *at)
{
	switch (*at) {
	case 'F':
		return at[1] == 'U' || at[1] == 'I';
	case 'P':
		return at[1] == 'U';
	case 'S':
		return at[1] == 'T';
	case 'I': /* not INLINE and a blank */
		return at[1] == 'N' && (at[2] != 'L' || at[3] != 'I' || at[4] != 'N' || at[5] != 'E' || at[6] != ' ');
	default:
		return *at <= ' ';
	}
}

static const uint8_t *scan_lines(const uint8_t *at, const uint8_t *end)
{
	while (at < end && !may_matter(at))
		at = (const uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1;
	return at;
}

#ifdef __x86_64__

/* Bit i: at[i] starts a line that must be read. Reads at[-1] to at[31]. Finds keyword letters by a table: the lower
 * four bits of a byte give the one letter that it may be. */
__attribute__((target("avx2"))) static inline uint64_t starts_32(const uint8_t *at)
{
	const __m256i letters = _mm256_setr_epi8('P', -1, -1, 'S', -1, -1, 'F', -1, -1, 'I', -1, -1, -1, -1, -1, -1,
	        'P', -1, -1, 'S', -1, -1, 'F', -1, -1, 'I', -1, -1, -1, -1, -1, -1);
	__m256i c = _mm256_loadu_si256((const __m256i *)(const void *)at);
	__m256i before = _mm256_loadu_si256((const __m256i *)(const void *)(at - 1));
	__m256i blank = _mm256_cmpeq_epi8(_mm256_min_epu8(c, _mm256_set1_epi8(' ')), c);
	__m256i letter = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(letters, c), c);
	__m256i feed = _mm256_cmpeq_epi8(before, _mm256_set1_epi8('\n'));
	return (uint32_t)_mm256_movemask_epi8(_mm256_and_si256(_mm256_or_si256(blank, letter), feed));
}

__attribute__((target("avx2"))) static const uint8_t *scan_avx2(const uint8_t *at, const uint8_t *end)
{
	if (at == end || may_matter(at))
		return at;
	for (at++; end - at >= 64; at += 64) {
		uint64_t found = starts_32(at) | starts_32(at + 32) << 32;
		for (; found; found &= found - 1)
			if (may_matter(at + __builtin_ctzll(found)))
				return at + __builtin_ctzll(found);
	}
	const uint8_t *feed = memchr(at - 1, '\n', (size_t)(end - at) + 1);
	return scan_lines(feed + 1, end);
}

#endif

symbol_scan *symbol_scan_by(unsigned which)
{
	if (!which)
		return scan_lines;
#ifdef __x86_64__
	__builtin_cpu_init();
	if (which == 1 && __builtin_cpu_supports("avx2"))
		return scan_avx2;
#endif
	return NULL;
}

symbol_scan *symbol_scan_best(void)
{
	symbol_scan *best = scan_lines;
	for (unsigned i = 0; i < SYMBOL_SCANS; i++)
		if (symbol_scan_by(i))
			best = symbol_scan_by(i);
	return best;
}
