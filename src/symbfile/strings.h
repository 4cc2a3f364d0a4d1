/* SPDX-License-Identifier: Apache-2.0 */
/* The distinct strings of the records that a symbfile writer holds, and which of them go into its string table. */
#ifndef SYMBFILE_STRINGS_H
#define SYMBFILE_STRINGS_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/map64.h"

enum {
	TABLE_MAX = (16 << 20) - (64 << 10), /* bytes; every string table is smaller */
	INLINE_MAX = 64 << 10,               /* longer strings are never written in a range itself */
};

struct symbfile_string {
	uint32_t at, len; /* in texts */
	uint32_t number;  /* in the string table, once that exists */
	bool used, shared;
};

struct symbfile_strings {
	struct buffer texts;
	struct symbfile_string *items;
	struct map64 by_hash; /* index into items + 1; strings with equal hashes have consecutive keys */
	size_t count;
	uint32_t cap;
	size_t table_len; /* bytes of a table of all strings */
};

void symbfile_strings_init(struct symbfile_strings *s);
void symbfile_strings_release(struct symbfile_strings *s);
/* Forgets the strings. */
void symbfile_strings_reset(struct symbfile_strings *s);
/* Keeps a string, and sets its index. ERR_TOO_LARGE: a table of all strings would reach TABLE_MAX; ERR_NO_MEMORY. */
enum err symbfile_strings_add(struct symbfile_strings *s, struct str text, uint32_t *index);
/* Counts a use. A string is shared from its second use, or from the first that needs the table. */
void symbfile_strings_use(struct symbfile_strings *s, uint32_t index, bool needs_table);
/* Numbers the shared strings in the order in which they were added. Returns their number. */
uint32_t symbfile_strings_number(struct symbfile_strings *s);

static inline struct str symbfile_strings_text(const struct symbfile_strings *s, const struct symbfile_string *string)
{
	return (struct str){(const char *)s->texts.data + string->at, string->len};
}

#endif
