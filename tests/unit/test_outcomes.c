/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of failures: how long each kind is remembered, and how many are. */
#include <config.h>

#include "cache/outcomes.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "seed.h"

enum { THREADS = 4 };

static struct module_hash hash_of(unsigned number)
{
	struct module_hash h;
	char name[20];
	snprintf(name, sizeof name, "%u", number);
	assert_true(module_hash_make(&h, "test", str_from(name), str_from("0")));
	return h;
}

static struct outcomes *make_failures(uint64_t max, int64_t ttl)
{
	const struct config c = {.failures_max = max,
	        .missing_ttl = ttl * 2,
	        .corrupt_ttl = ttl * 3,
	        .failure_ttl_min = ttl,
	        .failure_ttl_max = ttl * 10};
	struct outcomes *f = outcomes_new(&c);
	assert_non_null(f);
	return f;
}

/* Sets one and checks for how long it is remembered. */
static void set_for(struct outcomes *f, unsigned module, enum outcome_class class, int64_t ttl)
{
	struct module_hash h = hash_of(module), spelling = hash_of(7);
	int64_t before = clock_now();
	int64_t until =
	        outcomes_set(f, &h, &spelling, &(struct outcome){.class = class, .marker = 5, .checked = before});
	struct outcome got = outcomes_get(f, &h, &spelling);
	assert_int_equal(got.class, class);
	assert_int_equal(got.marker, 5);
	assert_true(got.checked == before);
	assert_true(got.until == until && until >= before + ttl && until <= clock_now() + ttl);
}

static void test_failure_seconds_are_rounded_up(void **state)
{
	static const struct {
		int64_t left;
		unsigned seconds;
	} cases[] = {{-SECOND, 1}, {0, 1}, {1, 1}, {SECOND - 1, 1}, {SECOND, 1}, {SECOND + 1, 2}, {10 * SECOND, 10},
	        {10 * SECOND - 1, 10}, {10 * SECOND + 1, 11}};
	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(failure_seconds(77 * SECOND + cases[i].left, 77 * SECOND), cases[i].seconds);
}

static enum outcome_class class_of(struct outcomes *f, unsigned module, unsigned spelled)
{
	struct module_hash h = hash_of(module), spelling = hash_of(spelled);
	return outcomes_get(f, &h, &spelling).class;
}

static void test_failure_classes(void **state)
{
	const int64_t ttl = 1000 * SECOND;
	struct outcomes *f = make_failures(100, ttl);
	(void)state;
	assert_int_equal(class_of(f, 1, 7), OUTCOME_NONE);
	set_for(f, 1, FAILURE_MISSING, 2 * ttl);
	set_for(f, 2, FAILURE_CORRUPT, 3 * ttl);
	set_for(f, 3, FAILURE_TEMPORARY, ttl);
	/* again, and none of the others is touched */
	set_for(f, 1, FAILURE_MISSING, 2 * ttl);
	assert_int_equal(metric_get(M_FAILURES_REMEMBERED), 3);
	assert_int_equal(class_of(f, 2, 7), FAILURE_CORRUPT);
	/* another spelling of the id is another question */
	assert_int_equal(class_of(f, 1, 8), OUTCOME_NONE);
	struct module_hash h = hash_of(1), spelling = hash_of(7);
	outcomes_checked(f, &h, &spelling, 12345);
	assert_int_equal(outcomes_get(f, &h, &spelling).checked, 12345);
	spelling = hash_of(9);
	outcomes_checked(f, &h, &spelling, 1);
	outcomes_free(f);
	outcomes_free(NULL);
	assert_int_equal(metric_get(M_FAILURES_REMEMBERED), 0);
}

static void set_corrupt(struct outcomes *f, unsigned module, unsigned source)
{
	struct module_hash h = hash_of(module), spelling = hash_of(7);
	struct outcome o = {.class = FAILURE_CORRUPT, .checked = clock_now(), .source = source};
	outcomes_set(f, &h, &spelling, &o);
	outcomes_source(f, source, false);
}

