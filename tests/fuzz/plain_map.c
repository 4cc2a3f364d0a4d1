/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "plain_map.h"

#include <inttypes.h>

#include "base/arena.h"
#include "fuzz.h"
#include "map/read.h"

static void put_string(const struct offmap *m, struct offmap_string s, struct buffer *out)
{
	if (s.external) {
		int64_t page = offmap_string_page(m, s.external);
		fuzz_check(page >= 0 && offmap_string_lookup(m->strings[page], s.external, &s) == ERR_OK,
		        "a string is missing");
	}
	fuzz_check(buffer_append(out, s.data, s.len) && buffer_append(out, "\n", 1), "no memory");
}

static void put_call(const struct offmap *m, const struct offmap_call *c, struct buffer *out)
{
	put_string(m, c->function, out);
	put_string(m, c->file, out);
	bool known = c->file.len || c->file.external;
	buffer_printf(out, "%" PRIu32 "\n", known ? c->line : 0);
}

void plain_map_describe(const struct offmap *m, uint64_t offset, struct buffer *out)
{
	struct arena arena;
	struct offmap_answer a = {0};
	int64_t page = offmap_code_page(m, offset);
	arena_init(&arena, 1 << 24);
	fuzz_check(page < 0 || offmap_lookup(m->code[page], offset, &arena, &a) == ERR_OK, "a page is not sound");
	for (uint32_t i = 0; a.found && i < a.inline_count; i++)
		put_call(m, &a.inlines[i], out);
	if (a.found) {
		put_call(m, &a.frame, out);
		buffer_printf(out, "+%" PRIx64, a.function_offset);
		if (a.has_size)
			buffer_printf(out, "/%" PRIx64 "\n", a.function_size);
		else
			buffer_printf(out, "/?\n");
	} else {
		buffer_printf(out, "-\n");
	}
	arena_release(&arena);
}
