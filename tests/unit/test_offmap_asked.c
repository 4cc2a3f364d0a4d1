/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps for a few offsets: what they answer is what the map of all answers, and they survive each allocation that fails.
 * The linker sends the allocations of the objects under test through those below (--wrap).
 */
#include <config.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/breakpad.h"
#include "format/breakpad_scan.h"
#include "offmap_tools.h"
#include "seed.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);

static long allocations_left = -1; /* below 0: no limit */

static bool may_allocate(void)
{
	return allocations_left < 0 || allocations_left-- > 0;
}

void *__wrap_malloc(size_t n)
{
	return may_allocate() ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
	return may_allocate() ? __real_realloc(p, n) : NULL;
}

/* Blocks that are skipped hold what ends them, or does not, in every spelling. */
static const char tricky[] = "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 tricky.so\n"
                             "1 2 3 0\n"
                             "FUNC 100 40 0 skipped\n"
                             "INLINE 0 5 0 0 100 20\n"
                             "100 40 7 0\n"
                             "  FILE 0 within a block.c\n"
                             "\tINLINE_ORIGIN 0 also within\n"
                             "INFO CODE_ID ABC code.dll\n"
                             "INLINE_ORIGIN 1\n"
                             "\x80\xff\n"
                             " 110 8 9 0\n"
                             "  PUBLIC 180 0 indented\n"
                             "FUNC 200 20 0\n"
                             "INLINE 0 7 0 1 200 10 218 4\r\n"
                             "INLINE\t1 9 0 0 204 4\r\n"
                             "200 10 1 0\r\n"
                             "210 10 2 1\n"
                             "FUNC 210 4 0 first of two, no lines\n"
                             "FUNC 210 8 0 second of two\n"
                             "INLINE 0 1 0 0 210 1\n"
                             "STACK CFI INIT 210 8 .cfa: $rsp 8 +\n"
                             "bad\n"
                             "999999 8 3 0\n"
                             "FUNC 210 2 0 third, lines too\n"
                             "210 2 4 0\n"
                             "FUNC 300 0 0 empty\n"
                             "PUBLIC 300 0 hidden by it\n"
                             "PUBLIC 310 0 ended by a late one\n"
                             "PUBLIC 310 0 the second there\n"
                             "FUNC broken\n"
                             "310 4 4 0\n"
                             "FUNC 1000 100 0 around\n"
                             "1000 100 5 0\n"
                             "FUNC 1010 10 0 inside\n"
                             "1010 10 6 0\n"
                             "PUBLIC 1018 0 no answer here\n"
                             "FILE 1 \x01 \"late\".c\n"
                             "FUNC ffffffffffffffff 40 0 last\n"
                             "FUNC 330 10 0 late\n"
                             "INLINE 0 5 0 0 330 8\n"
                             "330 10 11 1\n"
                             "FUNC 330 8 0 later\n"
                             "STACK WIN 0\n"
                             "PUBLIC 20 0 lowest";
enum { TRICKY_END = 0x1120 };

static struct offmap *map_for(
        struct str text, size_t chunk, const struct offmap_options *options, const uint64_t *offsets, size_t count)
{
	struct error e;
	struct offmap *m;
	struct breakpad *p = breakpad_new(options, str_from(""));
	assert_non_null(p);
	assert_true(breakpad_ask(p, offsets, count));
	for (size_t at = 0; at < text.len; at += chunk) {
		/* in a block of its own size, so that a read behind it is seen */
		size_t n = text.len - at < chunk ? text.len - at : chunk;
		uint8_t *exact = malloc(n);
		assert_non_null(exact);
		memcpy(exact, text.data + at, n);
		assert_int_equal(breakpad_feed(p, exact, n, &e), ERR_OK);
		free(exact);
	}
	assert_int_equal(breakpad_finish(p, &m, &e), ERR_OK);
	breakpad_free(p);
	return m;
}

/* Compares a map for these offsets with that of all. */
static void check(struct str text, size_t chunk, const struct offmap_options *options, const struct offmap *all,
        const uint64_t *offsets, size_t count)
{
	struct offmap *few = map_for(text, chunk, options, offsets, count);
	for (size_t i = 0; i < count; i++)
		assert_same_answers(all, few, offsets[i], offsets[i]);
	assert_int_equal(few->funcs, all->funcs);
	assert_int_equal(few->publics, all->publics);
	assert_int_equal(few->text_bytes, all->text_bytes);
	assert_int_equal(few->code_file_len, all->code_file_len);
	offmap_free(few);
}

