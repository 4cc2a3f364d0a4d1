/* SPDX-License-Identifier: Apache-2.0 */
/* Text written piece by piece to memory that has room for it, without printf, which takes a thousand instructions for a
 * number. Each function returns the end of what it wrote. */
#ifndef BASE_PUT_H
#define BASE_PUT_H

#include <stdint.h>
#include <string.h>

#include "base/hex.h"

static inline uint8_t *put_text(uint8_t *at, const void *text, size_t len)
{
	memcpy(at, text, len);
	return at + len;
}
#define PUT(at, literal) put_text((at), (literal), sizeof(literal) - 1)

static inline unsigned decimal_digits(uint64_t v)
{
	unsigned n = 1;
	for (; v >= 10000; v /= 10000)
		n += 4;
	return n + (v >= 10) + (v >= 100) + (v >= 1000);
}

/* At most 20 bytes. */
static inline uint8_t *put_decimal(uint8_t *at, uint64_t v)
{
	static const char pairs[] =
	        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
	        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
	unsigned n = decimal_digits(v), i = n;
	for (; i > 1; i -= 2, v /= 100)
		memcpy(at + i - 2, pairs + v % 100 * 2, 2);
	if (i)
		*at = (uint8_t)('0' + v);
	return at + n;
}

static inline unsigned hex_digits(uint64_t v)
{
	return v ? (67 - (unsigned)__builtin_clzll(v)) / 4 : 1;
}

/* Without 0x: at most 16 bytes. */
static inline uint8_t *put_hex(uint8_t *at, uint64_t v)
{
	for (int shift = 4 * (int)hex_digits(v) - 4; shift >= 0; shift -= 4)
		*at++ = (uint8_t)hex_digit((unsigned)(v >> shift));
	return at;
}

#endif
