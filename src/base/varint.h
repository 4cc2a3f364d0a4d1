/* SPDX-License-Identifier: Apache-2.0 */
/* LEB128 varints, zigzag, and little-endian integers; every read is bounded. */
#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VARINT_MAX = 10 };

static inline uint8_t *varint_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

static inline uint64_t zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* A cursor over bytes. After a read past the end, or a varint of more than 64 bits, `bad` is set and reads return 0. */
struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static inline uint64_t reader_varint(struct reader *r)
{
	if (r->at < r->end && *r->at < 0x80)
		return *r->at++;
	if (r->end - r->at > 1 && r->at[1] < 0x80) {
		r->at += 2;
		return (uint64_t)(r->at[-2] & 0x7f) | (uint64_t)r->at[-1] << 7;
	}
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t b = *r->at++;
		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
	r->bad = true;
	r->at = r->end;
	return 0;
}

static inline uint16_t get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t get_u64(const uint8_t *p)
{
	return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

static inline uint8_t *put_u16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	return p + 2;
}

static inline uint8_t *put_u32(uint8_t *p, uint32_t v)
{
	return put_u16(put_u16(p, (uint16_t)v), (uint16_t)(v >> 16));
}

static inline uint8_t *put_u64(uint8_t *p, uint64_t v)
{
	return put_u32(put_u32(p, (uint32_t)v), (uint32_t)(v >> 32));
}

#endif
