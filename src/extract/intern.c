/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"

enum { TEXT_BLOCK = 256 << 10 };

struct intern_block {
	struct intern_block *next;
	size_t used, size;
	char data[];
};

void intern_release(struct intern *set)
{
	struct intern_block *next;
	for (struct intern_block *b = set->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	map64_release(&set->by_hash);
	*set = (struct intern){0};
}

static struct intern_block *add_block(struct intern *set, size_t size)
{
	struct intern_block *b = malloc(sizeof *b + size);
	if (!b)
		return NULL;
	*b = (struct intern_block){.next = set->blocks, .size = size};
	set->blocks = b;
	return b;
}

/* A string with its length, in a block. If it does not fit, the rest of the block is wasted. */
static char *copy_string(struct intern *set, struct str s)
{
	struct intern_block *b = set->blocks;
	size_t size = sizeof s.len + s.len + 1;
	if (!b || b->size - b->used < size)
		b = add_block(set, size > TEXT_BLOCK ? size : TEXT_BLOCK);
	if (!b)
		return NULL;
	char *text = b->data + b->used + sizeof s.len;
	memcpy(text - sizeof s.len, &s.len, sizeof s.len);
	if (s.len > 0)
		memcpy(text, s.data, s.len);
	text[s.len] = 0;
	b->used += size;
	return text;
}

struct str intern_at(uint64_t address)
{
	struct str s = {(const char *)(uintptr_t)address, 0};
	memcpy(&s.len, s.data - sizeof s.len, sizeof s.len);
	return s;
}

static void repair(char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned n = (unsigned char)text[i] < 0x80 ? 1 : utf8_sequence((const uint8_t *)text + i, len - i);
		if (n == 0)
			text[i] = '?';
		i += n ? n : 1;
	}
}

struct str intern_add(struct intern *set, struct str s)
{
	uint64_t key = checksum(s.data, s.len, NULL, 0), found;
	for (; (found = map64_get(&set->by_hash, key)); key++)
		if (str_equal(intern_at(found), s))
			return intern_at(found);
	char *text = copy_string(set, s);
	if (!text)
		return (struct str){0};
	repair(text, s.len);
	struct str kept = {text, s.len};
	if (!str_equal(kept, s))
		return intern_add(set, kept);
	return map64_put(&set->by_hash, key, (uintptr_t)text) ? kept : (struct str){0};
}
