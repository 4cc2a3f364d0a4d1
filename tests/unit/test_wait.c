/* SPDX-License-Identifier: Apache-2.0 */
/* Requests' waits for loads. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "modules/wait.h"

static unsigned told;

static void tell(struct load_wait *w)
{
	told++;
	free(w); /* as a session that replies at once */
}

static bool is_gone(const struct load_wait *w)
{
	(void)w;
	return true;
}

static bool is_there(const struct load_wait *w)
{
	(void)w;
	return false;
}

/* Two loads, and two requests that want both. */
static void test_each_load_ends_the_wants_of_its_own(void **state)
{
	struct module_want wants[2][2] = {0};
	struct load_wait waits[2] = {{.wants = wants[0], .want_count = 2}, {.wants = wants[1], .want_count = 2}};
	struct waiters loads[2] = {0};
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		wait_join(&waits[i / 2], &wants[i / 2][i % 2], &loads[i % 2]);
	assert_int_equal(waits[0].pending, 2);
	while (!LIST_EMPTY(&loads[0]))
		wait_leave(LIST_FIRST(&loads[0]));
	assert_int_equal(waits[0].pending, 1);
	assert_int_equal(waits[1].pending, 1);
	wait_leave_all(&waits[0]);
	assert_int_equal(waits[0].pending, 0);
	assert_ptr_equal(LIST_FIRST(&loads[1]), &wants[1][1]);
	assert_null(LIST_NEXT(&wants[1][1], own.next));
	wait_join(&waits[0], &wants[0][0], &loads[1]); /* one that has left may wait again */
	assert_int_equal(waits[0].pending, 1);
	wait_leave_all(&waits[0]);
	wait_leave_all(&waits[1]);
	assert_true(LIST_EMPTY(&loads[1]));
}

static void test_a_wait_ends_at_its_deadline_or_when_its_client_is_gone(void **state)
{
	(void)state;
	struct load_wait there = {.gone = is_there, .deadline = 100}, gone = {.gone = is_gone, .deadline = 100};
	assert_false(wait_is_late(&there, 99, true));
	assert_true(wait_is_late(&there, 100, false));
	assert_false(wait_is_late(&gone, 99, false)); /* not asked each time */
	assert_true(wait_is_late(&gone, 99, true));
}

/* Those that are told may be freed by that. */
static void test_each_wait_that_is_over_is_told_once(void **state)
{
	enum { COUNT = 10 };
	struct waits all = {0};
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	struct load_wait *waits[COUNT];
	(void)state;
	for (unsigned i = 0; i < COUNT; i++) {
		waits[i] = calloc(1, sizeof **waits);
		assert_non_null(waits[i]);
		waits[i]->done = tell;
		waits_begin(&all, waits[i]);
	}
	assert_int_equal(all.count, COUNT);
	for (unsigned i = 0; i < COUNT; i += 2)
		waits_end(&all, waits[i], &over);
	assert_int_equal(all.count, COUNT / 2);
	waits_call_done(&over);
	assert_int_equal(told, COUNT / 2);
	for (unsigned i = 1; i < COUNT; i += 2) {
		assert_true(waits[i]->waiting);
		waits_end(&all, waits[i], &over);
	}
	waits_call_done(&over);
	assert_int_equal(told, COUNT);
	assert_int_equal(all.count, 0);
	assert_true(LIST_EMPTY(&all.list));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_each_load_ends_the_wants_of_its_own),
	        cmocka_unit_test(test_a_wait_ends_at_its_deadline_or_when_its_client_is_gone),
	        cmocka_unit_test(test_each_wait_that_is_over_is_told_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
