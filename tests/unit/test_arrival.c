/* SPDX-License-Identifier: Apache-2.0 */
/* A text that arrives in pieces, read by one thread or two. The linker sends the calls below to the test (--wrap). */
#include <config.h>

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "symfiles/arrival.h"
#include "offmap_tools.h"
#include "seed.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg);
unsigned __wrap_cores_count(void);
uint8_t *__real_block_get(struct block_pool *p);
uint8_t *__wrap_block_get(struct block_pool *p);

static bool may_start; /* another thread */
static unsigned started;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg)
{
	if (!may_start)
		return EAGAIN;
	started++;
	return __real_pthread_create(thread, attr, run, arg);
}

unsigned __wrap_cores_count(void)
{
	return 2;
}

static atomic_int blocks_left = INT_MAX;

uint8_t *__wrap_block_get(struct block_pool *p)
{
	return atomic_fetch_sub(&blocks_left, 1) > 0 ? __real_block_get(p) : NULL;
}

/* Of the large text: more than a reader may be behind. */
static unsigned large_blocks(void)
{
	return slowness() > 1 ? 14 : 24;
}

static struct block_pool *pool;
static atomic_uint idle_makers;
static struct buffer large;
static atomic_uint readers;

static int make_text(void **state)
{
	(void)state;
	pool = block_pool_new(0);
	assert_non_null(pool);
	large = text_new();
	text_add(&large, "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 f.so\nFILE 1 f.c\n");
	for (unsigned i = 0; large.len < large_blocks() * BLOCK_SIZE; i++)
		text_add(&large, "FUNC %x 10 0 function_%u\n%x 8 %u 1\n", 16 * i, i, 16 * i, i);
	return 0;
}

static int free_text(void **state)
{
	(void)state;
	buffer_release(&large);
	assert_int_equal(block_pool_used(pool), 0);
	block_pool_free(pool);
	return 0;
}

/* Puts up to `most` bytes of the text at a time into the sink. Returns how many it took. */
static size_t put(const struct bucket_sink *sink, const char *text, size_t len, size_t most)
{
	size_t at = 0;
	for (size_t n; at < len; at += n) {
		uint8_t *data = sink->space(sink->arg, &n);
		if (!data)
			break;
		assert_true(n > 0);
		n = n < most ? n : most;
		n = n < len - at ? n : len - at;
		memcpy(data, text + at, n);
		if (!sink->commit(sink->arg, n))
			break;
	}
	return at;
}

struct taken {
	struct arrival in;
	struct offmap *root, *all;
	size_t len; /* bytes that the sink took */
};

static struct taken take(struct str text, size_t most, bool whole, const struct offmap_options *options)
{
	struct taken t;
	struct symmap *map = symmap_new(options, &idle_makers, str_from(""));
	assert_non_null(map);
	unsigned others = readers;
	started = 0;
	arrival_begin(&t.in, map, pool, &readers);
	struct bucket_sink sink = arrival_sink(&t.in);
	t.len = put(&sink, text.data, text.len, most);
	t.root = arrival_finish(&t.in, whole && t.len == text.len);
	t.all = t.root ? symmap_all(map) : NULL;
	symmap_unref(map);
	assert_int_equal(readers, others);
	return t;
}

static void assert_taken(struct str text, const struct offmap *expected, size_t most, unsigned threads)
{
	struct taken t = take(text, most, true, &plain_options);
	assert_int_equal(t.in.err, ERR_OK);
	assert_int_equal(started, threads);
	assert_true(t.in.parse_time > 0);
	assert_non_null(t.all);
	assert_same_maps(t.all, expected);
	offmap_free(t.root);
	offmap_free(t.all);
}

static void test_one_thread_and_two_make_the_same_map(void **state)
{
	(void)state;
	static const size_t most[] = {SIZE_MAX, BLOCK_SIZE, BLOCK_SIZE - 1, 100003, 4096};
	struct offmap *expected = map_build(text_str(&large), &plain_options);
	for (unsigned i = 0; i < sizeof most / sizeof *most; i += is_watched_for_races() ? 2 : 1)
		for (unsigned threads = is_watched_for_races(); threads < 2; threads++) {
			may_start = threads;
			assert_taken(text_str(&large), expected, most[i], threads);
		}
	offmap_free(expected);
}

static void test_of_two_cores_one_is_left_to_requests(void **state)
{
	(void)state;
	struct offmap *expected = map_build(text_str(&large), &plain_options);
	may_start = true;
	readers = 1;
	assert_taken(text_str(&large), expected, SIZE_MAX, 0);
	readers = 0;
	offmap_free(expected);
}

/* The last block is full, or has one byte, or lacks one. */
static void test_where_a_text_ends(void **state)
{
	(void)state;
	may_start = true;
	for (size_t blocks = 3; blocks <= (slowness() > 1 ? 4 : 9); blocks++)
		for (int more = -1; more <= 1; more++) {
			size_t len = (size_t)((int)blocks * BLOCK_SIZE + more);
			struct str text = {text_str(&large).data, len};
			struct offmap *expected = map_build(text, &plain_options);
			assert_taken(text, expected, SIZE_MAX, len >= 4 * BLOCK_SIZE);
			offmap_free(expected);
		}
}

static void test_an_error_of_the_other_thread_ends_the_transfer(void **state)
{
	(void)state;
	struct offmap_options options = plain_options;
	may_start = true;
	options.memory_max = 8 * BLOCK_SIZE;
	struct taken t = take(text_str(&large), SIZE_MAX, true, &options);
	assert_int_equal(started, 1);
	assert_int_equal(t.in.err, ERR_TOO_LARGE);
	assert_in_range(t.len, 4 * BLOCK_SIZE, large.len - 1);
	assert_null(t.root);
}

/* No more blocks are needed than the ring has. */
static void test_blocks_run_out(void **state)
{
	(void)state;
	for (unsigned threads = 0; threads < 2; threads++)
		for (int left = 0; left <= ARRIVAL_BLOCKS; left++) {
			may_start = threads;
			blocks_left = left;
			struct taken t = take(text_str(&large), SIZE_MAX, true, &plain_options);
			blocks_left = INT_MAX;
			assert_int_equal(t.in.err, left < (threads ? ARRIVAL_BLOCKS : 1) ? ERR_NO_MEMORY : ERR_OK);
			assert_int_equal(t.root == NULL, t.in.err != ERR_OK);
			offmap_free(t.root);
			offmap_free(t.all);
			assert_int_equal(block_pool_used(pool), 0);
		}
}

static void test_a_text_that_is_not_whole_is_none(void **state)
{
	(void)state;
	may_start = true;
	for (unsigned i = 0; i < rounds(20); i++) {
		struct taken t = take(text_str(&large), 50001 + i, false, &plain_options);
		assert_int_equal(started, 1);
		assert_int_equal(t.in.err, ERR_OK);
		assert_null(t.root);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_one_thread_and_two_make_the_same_map),
	        cmocka_unit_test(test_of_two_cores_one_is_left_to_requests),
	        cmocka_unit_test(test_where_a_text_ends),
	        cmocka_unit_test(test_an_error_of_the_other_thread_ends_the_transfer),
	        cmocka_unit_test(test_blocks_run_out),
	        cmocka_unit_test(test_a_text_that_is_not_whole_is_none),
	};
	return cmocka_run_group_tests(tests, make_text, free_text);
}