/* Five corrupt files in a row, and a good one: what was corrupt before is asked for again, and only that. */
static void test_a_mended_source_is_believed(void **state)
{
	struct outcomes *f = make_failures(100, 1000 * SECOND);
	(void)state;
	set_corrupt(f, 50, 2);
	set_for(f, 51, FAILURE_MISSING, 2000 * SECOND);
	for (unsigned row = 4; row <= 5; row++) {
		for (unsigned i = 0; i < row; i++)
			set_corrupt(f, i, 1);
		outcomes_source(f, 2, true);
		assert_int_equal(class_of(f, 0, 7), FAILURE_CORRUPT);
		outcomes_source(f, 1, true);
		for (unsigned i = 0; i < row; i++)
			assert_int_equal(class_of(f, i, 7), row == 4 ? FAILURE_CORRUPT : OUTCOME_NONE);
	}
	assert_int_equal(class_of(f, 50, 7), FAILURE_CORRUPT);
	assert_int_equal(class_of(f, 51, 7), FAILURE_MISSING);
	set_corrupt(f, 1, 1);
	assert_int_equal(class_of(f, 1, 7), FAILURE_CORRUPT);
	outcomes_free(f);
}

static void wait_until_after(int64_t then)
{
	while (clock_now() <= then)
		;
}

/* One module after the other, and each for as long as nothing else comes of it. */
static void test_junk_is_looked_at_again(void **state)
{
	const struct config c = {.failures_max = 100, .corrupt_ttl = 1000 * SECOND, .failure_ttl_max = 20 * MS};
	struct outcomes *f = outcomes_new(&c);
	(void)state;
	assert_non_null(f);
	for (unsigned i = 0; i < 5; i++)
		set_corrupt(f, i, 1);
	wait_until_after(clock_now() + 20 * MS);
	assert_int_equal(class_of(f, 3, 7), OUTCOME_NONE);
	assert_int_equal(class_of(f, 3, 7), OUTCOME_NONE);
	wait_until_after(clock_now() + 20 * MS);
	assert_int_equal(class_of(f, 4, 7), OUTCOME_NONE);
	outcomes_free(f);
}

static void test_failures_double(void **state)
{
	const int64_t ttl = 1000 * SECOND;
	struct outcomes *f = make_failures(100, ttl);
	(void)state;
	set_for(f, 1, FAILURE_TEMPORARY, ttl);
	set_for(f, 1, FAILURE_TEMPORARY, 2 * ttl);
	set_for(f, 1, FAILURE_TEMPORARY, 4 * ttl);
	set_for(f, 1, FAILURE_TEMPORARY, 8 * ttl);
	set_for(f, 1, FAILURE_TEMPORARY, 10 * ttl);
	set_for(f, 1, FAILURE_TEMPORARY, 10 * ttl);
	set_for(f, 2, FAILURE_TEMPORARY, ttl);
	/* another class ends the row */
	set_for(f, 1, FAILURE_MISSING, 2 * ttl);
	set_for(f, 1, FAILURE_TEMPORARY, ttl);
	set_for(f, 1, FAILURE_TEMPORARY, 2 * ttl);
	/* and so does forgetting */
	struct module_hash h = hash_of(1);
	outcomes_forget(f, &h);
	set_for(f, 1, FAILURE_TEMPORARY, ttl);
	outcomes_free(f);
}

/* They end by themselves, and a temporary one is counted as one in a row all the same. */
static void test_failures_expire(void **state)
{
	struct outcomes *f = make_failures(100, 1);
	struct module_hash h = hash_of(1), spelling = hash_of(7);
	(void)state;
	for (int class = FAILURE_MISSING; class <= FAILURE_TEMPORARY; class ++) {
		outcomes_set(f, &h, &spelling, &(struct outcome){.class = (enum outcome_class) class});
		int64_t set = clock_now();
		while (clock_now() <= set + 10)
			;
		assert_int_equal(class_of(f, 1, 7), OUTCOME_NONE);
	}
	outcomes_free(f);
	/* doubled after its end: the first lasts a nanosecond, the second ever so long */
	const struct config c = {.failures_max = 10, .failure_ttl_min = 1, .failure_ttl_max = 2000 * SECOND};
	f = outcomes_new(&c);
	assert_non_null(f);
	for (unsigned i = 0; i < 41; i++)
		outcomes_set(f, &h, &spelling, &(struct outcome){.class = FAILURE_TEMPORARY});
	assert_int_equal(class_of(f, 1, 7), FAILURE_TEMPORARY);
	assert_true(outcomes_get(f, &h, &spelling).until > clock_now() + 1000 * SECOND);
	outcomes_free(f);
}

