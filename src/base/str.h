/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of bytes that somebody else owns. Never assumed to end in NUL. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
	const char *data;
	size_t len;
};

/* For "%.*s". */
#define STR_FMT(s) (int)(s).len, (s).data

static inline struct str str_from(const char *text)
{
	return (struct str){text, strlen(text)};
}

static inline bool str_equal(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#endif