/* Each offset alone, each with the top one, and all at once; of the long stretch where nothing is only some. */
static void check_text(struct str text, uint64_t end, const struct offmap_options *options)
{
	struct offmap *all = map_build(text, 0, options);
	uint64_t *offsets = malloc((end + 1) * sizeof *offsets);
	size_t n = 0;
	assert_non_null(offsets);
	for (uint64_t offset = 0; offset < end; offset += offset < 0x400 || offset >= 0xff0 ? 1 : 16) {
		uint64_t some[3] = {offset, offset, UINT64_MAX};
		offsets[n++] = offset;
		check(text, text.len, options, all, some, 1);
		check(text, 1 + offset % 100, options, all, some, 3);
	}
	offsets[n++] = UINT64_MAX;
	for (size_t chunk = 1; chunk < 200; chunk++)
		check(text, chunk, options, all, offsets, n);
	free(offsets);
	offmap_free(all);
}

static void test_tricky(void **state)
{
	(void)state;
	check_text(str_from(tricky), TRICKY_END, &plain_options);
	check_text(str_from(tricky), TRICKY_END, &nearest_options);
}

static void test_nothing_asked(void **state)
{
	struct offmap *m = map_for(str_from(tricky), 7, &plain_options, NULL, 0);
	(void)state;
	assert_int_equal(m->lines, 0);
	assert_int_equal(m->generation, 0);
	assert_int_equal(m->funcs, 11);
	offmap_free(m);
}

/* Functions that overlap, come in any order and share addresses. */
static void test_random_offsets(void **state)
{
	uint64_t seed = seed_of(11);
	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct buffer text = text_new();
		const struct offmap_options *options = round % 2 ? &nearest_options : &plain_options;
		text_add(&text, "MODULE Linux x86_64 0 random.so\nFILE 0 a.c\n");
		for (unsigned i = 0; i < 40; i++) {
			unsigned addr = 0x100 + next_random(&seed) % 32 * 16, size = next_random(&seed) % 5 * 16;
			if (next_random(&seed) % 4 == 0) {
				text_add(&text, "PUBLIC %x 0 p%u\n", addr, i);
				continue;
			}
			text_add(&text, "FUNC %x %x 0 f%u\nINLINE 0 %u 0 %u %x 8\n", addr, size, i, i, i % 7, addr + 4);
			if (next_random(&seed) % 3)
				text_add(&text, "%x %x %u 0\n", addr, size, i);
			text_add(&text, "INLINE_ORIGIN %u o%u\n", i % 7, i);
		}
		struct offmap *all = map_build(text_str(&text), 0, options);
		uint64_t offsets[8], at = 0xf0;
		for (unsigned i = 0; i < 8; i++)
			offsets[i] = at += next_random(&seed) % 0x90;
		check(text_str(&text), 1 + next_random(&seed) % 300, options, all, offsets, 1 + round % 8);
		offmap_free(all);
		buffer_release(&text);
	}
}

/* A line that is too long ends a block that was skipped, if it is a FUNC. */
static void test_long_lines(void **state)
{
	struct buffer text = text_new();
	static const uint64_t offset = 0x210;
	(void)state;
	text_add(&text, "MODULE Linux x86_64 0 long.so\nFUNC 100 10 0 a\n100 10 1 0\nFUNC 200 20 0 b\n");
	for (unsigned kind = 0; kind < 2; kind++) {
		text_add(&text, kind ? "FUNC 210 4 0 " : "210 4 0 ");
		for (unsigned n = 0; n < BREAKPAD_LINE_MAX / 16; n++)
			text_add(&text, "0123456789abcdef");
		text_add(&text, "\n");
		text_add(&text, "200 20 %u 0\n", kind + 1);
	}
	struct offmap *all = map_build(text_str(&text), 0, &plain_options);
	check(text_str(&text), 4096, &plain_options, all, &offset, 1);
	check(text_str(&text), text.len, &plain_options, all, &offset, 1);
	assert_answer(all, offset, "b+0x10/0x20 ?:1");
	offmap_free(all);
	buffer_release(&text);
}

