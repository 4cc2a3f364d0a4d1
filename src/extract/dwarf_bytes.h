/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded reading of DWARF's integers, in either byte order. */
#ifndef EXTRACT_DWARF_BYTES_H
#define EXTRACT_DWARF_BYTES_H

#include "base/str.h"
#include "base/varint.h"

/* n bytes (1, 2, 3, 4 or 8). */
static inline uint64_t read_fixed(struct reader *r, unsigned n, bool big)
{
	if ((size_t)(r->end - r->at) < n) {
		r->bad = true;
		r->at = r->end;
		return 0;
	}
	uint64_t v = 0;
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)r->at[i] << 8 * (big ? n - 1 - i : i);
	r->at += n;
	return v;
}

static inline int64_t read_sleb(struct reader *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0; r->at < r->end && shift < 64; shift += 7) {
		uint8_t b = *r->at++;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return (int64_t)(b & 0x40 && shift < 57 ? v | ~0ULL << (shift + 7) : v);
	}
	r->bad = true;
	r->at = r->end;
	return 0;
}

static inline void read_skip(struct reader *r, uint64_t n)
{
	if ((uint64_t)(r->end - r->at) < n) {
		r->bad = true;
		r->at = r->end;
	} else {
		r->at += n;
	}
}

/* From an offset on; it is bad if that is behind the end. */
static inline struct reader reader_at(struct str s, uint64_t offset)
{
	const uint8_t *start = (const uint8_t *)(s.data ? s.data : "");
	struct reader r = {.at = start, .end = start + s.len};
	read_skip(&r, offset);
	return r;
}

enum { TEXT_AT_MAX = 4096 };

/* The text at an offset, at most its first bytes; empty when there is none. */
static inline struct str text_at(struct str s, uint64_t offset)
{
	if (offset >= s.len)
		return (struct str){"", 0};
	s = str_first((struct str){s.data + offset, s.len - (size_t)offset}, TEXT_AT_MAX);
	return (struct str){s.data, strnlen(s.data, s.len)};
}

/* Up to a NUL, which is skipped. */
static inline struct str read_text(struct reader *r)
{
	const uint8_t *start = r->at;
	const uint8_t *nul = start < r->end ? memchr(start, 0, (size_t)(r->end - start)) : NULL;
	if (!nul) {
		r->bad = true;
		r->at = r->end;
		return (struct str){"", 0};
	}
	r->at = nul + 1;
	return (struct str){(const char *)start, (size_t)(nul - start)};
}

#endif
