/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/intern.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/utf8.h"

enum { FIRST_CAP = 1024, TEXT_BLOCK = 256 << 10 };

struct interned {
	struct str text; /* data NULL: a free slot */
	uint64_t hash;   /* of the bytes as they were given */
};

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
	free(set->slots);
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

/* A string of its own length in a block; what is left of the block before it is wasted. */
static char *copy(struct intern *set, struct str s)
{
	struct intern_block *b = set->blocks;
	if (!b || b->size - b->used < s.len + 1)
		b = add_block(set, s.len + 1 > TEXT_BLOCK ? s.len + 1 : TEXT_BLOCK);
	if (!b)
		return NULL;
	char *text = b->data + b->used;
	if (s.len > 0)
		memcpy(text, s.data, s.len);
	text[s.len] = 0;
	b->used += s.len + 1;
	return text;
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

static bool enlarge(struct intern *set)
{
	size_t cap = set->cap ? set->cap * 2 : FIRST_CAP;
	struct interned *slots = calloc(cap, sizeof *slots);
	if (!slots)
		return false;
	for (size_t i = 0; i < set->cap; i++) {
		if (!set->slots[i].text.data)
			continue;
		size_t at = set->slots[i].hash & (cap - 1);
		while (slots[at].text.data)
			at = (at + 1) & (cap - 1);
		slots[at] = set->slots[i];
	}
	free(set->slots);
	set->slots = slots;
	set->cap = cap;
	return true;
}

struct str intern_add(struct intern *set, struct str s)
{
	if (set->count >= set->cap / 2 && !enlarge(set))
		return (struct str){0};
	uint64_t hash = checksum(s.data, s.len, NULL, 0);
	size_t at = hash & (set->cap - 1);
	for (; set->slots[at].text.data; at = (at + 1) & (set->cap - 1))
		if (set->slots[at].hash == hash && str_equal(set->slots[at].text, s))
			return set->slots[at].text;
	char *text = copy(set, s);
	if (!text)
		return (struct str){0};
	repair(text, s.len);
	struct str kept = {text, s.len};
	if (str_equal(kept, s)) {
		set->slots[at] = (struct interned){kept, hash};
		set->count++;
		return kept;
	}
	return intern_add(set, kept);
}
