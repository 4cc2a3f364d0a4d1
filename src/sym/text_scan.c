/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sym/text_scan.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "sym/line.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/*
 * `at` is the start of a field; the memory ends at `end`, after a line feed. Fields are read eight bytes at a time: the
 * number of digits is unpredictable, so a loop over them would cost a mispredicted branch. Each function reads digits;
 * if there are none, *at does not move. The caller checks what follows them.
 */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Puts the field at `at` into the upper bytes of a word, its last digit on top and zeros below. Returns its length; 0
 * if it has no digit or does not end within eight bytes, so that it must be read digit by digit. */
static inline unsigned load_field(const uint8_t *at, const uint8_t *end, uint64_t *word)
{
	uint64_t w;
	if (end - at < 8)
		return 0;
	memcpy(&w, at, sizeof w);
	w = le64toh(w);
	/* whatever ends a field is below '0'; the check of digits also refuses bytes from 0x80 on */
	uint64_t stops = ~((w | EACH(0x80)) - EACH('0')) & EACH(0x80);
	if (!stops || stops & 0x80)
		return 0;
	unsigned n = (unsigned)__builtin_ctzll(stops) / 8;
	*word = w << (64 - 8 * n);
	return n;
}

static inline bool fast_hex(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	uint64_t w;
	unsigned n = load_field(*at, end, &w);
	if (!n)
		return line_slow_hex(at, end, value);
	uint64_t letters = w >> 6 & EACH(1), v = (w & EACH(0x0f)) + 9 * letters;
	/* a letter has low bits 1 to 6 in 0x4. or 0x6.; a digit is less than 10 */
	uint64_t bad =
	        (((v + EACH(6)) >> 4 ^ letters) & EACH(1)) | (v & EACH(0x10)) | (w & EACH(0x80)) | (letters & w >> 4);
	if (bad)
		return false;
	v = __builtin_bswap64(v);
	v = (v | v >> 4) & UINT64_C(0x00ff00ff00ff00ff);
	v = (v | v >> 8) & UINT64_C(0x0000ffff0000ffff);
	*value = (v | v >> 16) & UINT32_MAX;
	*at += n;
	return true;
}

static inline bool fast_decimal(const uint8_t **at, const uint8_t *end, uint32_t *value)
{
	uint64_t w, v = 0;
	unsigned n = load_field(*at, end, &w);
	if (!n) {
		bool read = line_slow_decimal(at, end, &v);
		*value = (uint32_t)v;
		return read && v <= UINT32_MAX;
	}
	v = w ^ EACH('0') << (64 - 8 * n);
	if ((v | (v + EACH(6))) & EACH(0xf0))
		return false;
	v = (v * 10 + (v >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
	v = (v * 100 + (v >> 16)) & UINT64_C(0x0000ffff0000ffff);
	*value = (uint32_t)(v * 10000 + (v >> 32));
	*at += n;
	return true;
}

static inline bool fast_blank(const uint8_t **at)
{
	return *(*at)++ == ' ';
}

static inline bool fast_end(const uint8_t **at)
{
	*at += **at == '\r';
	return *(*at)++ == '\n';
}

/* Reads "addr size line file" in the one form that writers use. Returns the start of the next line, or NULL: use the
 * careful reader. */
static inline const uint8_t *fast_record(
        const uint8_t *at, const uint8_t *end, uint64_t *addr, uint64_t *size, uint32_t *line, uint32_t *file)
{
	if (!fast_hex(&at, end, addr) || !fast_blank(&at) || !fast_hex(&at, end, size) || !fast_blank(&at) ||
	        !fast_decimal(&at, end, line) || !fast_blank(&at) || !fast_decimal(&at, end, file) || !fast_end(&at))
		return NULL;
	return at;
}

static uint32_t lines_plain(
        const uint8_t **at, const uint8_t *until, const uint8_t *end, struct record_line *out, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t line, file;
		const uint8_t *next =
		        *at < until ? fast_record(*at, end, &out[i].addr, &out[i].size, &line, &file) : NULL;
		if (!next)
			return i;
		out[i].line = line;
		out[i].file = file;
		*at = next;
	}
	return n;
}

static const uint8_t *inlined_plain(
        const uint8_t *at, const uint8_t *end, uint32_t out[4], uint64_t *ranges, uint32_t *count)
{
	uint32_t n = 0;
	for (unsigned i = 0; i < 4; i++)
		if (!fast_decimal(&at, end, &out[i]) || (i < 3 && !fast_blank(&at)))
			return NULL;
	do {
		if (n + 2 > *count || !fast_blank(&at) || !fast_hex(&at, end, &ranges[n]) || !fast_blank(&at) ||
		        !fast_hex(&at, end, &ranges[n + 1]))
			return NULL;
		n += 2;
	} while (*at == ' ');
	*count = n;
	return fast_end(&at) ? at : NULL;
}

static const struct symtext_scan plain = {lines_plain, inlined_plain};

#ifdef __x86_64__

#define AVX2 __attribute__((target("avx2,bmi,bmi2")))

/* Bytes read from the start of a line, or of a pair: the memory must extend that far. */
enum { REACH = 32 + 8 };

/* Bits of the bytes that may end a field: those below '0', and those above 0x7f, which are refused later. */
AVX2 static inline uint32_t find_stops(const uint8_t *at)
{
	__m256i c = _mm256_loadu_si256((const __m256i *)(const void *)at);
	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(_mm256_set1_epi8('0'), c));
}

