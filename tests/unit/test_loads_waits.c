/* SPDX-License-Identifier: Apache-2.0 */
/* Requests' waits for loads. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../src/modules/loads.c"

static unsigned told;

static void tell(struct load_wait *w)
{
	told++;
	share_put(w->share);
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
	struct load of[2] = {0};
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		join(&of[i % 2], &waits[i / 2], &wants[i / 2][i % 2]);
	assert_int_equal(waits[0].pending, 2);
	while (!LIST_EMPTY(&of[0].waiters))
		leave(LIST_FIRST(&of[0].waiters));
	assert_int_equal(waits[0].pending, 1);
	assert_int_equal(waits[1].pending, 1);
	leave_all(&waits[0]);
	assert_int_equal(waits[0].pending, 0);
	assert_ptr_equal(LIST_FIRST(&of[1].waiters), &wants[1][1]);
	assert_null(LIST_NEXT(&wants[1][1], own.next));
	join(&of[1], &waits[0], &wants[0][0]); /* one that has left may wait again */
	assert_int_equal(waits[0].pending, 1);
	leave_all(&waits[0]);
	leave_all(&waits[1]);
	assert_true(LIST_EMPTY(&of[1].waiters));
}

static const struct config config = {.cold_requests = 1};
static struct load_context context = {.config = &config};
static struct loads loads;

static int begin(void **state)
{
	(void)state;
	told = 0;
	loads_init(&loads, &context, 1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	loads_release(&loads);
	return 0;
}

static struct load_wait *new_wait(bool (*gone)(const struct load_wait *w))
{
	struct load_wait *w = calloc(1, sizeof *w);
	assert_non_null(w);
	w->done = tell;
	w->gone = gone;
	w->deadline = 100;
	assert_non_null(w->share = share_get(&loads, w->client));
	begin_wait(&loads, w);
	return w;
}

static void tick(int64_t now, bool look, unsigned tells)
{
	told = 0;
	loads_tick(&loads, now, look);
	assert_int_equal(told, tells);
}

static void test_a_wait_ends_at_its_deadline_or_when_its_client_is_gone(void **state)
{
	(void)state;
	new_wait(is_there);
	new_wait(is_gone);
	tick(99, false, 0); /* clients are not looked at each time */
	tick(99, true, 1);
	tick(99, true, 0);
	tick(100, false, 1);
	assert_int_equal(loads.held[HELD_WAITS], 0);
}

/* Those that are told may be freed by that. */
static void test_each_wait_that_is_over_is_told_once(void **state)
{
	enum { COUNT = 10 };
	struct wait_list over = LIST_HEAD_INITIALIZER(over);
	struct load_wait *waits[COUNT];
	(void)state;
	for (unsigned i = 0; i < COUNT; i++)
		waits[i] = new_wait(is_there);
	assert_int_equal(loads.held[HELD_WAITS], COUNT);
	for (unsigned part = 0; part < 2; part++) {
		pthread_mutex_lock(&loads.lock);
		for (unsigned i = part; i < COUNT; i += 2) {
			assert_true(waits[i]->waiting);
			end_wait(&loads, waits[i], &over);
		}
		assert_int_equal(told, part * COUNT / 2);
		unlock_and_tell(&loads, &over);
		assert_int_equal(told, (part + 1) * COUNT / 2);
		assert_int_equal(loads.held[HELD_WAITS], (1 - part) * COUNT / 2);
	}
	assert_true(LIST_EMPTY(&loads.waits));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_each_load_ends_the_wants_of_its_own),
	        cmocka_unit_test_setup_teardown(
	                test_a_wait_ends_at_its_deadline_or_when_its_client_is_gone, begin, end),
	        cmocka_unit_test_setup_teardown(test_each_wait_that_is_over_is_told_once, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
