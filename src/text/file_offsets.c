/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/file_offsets.h"

#include "text/scan.h"

/* Either may lack the other's parameters, version and the like. */
static bool is_same_function(struct str a, struct str b)
{
	struct str less = a.len < b.len ? a : b, more = a.len < b.len ? b : a;
	return less.len && memcmp(less.data, more.data, less.len) == 0 &&
	       (less.len == more.len || strchr("(<@. ", more.data[less.len]));
}

bool text_confirms(const struct text_frame *f, struct str name, struct str function, uint64_t behind)
{
	const char *end = name.data + name.len, *plus = find_last(name.data, end, '+');
	struct rest offset = {plus ? plus + 1 : end, end};
	uint64_t told;
	/* what is looked up of a return address is the byte before it */
	return f->base == TEXT_FILE && take_0x(&offset, &told) && offset.at == end &&
	       told == behind + (f->offset - f->address) && is_same_function(between(name.data, plus), function);
}

void text_confirm_guesses(const struct text_guesses *g)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct text_frame *f = g->frame(g->arg, i);
		bool *confirmed = f->base == TEXT_FILE && f->edit_count ? g->confirmed(g->arg, i) : NULL;
		if (!confirmed || *confirmed || f->edits[0].at < g->base)
			continue;
		struct str name = {g->text.data + (f->edits[0].at - g->base), f->edits[0].cut};
		struct text_answer found = g->found(g->arg, i);
		*confirmed = text_confirms(f, name, found.function, found.behind);
	}
}

void text_drop_guesses(const struct text_guesses *g, void (*drop)(void *arg, size_t i))
{
	for (size_t i = 0; i < g->count; i++) {
		bool guess = g->frame(g->arg, i)->base == TEXT_FILE;
		const bool *confirmed = guess ? g->confirmed(g->arg, i) : NULL;
		if (confirmed && !*confirmed)
			drop(g->arg, i);
	}
}
