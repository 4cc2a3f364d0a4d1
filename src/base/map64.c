/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/map64.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 64 };

void map64_release(struct map64 *m)
{
	free(m->slots);
	*m = (struct map64){0};
}

void map64_reset(struct map64 *m)
{
	if (m->cap > FIRST_CAP && m->count < m->cap / 16)
		map64_release(m);
	if (m->count)
		memset(m->slots, 0, m->cap * sizeof *m->slots);
	m->count = 0;
}

/* The slot of key, or the free one where it belongs. */
static struct map64_slot *find_slot(const struct map64 *m, uint64_t key)
{
	uint64_t hash = (key ^ key >> 32) * 0x9e3779b97f4a7c15;
	size_t i = (size_t)(hash >> 20) & (m->cap - 1);
	while (m->slots[i].value && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

uint64_t map64_get(const struct map64 *m, uint64_t key)
{
	return m->cap ? find_slot(m, key)->value : 0;
}

static bool enlarge(struct map64 *m)
{
	struct map64 larger = {.cap = m->cap ? m->cap * 2 : FIRST_CAP, .count = m->count};
	larger.slots = calloc(larger.cap, sizeof *larger.slots);
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].value)
			*find_slot(&larger, m->slots[i].key) = m->slots[i];
	free(m->slots);
	*m = larger;
	return true;
}

bool map64_put(struct map64 *m, uint64_t key, uint64_t value)
{
	if (m->count >= m->cap / 2 && !enlarge(m))
		return false;
	*find_slot(m, key) = (struct map64_slot){key, value};
	m->count++;
	return true;
}
