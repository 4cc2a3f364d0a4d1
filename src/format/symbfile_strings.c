/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "format/symbfile_strings.h"

#include <stdlib.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/varint.h"

enum { FIRST_SLOTS = 1 << 10 };

void symbfile_strings_init(struct symbfile_strings *s)
{
	*s = (struct symbfile_strings){0};
	buffer_init(&s->texts, TABLE_MAX);
}

void symbfile_strings_release(struct symbfile_strings *s)
{
	buffer_release(&s->texts);
	free(s->items);
	free(s->slots);
	symbfile_strings_init(s);
}

void symbfile_strings_reset(struct symbfile_strings *s)
{
	buffer_reset(&s->texts);
	s->count = s->table_len = 0;
	if (s->slots)
		memset(s->slots, 0, s->slot_count * sizeof *s->slots);
}

/* Where the string is, or would be: the table is never full. */
static uint32_t *find_slot(struct symbfile_strings *s, struct str text, uint64_t hash)
{
	size_t i = (size_t)hash & (s->slot_count - 1);
	for (; s->slots[i]; i = (i + 1) & (s->slot_count - 1)) {
		const struct symbfile_string *item = &s->items[s->slots[i] - 1];
		if (item->hash == hash && str_equal(symbfile_strings_text(s, item), text))
			break;
	}
	return &s->slots[i];
}

/* Doubles the hash table when half of it is taken. */
static bool reserve_slot(struct symbfile_strings *s)
{
	if (s->count < s->slot_count / 2)
		return true;
	size_t count = s->slot_count ? s->slot_count * 2 : FIRST_SLOTS;
	uint32_t *slots = calloc(count, sizeof *slots);
	if (!slots)
		return false;
	for (size_t i = 0; i < s->count; i++) {
		size_t at = (size_t)s->items[i].hash & (count - 1);
		while (slots[at])
			at = (at + 1) & (count - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(s->slots);
	s->slots = slots;
	s->slot_count = count;
	return true;
}

/* As a field of the table: tag, length, text. */
static size_t field_len(size_t len)
{
	uint8_t scratch[VARINT_MAX];
	return 1 + (size_t)(varint_put(scratch, len) - scratch) + len;
}

enum err symbfile_strings_add(struct symbfile_strings *s, struct str text, uint32_t *index)
{
	uint64_t hash = checksum(text.data, text.len, "", 0);
	struct symbfile_string *items = grown(s->items, &s->cap, s->count, sizeof *items);
	if (!items)
		return ERR_NO_MEMORY;
	s->items = items;
	if (!reserve_slot(s))
		return ERR_NO_MEMORY;
	uint32_t *slot = find_slot(s, text, hash);
	if (!*slot) {
		if (text.len >= TABLE_MAX || s->table_len + field_len(text.len) >= TABLE_MAX)
			return ERR_TOO_LARGE;
		uint32_t at = (uint32_t)s->texts.len;
		/* Never no byte at all, so that texts.data is there for an empty string, too. */
		if (!buffer_reserve(&s->texts, text.len + 1) || !buffer_append_str(&s->texts, text))
			return ERR_NO_MEMORY;
		s->items[s->count] = (struct symbfile_string){.hash = hash, .at = at, .len = (uint32_t)text.len};
		s->table_len += field_len(text.len);
		*slot = (uint32_t)++s->count;
	}
	*index = *slot - 1;
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
