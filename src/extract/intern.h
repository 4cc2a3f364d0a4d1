/* SPDX-License-Identifier: Apache-2.0 */
/* Strings kept once: two that are equal have the same address. */
#ifndef EXTRACT_INTERN_H
#define EXTRACT_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct interned; /* a string and its hash */
struct intern_block;

struct intern {
	struct interned *slots;
	size_t cap, count;
	struct intern_block *blocks; /* the strings' bytes */
};

/* A cleared struct intern is an empty set. */
void intern_release(struct intern *set);
/* A copy of s in the set, where bytes that are not UTF-8 are '?'; it lives as long as the set. data is NULL when there
 * is no memory, and never else. */
struct str intern_add(struct intern *set, struct str s);

#endif
