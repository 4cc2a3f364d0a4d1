/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

enum { FIRST_SIZE = 256 };

void buffer_init(struct buffer *b, size_t max)
{
	*b = (struct buffer){.max = max};
}

void buffer_release(struct buffer *b)
{
	free(b->data);
	buffer_init(b, b->max);
}

void buffer_reset(struct buffer *b)
{
	b->len = 0;
	b->failed = false;
}

/* At least doubles, so that appending costs a constant time a byte. */
static size_t grown(const struct buffer *b, size_t need)
{
	size_t cap = b->cap ? b->cap : FIRST_SIZE / 2;
	cap = cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;
	if (cap < need)
		cap = need;
	return cap < b->max ? cap : b->max;
}

bool buffer_reserve(struct buffer *b, size_t n)
{
	if (b->failed)
		return false;
	if (n <= b->cap - b->len)
		return true;
	b->failed = true;
	if (n > b->max - b->len || b->len + n == SIZE_MAX)
		return false;
	size_t cap = grown(b, b->len + n);
	/* One byte more than cap: the NUL of vsnprintf always has a place. */
	uint8_t *data = realloc(b->data, cap + 1);
	if (!data)
		return false;
	b->data = data;
	b->cap = cap;
	b->failed = false;
	return true;
}

bool buffer_append(struct buffer *b, const void *data, size_t n)
{
	if (!buffer_reserve(b, n))
		return false;
	if (n)
		memcpy(b->data + b->len, data, n);
	b->len += n;
	return true;
}

bool buffer_printf(struct buffer *b, const char *format, ...)
{
	va_list args, again;
	int n = -1;
	va_start(args, format);
	va_copy(again, args);
	/* Try with room for a short text first: most are short, and need only one pass. */
	if (b->cap - b->len < 64 && b->max - b->len >= 64)
		buffer_reserve(b, 64);
	size_t room = b->data ? b->cap - b->len + 1 : 0;
	if (!b->failed)
		n = vsnprintf(room ? (char *)b->data + b->len : NULL, room, format, args);
	if (n > 0 && (size_t)n >= room) {
		if (buffer_reserve(b, (size_t)n))
			vsnprintf((char *)b->data + b->len, (size_t)n + 1, format, again);
		else
			n = -1;
	}
	va_end(again);
	va_end(args);
	if (n < 0) {
		b->failed = true;
		return false;
	}
	b->len += (size_t)n;
	return true;
}

bool buffer_append_json(struct buffer *b, struct str s)
{
	const uint8_t *p = (const uint8_t *)s.data;
	if (b->failed)
		return false;
	/* The exact length is computed only when the largest possible one does not fit. */
	if ((b->cap - b->len < 2 || s.len > (b->cap - b->len - 2) / 6) &&
	        !buffer_reserve(b, json_escaped_length(p, s.len) + 2))
		return false;
	uint8_t *out = b->data + b->len;
	*out++ = '"';
	out += json_escape(out, p, s.len);
	*out++ = '"';
	b->len = (size_t)(out - b->data);
	return true;
}

char *text_printf(const char *format, ...)
{
	char *text;
	va_list args;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	return len < 0 ? NULL : text;
}
