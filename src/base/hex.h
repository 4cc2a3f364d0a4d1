/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as hex digits; those of GUIDs, which debug ids are written as. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stdint.h>

#include "base/str.h"

/* The value of a digit in either case; -1: not a digit. */
static inline int hex_value(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The lower-case digit of the low four bits. */
static inline char hex_digit(unsigned value)
{
	return "0123456789abcdef"[value & 15];
}

/* Lower-case digits, NUL-terminated: out has room for 2 * len + 1 characters. */
static inline void hex_write(char *out, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		*out++ = hex_digit(data[i] >> 4);
		*out++ = hex_digit(data[i]);
	}
	*out = 0;
}

/* Whether it has nothing but digits, of either case. */
static inline bool hex_only(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (hex_value(text.data[i]) < 0)
			return false;
	return true;
}

/* Reads exactly len bytes, in digits of either case. */
static inline bool hex_read(uint8_t *out, size_t len, struct str text)
{
	if (text.len != 2 * len || !hex_only(text))
		return false;
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(hex_value(text.data[2 * i]) << 4 | hex_value(text.data[2 * i + 1]));
	return true;
}

/* 1 to 16 digits of either case. */
static inline bool hex_read_number(struct str text, uint64_t *value)
{
	*value = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (hex_value(text.data[i]) < 0)
			return false;
		*value = *value << 4 | (unsigned)hex_value(text.data[i]);
	}
	return text.len > 0 && text.len <= 16;
}

enum { GUID_BYTES = 16 };

/* Which byte in memory each pair of hex digits of the text is, where numbers are little-endian: the first three fields
 * of a GUID are numbers. The order is its own inverse. */
static const uint8_t guid_order[GUID_BYTES] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

#endif