/* A field of `len` bytes, 1 to 8, in the upper bytes of a word with zeros below. */
AVX2 static inline uint64_t field_word(const uint8_t *at, uint32_t len)
{
	uint64_t w;
	memcpy(&w, at, sizeof w);
	return w << (64 - 8 * len);
}

/*
 * Converts four fields to numbers; fields are hexadecimal where `hex` is all ones. A byte is a digit if the table
 * entries for its lower and for its upper four bits share a bit: 1 is for the zeros before a field, 2 for 0 to 9, 4 for
 * A to F in either case.
 */
AVX2 static inline bool read_fields(__m256i c, __m256i hex, __m256i *numbers)
{
	const __m256i lower = _mm256_setr_epi8(3, 6, 6, 6, 6, 6, 6, 2, 2, 2, 0, 0, 0, 0, 0, 0, /* */
	        3, 6, 6, 6, 6, 6, 6, 2, 2, 2, 0, 0, 0, 0, 0, 0);
	const __m256i upper = _mm256_setr_epi8(1, 0, 0, 2, 4, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* */
	        1, 0, 0, 2, 4, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m256i nibble = _mm256_set1_epi8(15);
	__m256i letter = _mm256_and_si256(hex, _mm256_set1_epi8(4));
	__m256i allowed = _mm256_or_si256(letter, _mm256_set1_epi8(3));
	__m256i high = _mm256_and_si256(_mm256_srli_epi16(c, 4), nibble);
	__m256i kind = _mm256_and_si256(_mm256_shuffle_epi8(lower, c), _mm256_shuffle_epi8(upper, high));
	kind = _mm256_and_si256(kind, allowed);
	__m256i bad = _mm256_cmpeq_epi8(kind, _mm256_setzero_si256());
	if (!_mm256_testz_si256(bad, bad))
		return false;
	__m256i nine = _mm256_and_si256(_mm256_cmpgt_epi8(c, _mm256_set1_epi8('9')), _mm256_set1_epi8(9));
	__m256i v = _mm256_add_epi8(_mm256_and_si256(c, nibble), nine);
	/* combine pairs of digits, then of two digits, then of four: the first times the radix, its square, its fourth
	 * power */
	v = _mm256_maddubs_epi16(
	        v, _mm256_blendv_epi8(_mm256_set1_epi16(10 | 1 << 8), _mm256_set1_epi16(16 | 1 << 8), hex));
	v = _mm256_madd_epi16(
	        v, _mm256_blendv_epi8(_mm256_set1_epi32(100 | 1 << 16), _mm256_set1_epi32(256 | 1 << 16), hex));
	__m256i fourth = _mm256_blendv_epi8(_mm256_set1_epi64x(10000), _mm256_set1_epi64x(65536), hex);
	*numbers = _mm256_add_epi64(_mm256_mul_epu32(v, fourth), _mm256_srli_epi64(v, 32));
	return true;
}

/* Reads four fields at `at`, separated by blanks; `hex` as above. Returns the offset of the byte that ends the last
 * one, or 0. */
AVX2 static inline uint32_t read_four(const uint8_t *at, __m256i hex, __m256i *numbers)
{
	uint32_t stops = find_stops(at), rest = _blsr_u32(stops), s0 = _tzcnt_u32(stops), s1 = _tzcnt_u32(rest);
	rest = _blsr_u32(rest);
	uint32_t s2 = _tzcnt_u32(rest), s3 = _tzcnt_u32(_blsr_u32(rest));
	/* lengths less one; for an empty field, or one without an end, this is at least eight */
	uint32_t n0 = s0 - 1, n1 = s1 - s0 - 2, n2 = s2 - s1 - 2, n3 = s3 - s2 - 2;
	if ((n0 | n1 | n2 | n3) > 7 || s3 > 31 || at[s0] != ' ' || at[s1] != ' ' || at[s2] != ' ')
		return 0;
	__m256i c = _mm256_setr_epi64x((int64_t)field_word(at, n0 + 1), (int64_t)field_word(at + s0 + 1, n1 + 1),
	        (int64_t)field_word(at + s1 + 1, n2 + 1), (int64_t)field_word(at + s2 + 1, n3 + 1));
	return read_fields(c, hex, numbers) ? s3 : 0;
}

AVX2 static uint32_t lines_avx2(
        const uint8_t **at, const uint8_t *until, const uint8_t *end, struct record_line *out, uint32_t n)
{
	const __m256i hex = _mm256_setr_epi64x(-1, -1, 0, 0);
	const uint8_t *p = *at;
	uint32_t i = 0;
	if (end - until < REACH)
		until = end - p < REACH ? p : end - REACH + 1;
	for (; i < n && p < until; i++) {
		__m256i numbers;
		uint32_t stop = read_four(p, hex, &numbers);
		if (!stop)
			break;
		const uint8_t *next = p + stop;
		if (!fast_end(&next))
			break;
		_mm256_storeu_si256((__m256i *)(void *)&out[i], numbers);
		p = next;
	}
	*at = p;
	return i;
}

AVX2 static const uint8_t *inlined_avx2(
        const uint8_t *at, const uint8_t *end, uint32_t out[4], uint64_t *ranges, uint32_t *count)
{
	const __m256i all = _mm256_set1_epi8(-1);
	__m256i numbers;
	uint32_t n = 0, stop = end - at >= REACH ? read_four(at, _mm256_setzero_si256(), &numbers) : 0;
	if (!stop)
		return NULL;
	/* the lower halves of the four numbers */
	numbers = _mm256_permutevar8x32_epi32(numbers, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
	_mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(numbers));
	for (at += stop; *at == ' '; n += 2) {
		if (n + 2 > *count || end - ++at < REACH)
			return NULL;
		uint32_t stops = find_stops(at), s0 = _tzcnt_u32(stops), s1 = _tzcnt_u32(_blsr_u32(stops));
		uint32_t n0 = s0 - 1, n1 = s1 - s0 - 2;
		if ((n0 | n1) > 7 || s1 > 31 || at[s0] != ' ')
			return NULL;
		__m128i c = _mm_set_epi64x((int64_t)field_word(at + s0 + 1, n1 + 1), (int64_t)field_word(at, n0 + 1));
		if (!read_fields(_mm256_zextsi128_si256(c), all, &numbers))
			return NULL;
		_mm_storeu_si128((__m128i *)(void *)&ranges[n], _mm256_castsi256_si128(numbers));
		at += s1;
	}
	*count = n;
	return n && fast_end(&at) ? at : NULL;
}

static const struct symtext_scan avx2 = {lines_avx2, inlined_avx2};

#endif

const struct symtext_scan *symtext_scan_by(unsigned which)
{
	if (!which)
		return &plain;
#ifdef __x86_64__
	__builtin_cpu_init();
	if (which == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
	        __builtin_cpu_supports("bmi2"))
		return &avx2;
#endif
	return NULL;
}

const struct symtext_scan *symtext_scan_best(void)
{
	const struct symtext_scan *best = symtext_scan_by(1);
	return best ? best : &plain;
}
