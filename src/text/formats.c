/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats, indexed by what a line has, so that most lines of a log are asked of none. */
#include <config.h>

#include "text/formats.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

#include "text/signs.h"

#define ROW(row) &row,
static const struct text_format *const formats[] = {TEXT_FORMATS(ROW)};
enum {
	FORMATS = sizeof formats / sizeof *formats,
	MAP_DIGITS_MIN = 5, /* of an address as /proc/PID/maps has it, so that no date is one */
	MAP_DIGITS_MAX = 16,
};
_Static_assert((int)FORMATS <= (int)TEXT_FORMATS_MAX, "each has a bit");

const char *text_format_names(unsigned i)
{
	return i < FORMATS ? formats[i]->names ? formats[i]->names : "" : NULL;
}

/* ---- what formats keep ---- */

static size_t aligned(size_t size)
{
	return (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

static unsigned number_of(const struct text_format *f)
{
	unsigned i = 0;
	while (formats[i] != f)
		i++;
	return i;
}

size_t text_states_size(void)
{
	size_t size = 0;
	for (unsigned i = 0; i < FORMATS; i++)
		size += formats[i]->late ? 0 : aligned(formats[i]->state_size);
	return size;
}

void text_states_init(struct text_reader *r, void *states)
{
	char *at = states;
	for (unsigned i = 0; i < FORMATS; i++) {
		if (formats[i]->late || !formats[i]->state_size)
			continue;
		r->states[i] = at;
		at += aligned(formats[i]->state_size);
	}
	for (unsigned i = 0; i < FORMATS; i++)
		if (formats[i]->state_of)
			r->states[i] = r->states[number_of(formats[i]->state_of)];
	r->json = text_state_so_far(r, &text_json);
}

void *text_state_so_far(struct text_reader *r, const struct text_format *f)
{
	return r->states[number_of(f)];
}

void *text_state(struct text_reader *r, const struct text_format *f)
{
	void **state = &r->states[number_of(f)];
	if (!*state && !(*state = calloc(1, f->state_size)))
		r->result = TEXT_NO_MEMORY;
	return *state;
}

size_t text_states_late(const struct text_reader *r)
{
	size_t size = 0;
	for (unsigned i = 0; i < FORMATS; i++)
		size += formats[i]->late && r->states[i] ? formats[i]->state_size : 0;
	return size;
}

void text_states_free_late(struct text_reader *r)
{
	for (unsigned i = 0; i < FORMATS; i++)
		if (formats[i]->late)
			free(r->states[i]);
}

/* ---- which are asked ---- */

void text_index_init(struct text_index *index)
{
	for (unsigned i = 0; i < FORMATS; i++) {
		uint32_t bit = UINT32_C(1) << i;
		for (unsigned k = 0; k < TEXT_SIGNS; k++)
			index->of_sign[k] |= formats[i]->signs >> k & 1 ? bit : 0;
		for (unsigned k = 0; k < TEXT_ASKED; k++)
			index->of_which[k] |= formats[i]->which >> k & 1 ? bit : 0;
		if (formats[i]->which == TEXT_FLOATING)
			index->floating_signs |= formats[i]->signs;
		for (const char *c = formats[i]->begins; c && *c; c++)
			index->of_first[(unsigned char)*c] |= bit;
	}
}

static uint32_t formats_of(const uint32_t *sets, unsigned bits)
{
	uint32_t all = 0;
	for (; bits; bits &= bits - 1)
		all |= sets[__builtin_ctz(bits)];
	return all;
}

uint32_t text_formats_by_beginning(const struct text_index *index, const char *at, const char *end)
{
	while (at < end && is_blank((unsigned char)*at))
		at++;
	if (at == end)
		return 0;
	uint32_t set = index->of_first[(unsigned char)*at];
	const char *from = at;
	while (at < end && hex_value((unsigned char)*at) >= 0)
		at++;
	if (at - from >= MAP_DIGITS_MIN && at - from <= MAP_DIGITS_MAX && at < end && *at == '-')
		set |= index->of_first[(unsigned char)*TEXT_MAP_ADDRESS];
	return set;
}

bool text_formats_ask(struct text_reader *r, struct rest line, unsigned signs, unsigned which)
{
	uint32_t asked = formats_of(r->index.of_sign, signs & ((1U << TEXT_SIGNS) - 1));
	uint32_t allowed = formats_of(r->index.of_which, which);
	bool found = false;
	if (which & TEXT_ANCHORED) {
		struct rest inner = line;
		blanks(&inner);
		asked |= text_formats_by_beginning(&r->index, line.at, line.end);
		if (peek(&inner) == '#') /* a number begins the frame, though in other lines it may stand anywhere */
			allowed |= UINT32_C(1) << number_of(&text_numbered);
	}
	for (asked &= allowed; asked && line.at < line.end && !found; asked &= asked - 1) {
		unsigned i = (unsigned)__builtin_ctz(asked);
		r->state = r->states[i];
		found = formats[i]->read(r, line);
	}
	return found;
}

bool text_formats_have_word(struct rest line)
{
	for (unsigned i = 0; i < FORMATS; i++)
		for (const char *const *word = formats[i]->words; word && *word; word++)
			if (take_literal(&line, *word))
				return true;
	return false;
}
