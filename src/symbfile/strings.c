/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/strings.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/varint.h"

void symbfile_strings_init(struct symbfile_strings *s)
{
	*s = (struct symbfile_strings){0};
	buffer_init(&s->texts, TABLE_MAX);
}

void symbfile_strings_release(struct symbfile_strings *s)
{
	buffer_release(&s->texts);
	free(s->items);
	map64_release(&s->by_hash);
	symbfile_strings_init(s);
}

void symbfile_strings_reset(struct symbfile_strings *s)
{
	buffer_reset(&s->texts);
	s->count = s->table_len = 0;
	map64_reset(&s->by_hash);
}

/* Bytes of a string in the table: tag, length, text. */
static size_t field_len(size_t len)
{
	uint8_t scratch[VARINT_MAX];
	return 1 + (size_t)(varint_put(scratch, len) - scratch) + len;
}

enum err symbfile_strings_add(struct symbfile_strings *s, struct str text, uint32_t *index)
{
	uint64_t at, key = checksum(text.data, text.len, "", 0);
	for (; (at = map64_get(&s->by_hash, key)); key++)
		if (str_equal(symbfile_strings_text(s, &s->items[at - 1]), text)) {
			*index = (uint32_t)at - 1;
			return ERR_OK;
		}
	if (text.len >= TABLE_MAX || s->table_len + field_len(text.len) >= TABLE_MAX)
		return ERR_TOO_LARGE;
	if (!array_reserve(&s->items, &s->cap, s->count + 1, sizeof *s->items))
		return ERR_NO_MEMORY;
	s->items[s->count] = (struct symbfile_string){.at = (uint32_t)s->texts.len, .len = (uint32_t)text.len};
	/* Reserve at least one byte, so that texts.data exists for an empty string too. */
	if (!buffer_reserve(&s->texts, text.len + 1) || !buffer_append_str(&s->texts, text) ||
	        !map64_put(&s->by_hash, key, s->count + 1))
		return ERR_NO_MEMORY;
	s->table_len += field_len(text.len);
	*index = (uint32_t)s->count++;
	return ERR_OK;
}

void symbfile_strings_use(struct symbfile_strings *s, uint32_t index, bool needs_table)
{
	struct symbfile_string *item = &s->items[index];
	item->shared = item->shared || item->used || needs_table || item->len > INLINE_MAX;
	item->used = true;
}

uint32_t symbfile_strings_number(struct symbfile_strings *s)
{
	uint32_t number = 0;
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].shared)
			s->items[i].number = number++;
	return number;
}
