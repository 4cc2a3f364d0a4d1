/* SPDX-License-Identifier: Apache-2.0 */
/* A stretch of bytes that somebody else owns. Never assumed to end in NUL. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
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

/* Below 0: a comes first; by bytes, the beginning of another before it. */
static inline int str_order(struct str a, struct str b)
{
	int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
	return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Whether it is made of ASCII letters, digits and these marks, and not empty. */
static inline bool str_is_word(struct str s, const char *marks)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.data[i], letter = (char)(c | 0x20);
		if (!(letter >= 'a' && letter <= 'z') && !(c >= '0' && c <= '9') && (!c || !strchr(marks, c)))
			return false;
	}
	return s.len > 0;
}

/* Writes it, in upper case (ASCII), to `upper`, which has room for as many bytes. False: it is already. */
static inline bool str_upper(char *upper, struct str s)
{
	bool differs = false;
	for (size_t i = 0; i < s.len; i++) {
		bool lower = s.data[i] >= 'a' && s.data[i] <= 'z';
		upper[i] = (char)(lower ? s.data[i] - 'a' + 'A' : s.data[i]);
		differs = differs || lower;
	}
	return differs;
}

/* Reads a decimal number of at most 19 digits, without leading zeros. */
static inline bool str_number(struct str s, uint64_t max, uint64_t *value)
{
	*value = 0;
	for (size_t i = 0; i < s.len; i++) {
		if (s.data[i] < '0' || s.data[i] > '9' || i == 19)
			return false;
		*value = 10 * *value + (uint64_t)(s.data[i] - '0');
	}
	return s.len > 0 && (s.data[0] != '0' || s.len == 1) && *value <= max;
}

/* A copy that ends in NUL, which the caller frees; NULL if out of memory. Not strndup: AddressSanitizer takes that to
 * read one byte more. */
static inline char *str_dup(struct str s)
{
	char *copy = malloc(s.len + 1);
	if (copy) {
		memcpy(copy, s.data, s.len);
		copy[s.len] = 0;
	}
	return copy;
}

/* At most the first bytes of it. */
static inline struct str str_first(struct str s, size_t max)
{
	return s.len <= max ? s : (struct str){s.data, max};
}

/* The part of *rest before the separator, or all of it; *rest becomes what follows. */
static inline struct str str_cut(struct str *rest, char separator)
{
	const char *end = rest->len ? memchr(rest->data, separator, rest->len) : NULL;
	struct str part = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
	size_t skip = part.len + (end != NULL);
	rest->data += skip;
	rest->len -= skip;
	return part;
}

/* Of ASCII, and nothing that moves a cursor. */
static inline bool str_is_printable(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.data[i] < ' ' || s.data[i] > '~')
			return false;
	return true;
}

/* Without blanks around it. */
static inline struct str trimmed(struct str s)
{
	while (s.len && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = (struct str){s.data + 1, s.len - 1};
	while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* Without blanks and line ends around it; those after it are overwritten. */
static inline char *trimmed_line(char *text)
{
	static const char blanks[] = " \t\r\n";
	text += strspn(text, blanks);
	size_t len = strlen(text);
	while (len && strchr(blanks, text[len - 1]))
		text[--len] = 0;
	return text;
}

#endif
