/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "offmap_tools.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sym/symmap.h"

const struct offmap_options plain_options = {.memory_max = 0};
const struct offmap_options nearest_options = {.nearest = true};

struct buffer text_new(void)
{
	struct buffer b;
	buffer_init(&b, SIZE_MAX / 4);
	return b;
}

void text_add(struct buffer *text, const char *format, ...)
{
	char line[512];
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	assert_in_range(n, 0, sizeof line - 1);
	assert_true(buffer_append(text, line, (size_t)n));
}

struct str text_str(const struct buffer *text)
{
	return (struct str){(const char *)text->data, text->len};
}

enum err map_try(
        struct str text, size_t cut, const struct offmap_options *options, struct offmap **out, struct error *e)
{
	atomic_uint idle_makers = 0;
	struct symmap *m = symmap_new(options, &idle_makers, str_from(""));
	*out = NULL;
	enum err err = m ? symmap_feed(m, (const uint8_t *)text.data, cut, e) : no_memory(e);
	if (!err)
		err = symmap_feed(m, (const uint8_t *)text.data + cut, text.len - cut, e);
	if (!err)
		err = symmap_finish(m, e);
	if (!err && !(*out = symmap_all(m)))
		err = no_memory(e);
	symmap_unref(m);
	return err;
}

struct offmap *map_build_cut(struct str text, size_t cut, const struct offmap_options *options)
{
	struct error e;
	struct offmap *map;
	assert_int_equal(map_try(text, cut, options, &map, &e), ERR_OK);
	return map;
}

struct offmap *map_build(struct str text, const struct offmap_options *options)
{
	return map_build_cut(text, 0, options);
}

static void assert_same_page(const struct page *a, const struct page *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->len, b->len);
	assert_memory_equal(a->bytes, b->bytes, a->len);
}

void assert_same_pages(const struct offmap *a, const struct offmap *b)
{
	assert_int_equal(a->code_count, b->code_count);
	assert_int_equal(a->string_count, b->string_count);
	for (uint32_t i = 0; i < a->code_count; i++)
		assert_same_page(a->code[i], b->code[i]);
	for (uint32_t i = 0; i < a->string_count; i++)
		assert_same_page(a->strings[i], b->strings[i]);
}

void assert_same_maps(const struct offmap *a, const struct offmap *b)
{
	struct page *root_a = offmap_root_encode(a), *root_b = offmap_root_encode(b);
	assert_non_null(root_a);
	assert_non_null(root_b);
	assert_true(a->generation == b->generation);
	assert_same_page(root_a, root_b);
	assert_same_pages(a, b);
	page_unref(root_a);
	page_unref(root_b);
}

static void describe_string(const struct offmap *m, struct offmap_string s, struct buffer *out)
{
	if (s.external) {
		int64_t page = offmap_string_page(m, s.external);
		assert_true(page >= 0);
		assert_int_equal(offmap_string_lookup(m->strings[page], s.external, &s), ERR_OK);
	}
	if (s.len)
		assert_true(buffer_append(out, s.data, s.len));
}

static void describe_place(const struct offmap *m, const struct offmap_call *c, struct buffer *out)
{
	text_add(out, " ");
	if (!c->file.len && !c->file.external)
		text_add(out, "?");
	else
		describe_string(m, c->file, out);
	if (c->line)
		text_add(out, ":%" PRIu32, c->line);
}

static void check_function_alone(const struct page *code, uint64_t offset, const struct offmap_answer *a)
{
	struct offmap_answer function;
	assert_int_equal(offmap_lookup_function(code, offset, &function), ERR_OK);
	assert_int_equal(function.found, a->found);
	assert_int_equal(function.has_size, a->has_size);
	assert_int_equal(function.function_offset, a->function_offset);
	assert_int_equal(function.function_size, a->function_size);
	assert_ptr_equal(function.frame.function.data, a->frame.function.data);
	assert_int_equal(function.frame.function.external, a->frame.function.external);
	assert_int_equal(function.inline_count + function.frame.line + function.frame.file.len, 0);
}

uint32_t most_segments(const struct offmap *m)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < m->code_count; i++)
		for (uint32_t k = 0; k < code_page_pieces(m->code[i]); k++) {
			struct piece p;
			assert_true(piece_read(m->code[i], k, &p));
			most = p.segments > most ? p.segments : most;
		}
	return most;
}

void describe(const struct offmap *m, uint64_t offset, struct buffer *out)
{
	struct arena arena;
	struct offmap_answer a = {0};
	int64_t page = offmap_code_page(m, offset);
	arena_init(&arena, 1 << 24);
	if (page >= 0) {
		assert_int_equal(offmap_lookup(m->code[page], offset, &arena, &a), ERR_OK);
		check_function_alone(m->code[page], offset, &a);
	}
	if (!a.found) {
		text_add(out, "-");
	} else {
		for (uint32_t i = 0; i < a.inline_count; i++) {
			describe_string(m, a.inlines[i].function, out);
			describe_place(m, &a.inlines[i], out);
			text_add(out, " < ");
		}
		describe_string(m, a.frame.function, out);
		text_add(out, "+0x%" PRIx64 "/", a.function_offset);
		if (a.has_size)
			text_add(out, "0x%" PRIx64, a.function_size);
		else
			text_add(out, "?");
		describe_place(m, &a.frame, out);
	}
	arena_release(&arena);
}

void assert_answer(const struct offmap *m, uint64_t offset, const char *expected)
{
	struct buffer got = text_new();
	describe(m, offset, &got);
	if (!str_equal(text_str(&got), str_from(expected)))
		fail_msg("0x%" PRIx64 ": %.*s instead of %s", offset, STR_FMT(text_str(&got)), expected);
	buffer_release(&got);
}

void assert_same_answers(const struct offmap *a, const struct offmap *b, uint64_t from, uint64_t to)
{
	struct buffer x = text_new(), y = text_new();
	for (uint64_t offset = from;; offset++) {
		buffer_reset(&x);
		buffer_reset(&y);
		describe(a, offset, &x);
		describe(b, offset, &y);
		if (!str_equal(text_str(&x), text_str(&y)))
			fail_msg("0x%" PRIx64 ": %.*s and %.*s", offset, STR_FMT(text_str(&x)), STR_FMT(text_str(&y)));
		if (offset == to)
			break;
	}
	buffer_release(&x);
	buffer_release(&y);
}
