/* SPDX-License-Identifier: Apache-2.0 */
/* Strings kept once: two that are equal have the same address. */
#ifndef EXTRACT_INTERN_H
#define EXTRACT_INTERN_H

#include "base/map64.h"
#include "base/str.h"

struct intern_block;

struct intern {
	struct map64 by_hash;        /* addresses of strings; a string whose hash is taken has the next free number */
	struct intern_block *blocks; /* the strings, each after its length */
};

/* A cleared struct intern is an empty set. */
void intern_release(struct intern *set);
/* A copy of s in the set, where bytes that are not UTF-8 are '?'; it lives as long as the set. data is NULL only if out
 * of memory. */
struct str intern_add(struct intern *set, struct str s);
/* The string of a set whose data is at this address. */
struct str intern_at(uint64_t address);

#endif