static enum err build_short_of_memory(long allocations, bool asked)
{
	static const uint64_t offsets[] = {0x110, 0x205, 0x213, 0x310, 0x338, 0x1012};
	struct offmap *m = NULL;
	enum err err = ERR_NO_MEMORY;
	allocations_left = allocations;
	struct breakpad *p = breakpad_new(&nearest_options, str_from(""));
	if (p && (!asked || breakpad_ask(p, offsets, sizeof offsets / sizeof *offsets))) {
		err = ERR_OK;
		for (size_t at = 0; at < sizeof tricky - 1 && !err; at += 50)
			err = breakpad_feed(p, (const uint8_t *)tricky + at,
			        sizeof tricky - 1 - at < 50 ? sizeof tricky - 1 - at : 50, NULL);
		if (!err)
			err = breakpad_finish(p, &m, NULL);
	}
	allocations_left = -1;
	breakpad_free(p);
	offmap_free(m);
	return err;
}

static void check_no_memory(bool asked)
{
	long n = 0;
	for (; n < 10000; n++) {
		enum err err = build_short_of_memory(n, asked);
		if (!err)
			break;
		assert_int_equal(err, ERR_NO_MEMORY);
	}
	assert_true(n > 20 && n < 10000);
}

static void test_no_memory(void **state)
{
	(void)state;
	check_no_memory(true);
	check_no_memory(false);
}

static void test_corrupt(void **state)
{
	static const char *const texts[] = {"FUNC 1 1 0 f\n", "MODULE a b 0 c\nFILE 0 a\n1 1 1 1\n"};
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct offmap *m = NULL;
		struct breakpad *p = breakpad_new(&plain_options, str_from(""));
		assert_non_null(p);
		assert_true(breakpad_ask(p, &(uint64_t){1}, 1));
		enum err err = breakpad_feed(p, (const uint8_t *)texts[i], strlen(texts[i]), NULL);
		assert_int_equal(err ? err : breakpad_finish(p, &m, NULL), ERR_CORRUPT);
		breakpad_free(p);
	}
}

/* What keyword_line promises, byte by byte. It may stop at lines that turn out not to matter, but at no INLINE, STACK
 * or line record. */
static bool is_keyword(const uint8_t *at, const uint8_t *end)
{
	static const char *const words[] = {"FUNC", "PUBLIC", "FILE", "INLINE_ORIGIN", "INFO"};
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	for (unsigned i = 0; i < 5; i++)
		if ((size_t)(end - at) > strlen(words[i]) && memcmp(at, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

static void test_keyword_line(void **state)
{
	static const char *const lines[] = {"1000 10 5 0\n", "INLINE 0 1 2 3 1000 10\n", "STACK CFI INIT 1000 10\n",
	        "\n", "INLINE_ORIGIN 1 f\n", "FUNC 1 2 3 f\n", "PUBLIC 1 0 p\n", " \tFILE 1 f\n", "INFO x\n", "a\n"};
	uint64_t seed = seed_of(5);
	(void)state;
	for (unsigned round = 0; round < 3000; round++) {
		struct buffer text = text_new();
		for (unsigned i = 0; i < 20; i++) /* mostly the first four */
			text_add(&text, "%s", lines[next_random(&seed) % (next_random(&seed) % 8 ? 4 : 10)]);
		uint8_t *exact = malloc(text.len);
		assert_non_null(exact);
		memcpy(exact, text.data, text.len);
		const uint8_t *end = exact + text.len, *found = exact;
		for (const uint8_t *at = exact; at < end;
		        at = (const uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1) {
			if (at >= found) /* the one found before has been passed */
				found = keyword_line(at, end);
			if (is_keyword(at, end))
				assert_ptr_equal(found, at);
			else if (*at == '1' || *at == 'S' || *at == 'I')
				assert_ptr_not_equal(found, at);
		}
		assert_ptr_equal(keyword_line(end, end), end);
		free(exact);
		buffer_release(&text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_tricky),
	        cmocka_unit_test(test_nothing_asked),
	        cmocka_unit_test(test_random_offsets),
	        cmocka_unit_test(test_long_lines),
	        cmocka_unit_test(test_no_memory),
	        cmocka_unit_test(test_corrupt),
	        cmocka_unit_test(test_keyword_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
