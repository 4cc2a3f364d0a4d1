/* SPDX-License-Identifier: Apache-2.0 */
/* A byte buffer that grows up to a cap given when it is made. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buffer {
	uint8_t *data;
	size_t len, cap, max;
	bool failed; /* an append was refused: above max, or no memory; later appends do nothing */
};

/* An empty buffer of at most max bytes; allocates nothing. */
void buffer_init(struct buffer *b, size_t max);
/* Frees the contents; the buffer is empty again, with the same cap. */
void buffer_release(struct buffer *b);
/* Forgets the contents and keeps the memory. */
void buffer_reset(struct buffer *b);
/* Room for n more bytes at b->data + b->len; false (and failed set) when there is none. */
bool buffer_reserve(struct buffer *b, size_t n);
bool buffer_append(struct buffer *b, const void *data, size_t n);
bool buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends s as a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD each. */
bool buffer_append_json(struct buffer *b, struct str s);

/* A text of its own, which the caller frees. NULL if out of memory. */
char *text_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline bool buffer_append_str(struct buffer *b, struct str s)
{
	return buffer_append(b, s.data, s.len);
}

#endif
