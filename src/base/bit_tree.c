/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/bit_tree.h"

#include <stdlib.h>

bool bit_tree_init(struct bit_tree *t, uint32_t size)
{
	*t = (struct bit_tree){0};
	do {
		size = size / 64 + 1;
		t->levels[t->count] = calloc(size, sizeof **t->levels);
		if (!t->levels[t->count]) {
			bit_tree_release(t);
			return false;
		}
		t->words[t->count++] = size;
	} while (size > 1);
	return true;
}

void bit_tree_release(struct bit_tree *t)
{
	for (unsigned level = 0; level < t->count; level++)
		free(t->levels[level]);
	*t = (struct bit_tree){0};
}

void bit_tree_add(struct bit_tree *t, uint32_t i)
{
	for (unsigned level = 0; level < t->count; level++, i /= 64)
		t->levels[level][i / 64] |= UINT64_C(1) << i % 64;
}

void bit_tree_remove(struct bit_tree *t, uint32_t i)
{
	for (unsigned level = 0; level < t->count; level++, i /= 64)
		if (t->levels[level][i / 64] &= ~(UINT64_C(1) << i % 64))
			return;
}

uint32_t bit_tree_next(const struct bit_tree *t, uint32_t i)
{
	for (unsigned level = 0; level < t->count && i / 64 < t->words[level]; level++, i = i / 64 + 1) {
		uint64_t word = t->levels[level][i / 64] >> i % 64;
		if (!word)
			continue;
		i += (uint32_t)__builtin_ctzll(word);
		while (level--)
			i = 64 * i + (uint32_t)__builtin_ctzll(t->levels[level][i]);
		return i;
	}
	return BIT_TREE_NONE;
}
