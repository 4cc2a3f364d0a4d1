/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/coverage.h"

#include <stdbool.h>
#include <stdlib.h>

enum err coverage_init(struct coverage *c, const struct code_map *code, struct error *e)
{
	uint64_t total = 0;
	*c = (struct coverage){.code = code, .first = calloc(code->count + 1, sizeof *c->first)};
	for (size_t i = 0; c->first && i < code->count; i++) {
		c->first[i] = total;
		total += code->sections[i].end - code->sections[i].start;
	}
	c->bits = calloc((size_t)(total / 64 + 1), sizeof *c->bits);
	if (c->bits && c->first)
		return ERR_OK;
	coverage_release(c);
	return no_memory(e);
}

void coverage_release(struct coverage *c)
{
	free(c->bits);
	free(c->first);
	*c = (struct coverage){0};
}

static bool is_taken(const struct coverage *c, uint64_t bit)
{
	return c->bits[bit / 64] >> bit % 64 & 1;
}

/* The bit of an address of section s. */
static uint64_t bit_of(const struct coverage *c, const struct code_section *s, uint64_t address)
{
	return c->first[s - c->code->sections] + (address - s->start);
}

/* Takes the free bits from bit on, at most n, and returns how many. */
static uint64_t take_bits(struct coverage *c, uint64_t bit, uint64_t n)
{
	uint64_t done = 0;
	while (done < n) {
		uint64_t *word = &c->bits[(bit + done) / 64];
		if ((bit + done) % 64 == 0 && n - done >= 64 && *word == 0) {
			*word = UINT64_MAX;
			done += 64;
		} else if (!is_taken(c, bit + done)) {
			*word |= 1ULL << (bit + done) % 64;
			done++;
		} else {
			break;
		}
	}
	return done;
}

uint64_t coverage_take(struct coverage *c, uint64_t start, uint64_t end)
{
	while (start < end) {
		const struct code_section *s = code_map_find(c->code, start);
		if (!s)
			break;
		uint64_t n = (end < s->end ? end : s->end) - start;
		uint64_t done = take_bits(c, bit_of(c, s, start), n);
		start += done;
		if (done < n)
			break;
	}
	return start;
}

uint64_t coverage_free(const struct coverage *c, uint64_t start, uint64_t end)
{
	const struct code_section *s = code_map_find(c->code, start);
	while (s && start < end) {
		uint64_t bit = bit_of(c, s, start);
		if (bit % 64 == 0 && c->bits[bit / 64] == UINT64_MAX)
			start += s->end - start < 64 ? s->end - start : 64;
		else if (is_taken(c, bit))
			start++;
		else
			return start;
		if (start >= s->end)
			s = code_map_find(c->code, start);
	}
	return end;
}
