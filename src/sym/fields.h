/* SPDX-License-Identifier: Apache-2.0 */
/* Fast readers for the fields of line and INLINE records. `at` is the start of a field; the memory ends at `end`, after
 * a line feed. Fields are read eight bytes at a time: the number of digits is unpredictable, so a loop over them would
 * cost a mispredicted branch. Each function reads digits; if there are none, *at does not move. The caller checks what
 * follows them. */
#ifndef SYM_FIELDS_H
#define SYM_FIELDS_H

#include <endian.h>
#include <string.h>

#include "sym/line.h"

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

#endif
