/* SPDX-License-Identifier: Apache-2.0 */
/* A set of small integers that finds its next member quickly. */
#ifndef BASE_BIT_TREE_H
#define BASE_BIT_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum { BIT_TREE_LEVELS = 6 }; /* of 64 children: enough for any uint32_t */
#define BIT_TREE_NONE UINT32_MAX

struct bit_tree {
	uint64_t *levels[BIT_TREE_LEVELS]; /* the members; then, level by level, which words of the level below are not
	                                      0 */
	uint32_t words[BIT_TREE_LEVELS];
	unsigned count; /* of levels */
};

/* An empty set with room for 0 up to size - 1. false if out of memory. */
bool bit_tree_init(struct bit_tree *t, uint32_t size);
void bit_tree_release(struct bit_tree *t);
void bit_tree_add(struct bit_tree *t, uint32_t i);
void bit_tree_remove(struct bit_tree *t, uint32_t i);
/* The first member from i on, or BIT_TREE_NONE. */
uint32_t bit_tree_next(const struct bit_tree *t, uint32_t i);

#endif