static void test_failures_are_bounded(void **state)
{
	struct outcomes *f = make_failures(50, 1000 * SECOND);
	(void)state;
	for (unsigned i = 0; i < 50; i++)
		set_for(f, i, FAILURE_MISSING, 2000 * SECOND);
	/* seen again, the first is the youngest */
	set_for(f, 0, FAILURE_MISSING, 2000 * SECOND);
	for (unsigned i = 50; i < 5000; i++) {
		set_for(f, i, FAILURE_MISSING, 2000 * SECOND);
		assert_int_equal(metric_get(M_FAILURES_REMEMBERED), 50);
		assert_int_equal(class_of(f, 0, 7), i < 99 ? FAILURE_MISSING : OUTCOME_NONE);
		unsigned oldest = i < 99 ? i - 48 : i - 49;
		assert_int_equal(class_of(f, oldest, 7), FAILURE_MISSING);
		assert_int_equal(class_of(f, oldest - 1, 7), OUTCOME_NONE);
	}
	outcomes_free(f);
}

static void test_forget_all_spellings(void **state)
{
	struct outcomes *f = make_failures(100, 1000 * SECOND);
	struct module_hash one = hash_of(1), two = hash_of(2);
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		struct module_hash spelling = hash_of(i);
		outcomes_set(f, &one, &spelling, &(struct outcome){.class = FAILURE_CORRUPT});
		outcomes_set(f, &two, &spelling, &(struct outcome){.class = FAILURE_MISSING});
	}
	outcomes_forget(f, &one);
	assert_int_equal(metric_get(M_FAILURES_REMEMBERED), 10);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(class_of(f, 1, i), OUTCOME_NONE);
		assert_int_equal(class_of(f, 2, i), FAILURE_MISSING);
	}
	outcomes_forget(f, &one);
	outcomes_free(f);
}

/* A text of any length leaves what stands behind it alone, and ends. */
static void test_a_reason_ends_in_its_room(void **state)
{
	struct {
		char why[FAILURE_WHY_SIZE], next[8];
	} room;
	char text[2 * FAILURE_WHY_SIZE];
	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	for (size_t len = FAILURE_WHY_SIZE - 2; len < FAILURE_WHY_SIZE + 3; len++) {
		memset(&room, '!', sizeof room);
		failure_why(room.why, text + sizeof text - 1 - len);
		assert_int_equal(
		        strnlen(room.why, sizeof room.why), len < FAILURE_WHY_SIZE ? len : FAILURE_WHY_SIZE - 1);
		assert_memory_equal(room.next, "!!!!!!!!", sizeof room.next);
	}
	failure_why(room.why, "a\tb\x7f\xc3");
	assert_string_equal(room.why, "a?b??");
}

static void *fail_and_ask(void *arg)
{
	struct outcomes *f = arg;
	uint64_t seed = seed_of((uint64_t)(uintptr_t)&seed);
	for (unsigned i = 0; i < 5000; i++) {
		struct module_hash h = {{(uint8_t)next_random(&seed)}}, spelling = {{(uint8_t)(i % 3)}};
		outcomes_set(f, &h, &spelling, &(struct outcome){.class = FAILURE_MISSING + i % 3, .marker = i});
		outcomes_get(f, &h, &spelling);
		outcomes_checked(f, &h, &spelling, i);
		if (i % 10 == 0)
			outcomes_forget(f, &h);
	}
	return NULL;
}

static void test_failures_from_threads(void **state)
{
	struct outcomes *f = make_failures(64, 1000 * SECOND);
	pthread_t threads[THREADS];
	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fail_and_ask, f), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_in_range(metric_get(M_FAILURES_REMEMBERED), 1, 64);
	outcomes_free(f);
	assert_int_equal(metric_get(M_FAILURES_REMEMBERED), 0);
}

static int setup(void **state)
{
	(void)state;
	return metric_get(M_FAILURES_REMEMBERED) != 0;
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(test_failure_classes),
	        TEST(test_a_mended_source_is_believed),
	        TEST(test_junk_is_looked_at_again),
	        TEST(test_failures_double),
	        TEST(test_failures_expire),
	        TEST(test_failure_seconds_are_rounded_up),
	        TEST(test_failures_are_bounded),
	        TEST(test_forget_all_spellings),
	        TEST(test_a_reason_ends_in_its_room),
	        TEST(test_failures_from_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
