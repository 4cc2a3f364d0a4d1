/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps that are built on two threads: the same bytes, whatever the file does to have the threads meet, and nothing is
 * left behind when memory ends or the file is given up. The linker sends the allocations of the objects under test
 * through those below (--wrap).
 */
#include <config.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/breakpad.h"
#include "offmap_tools.h"
#include "seed.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);

static atomic_long allocations_left = 1L << 60;

static bool may_allocate(void)
{
	return atomic_fetch_sub(&allocations_left, 1) > 0;
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

static const struct offmap_options threaded_options = {.raw_budget = UINT64_MAX, .threaded = true};
static const struct offmap_options threaded_nearest = {.nearest = true, .raw_budget = UINT64_MAX, .threaded = true};

/* What a file is made to do, as bits. */
enum {
	LATE_DEFINITIONS = 1, /* names are defined again, behind their use */
	LONG_NAMES = 2,       /* some functions have names that need string pages */
	DEFINE_BETWEEN = 4,   /* new files and origins come among the functions */
	LATE_SYMBOL = 8,
	LARGE = 16, /* a function with more records than may wait */
	ALL = 31,
};

static void add_padding(struct buffer *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		text_add(text, "0123456789");
	text_add(text, "\n");
}

static void add_definitions(struct buffer *text, unsigned id)
{
	text_add(text, "FILE %u short%u.c\nINLINE_ORIGIN %u a%u", id, id, id, id);
	add_padding(text, id % 3 ? 10 : 1);
}

static void add_function(struct buffer *text, unsigned addr, unsigned i, unsigned ids, uint64_t *seed)
{
	unsigned lines = next_random(seed) % 20;
	text_add(text, "FUNC %x %x 0 f%u\n", addr, 16 * lines + 16, i);
	for (unsigned k = 0; k < lines; k++)
		text_add(text, "INLINE %u %u %u %u %x 10\n", k % 3, k, next_random(seed) % ids, next_random(seed) % ids,
		        addr + 16 * (k / 3));
	for (unsigned k = 0; k < lines; k++)
		text_add(text, "%x 10 %u %u\n", addr + 16 * k, next_random(seed) % 500, next_random(seed) % ids);
}

static struct buffer make(unsigned functions, unsigned what, uint64_t own)
{
	uint64_t seed = seed_of(own);
	struct buffer text = text_new();
	unsigned ids = 50;
	text_add(&text, "MODULE Linux x86_64 0 threads.so\n");
	for (unsigned i = 0; i < ids; i++)
		add_definitions(&text, i);
	for (unsigned i = 0; i < functions; i++) {
		add_function(&text, 0x1000 + 0x100 * i, i, ids, &seed);
		if (what & DEFINE_BETWEEN && i % 3 == 0)
			add_definitions(&text, ids++);
		if (what & LONG_NAMES && i % 50 == 20) {
			text_add(&text, "FUNC %x 10 0 long%u", 0x1080 + 0x100 * i, i);
			add_padding(&text, 110);
		}
		if (i % 7 == 0)
			text_add(&text, "PUBLIC %x 0 p%u\n", 0x10f0 + 0x100 * i, i);
	}
	for (unsigned i = 0; what & LARGE && i < 150000; i++)
		text_add(&text, i ? "%x 1 %u 0\n" : "FUNC %x 100000 0 large %u\n", 0x10000000 + i, i);
	if (what & LATE_DEFINITIONS)
		text_add(&text, "FILE 3 another.c\n");
	if (what & LATE_SYMBOL)
		text_add(&text, "FUNC 1020 8 0 late\n");
	for (unsigned i = 0; i < functions; i++)
		add_function(&text, 0x20000000 + 0x100 * i, i, ids, &seed);
	return text;
}

static void test_same_bytes(void **state)
{
	(void)state;
	for (unsigned what = 0; what <= ALL; what += what < LARGE ? 1 : ALL - LARGE) {
		struct buffer text = make(400, what, what);
		struct offmap *one = map_build(text_str(&text), 0, &plain_options);
		for (unsigned chunk = 1000; chunk < 1000000; chunk *= 30) {
			struct offmap *two = map_build(text_str(&text), chunk, &threaded_options);
			assert_same_maps(one, two);
			offmap_free(two);
		}
		offmap_free(one);
		one = map_build(text_str(&text), 0, &nearest_options);
		struct offmap *two = map_build(text_str(&text), 0, &threaded_nearest);
		assert_same_maps(one, two);
		offmap_free(two);
		offmap_free(one);
		buffer_release(&text);
	}
}

/* The thread comes anywhere, also right before a symbol that it must not have. */
static void test_thread_from_the_middle(void **state)
{
	(void)state;
	for (unsigned what = 0; what < LARGE; what++) {
		struct buffer text = make(100, what, what);
		const uint8_t *late = memmem(text.data, text.len, "FUNC 1020 8 0", 13);
		struct offmap *one = map_build(text_str(&text), 0, &plain_options);
		for (size_t cut = 0; cut < text.len; cut += text.len / 4) {
			struct offmap *two = map_build_cut(text_str(&text), cut, &threaded_options);
			assert_same_maps(one, two);
			offmap_free(two);
		}
		assert_int_equal(late != NULL, (what & LATE_SYMBOL) != 0);
		size_t cut = late ? (size_t)(late - text.data) : 1;
		struct offmap *two = map_build_cut(text_str(&text), cut, &threaded_options);
		assert_same_maps(one, two);
		offmap_free(two);
		offmap_free(one);
		buffer_release(&text);
	}
}

/* Files that have the threads wait for each other with each line. */
static void test_often_redefined(void **state)
{
	struct buffer text = text_new();
	(void)state;
	text_add(&text, "MODULE Linux x86_64 0 often.so\n");
	for (unsigned i = 0; i < 5000; i++)
		text_add(&text, "FUNC %x 10 0 f\nFILE 1 name%u.c\n", 0x1000 + 16 * i, i);
	struct offmap *one = map_build(text_str(&text), 0, &plain_options);
	struct offmap *two = map_build(text_str(&text), 0, &threaded_options);
	assert_same_maps(one, two);
	offmap_free(one);
	offmap_free(two);
	buffer_release(&text);
}

/* Given up anywhere, also within a function. */
static void test_given_up(void **state)
{
	struct buffer text = make(300, DEFINE_BETWEEN | LONG_NAMES, 1);
	(void)state;
	for (size_t len = 1; len < text.len; len += 977) {
		struct breakpad *p = breakpad_new(&threaded_options, str_from(""));
		assert_non_null(p);
		assert_int_equal(breakpad_feed(p, text.data, len, NULL), ERR_OK);
		breakpad_free(p);
	}
	buffer_release(&text);
}

static enum err build_short_of_memory(const struct buffer *text, long allocations)
{
	struct offmap *m = NULL;
	enum err err = ERR_NO_MEMORY;
	atomic_store(&allocations_left, allocations);
	struct breakpad *p = breakpad_new(&threaded_options, str_from(""));
	if (p) {
		err = breakpad_feed(p, text->data, text->len, NULL);
		if (!err)
			err = breakpad_finish(p, &m, NULL);
	}
	atomic_store(&allocations_left, 1L << 60);
	breakpad_free(p);
	offmap_free(m);
	return err;
}

static void test_no_memory(void **state)
{
	struct buffer text = make(150, ALL & ~LARGE, 2);
	enum err err = ERR_NO_MEMORY;
	long n = 0;
	(void)state;
	for (; n < 100000 && err; n += 1 + n / 50) {
		err = build_short_of_memory(&text, n);
		assert_true(!err || err == ERR_NO_MEMORY);
	}
	assert_true(n > 50 && !err);
	buffer_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_same_bytes),
	        cmocka_unit_test(test_thread_from_the_middle),
	        cmocka_unit_test(test_often_redefined),
	        cmocka_unit_test(test_given_up),
	        cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
