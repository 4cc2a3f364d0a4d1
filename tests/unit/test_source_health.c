/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a source ill, and what does not. With real sources: wire/test_sources.py. */
#include <config.h>

#include "objects/source_health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"

#define LONGEST (10 * SECOND)
#define BOUND (60 * SECOND)

static atomic_uint asked;
static _Atomic int64_t needs; /* nanoseconds that the source takes to answer; told, not spent */

static enum err ask(void *arg, unsigned source, int64_t limit, const atomic_bool *cancel, struct error *e)
{
	(void)arg;
	(void)source;
	(void)cancel;
	enum err err = limit < needs ? error_set(e, ERR_UNAVAILABLE, "no answer in time") : ERR_OK;
	atomic_fetch_add(&asked, 1);
	return err;
}

static struct source_health *start(int64_t takes)
{
	struct source_health *h = source_health_new(0, "http://source/", LONGEST, ask, NULL);
	assert_non_null(h);
	asked = 0;
	needs = takes;
	return h;
}

static void rest(void)
{
	nanosleep(&(struct timespec){0, MS}, NULL);
}

static void wait_asked(unsigned count)
{
	const int64_t until = clock_now() + BOUND;
	while (atomic_load(&asked) < count && clock_now() < until)
		rest();
	assert_true(atomic_load(&asked) >= count);
}

static void wait_good(struct source_health *h)
{
	const int64_t until = clock_now() + BOUND;
	while (!source_health_is_good(h) && clock_now() < until)
		rest();
	assert_true(source_health_is_good(h));
}

static void wait_ill(struct source_health *h)
{
	struct error why;
	const int64_t until = clock_now() + BOUND;
	while (!source_health_is_ill(h, &why) && clock_now() < until)
		rest();
	assert_true(source_health_is_ill(h, &why));
}

static void wait_returned(struct source_health *h)
{
	const int64_t until = clock_now() + BOUND;
	while (!source_health_returned(h, 0) && clock_now() < until)
		rest();
	assert_true(source_health_returned(h, 0));
}

static void test_one_object_that_is_slow_to_fail_costs_the_source_nothing(void **state)
{
	(void)state;
	struct source_health *h = start(0);
	source_health_failed(h, 2 * SECOND);
	wait_asked(1);
	wait_good(h);
	/* transfers that began before it answered */
	source_health_failed(h, LONGEST);
	assert_true(source_health_is_good(h));
	source_health_free(h);
}

static void slow_to_answer(void (*answers)(struct source_health *h, int64_t taken))
{
	struct error why;
	struct source_health *h = start(SECOND);
	for (unsigned i = 0; i < 4; i++)
		answers(h, SECOND);
	source_health_failed(h, 0);
	wait_asked(1);
	source_health_failed(h, 0);
	wait_asked(2); /* so what came of the first is known */
	assert_false(source_health_is_ill(h, &why));
	source_health_free(h);
}

static void test_a_source_that_is_slow_to_answer_is_not_ill_for_one_that_fails(void **state)
{
	(void)state;
	slow_to_answer(source_health_lacks);
	slow_to_answer(source_health_gave); /* it may never lack any */
}

static void test_a_source_that_does_not_answer_is_ill_until_it_does(void **state)
{
	(void)state;
	struct error why;
	struct source_health *h = start(INT64_MAX);
	const int64_t began = clock_now();
	source_health_failed(h, 0);
	wait_asked(2);
	assert_true(source_health_is_ill(h, &why));
	assert_false(source_health_is_good(h));
	assert_string_equal(why.text, "no answer in time");
	needs = 0;
	wait_good(h);
	assert_true(source_health_returned(h, began));
	source_health_free(h);
}

/* As S3 answers for what it lacks to keys that may not list. */
static void test_a_source_that_gives_an_object_soon_is_well(void **state)
{
	(void)state;
	struct error why;
	struct source_health *h = start(INT64_MAX);
	source_health_failed(h, 0);
	wait_asked(2);
	assert_true(source_health_is_ill(h, &why));
	source_health_gave(h, SECOND); /* it may be slow still */
	assert_true(source_health_is_ill(h, &why));
	source_health_gave(h, MS);
	assert_false(source_health_is_ill(h, &why));
	/* it fails as before for what it lacks: what others had for it is not loaded again for each object that it
	 * gives */
	wait_asked(asked + 1);
	source_health_failed(h, 0);
	wait_ill(h);
	source_health_gave(h, MS);
	assert_false(source_health_is_ill(h, &why));
	assert_false(source_health_returned(h, 0));
	source_health_free(h);
}

/* Within a second, as if the thread had been first. */
static void test_what_others_had_is_loaded_again_when_the_source_answers_the_thread_too(void **state)
{
	(void)state;
	struct error why;
	struct source_health *h = start(INT64_MAX);
	source_health_failed(h, 0);
	wait_asked(2);
	needs = 0;
	source_health_gave(h, MS);
	assert_false(source_health_is_ill(h, &why));
	wait_returned(h);
	source_health_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_one_object_that_is_slow_to_fail_costs_the_source_nothing),
	        cmocka_unit_test(test_a_source_that_is_slow_to_answer_is_not_ill_for_one_that_fails),
	        cmocka_unit_test(test_a_source_that_does_not_answer_is_ill_until_it_does),
	        cmocka_unit_test(test_a_source_that_gives_an_object_soon_is_well),
	        cmocka_unit_test(test_what_others_had_is_loaded_again_when_the_source_answers_the_thread_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
