/* SPDX-License-Identifier: Apache-2.0 */
/* The account of memory. */
#include <config.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/account.h"

enum { MEMORY = 8000 };

static int open_account(void **state)
{
	(void)state;
	account_start(MEMORY);
	account_note_resident(0);
	account_on_full(NULL, NULL);
	return 0;
}

static int close_account(void **state)
{
	(void)state;
	const char *kind = account_unbalanced();
	account_start(0);
	return kind || account_used();
}

static void without_a_limit_all_is_taken(void **state)
{
	(void)state;
	account_start(0);
	assert_true(account_left() == UINT64_MAX);
	assert_true(account_take(ACCOUNT_TEXTS, UINT64_MAX / 4));
	assert_true(account_used_for(ACCOUNT_TEXTS) == UINT64_MAX / 4);
	account_add(ACCOUNT_TEXTS, -(int64_t)(UINT64_MAX / 4));
}

static void the_last_eighth_is_for_small_ones(void **state)
{
	(void)state;
	assert_int_equal(account_left(), 7000);
	assert_false(account_take(ACCOUNT_TEXTS, 7001));
	assert_true(account_take(ACCOUNT_TEXTS, 7000));
	assert_int_equal(account_left(), 0);
	assert_false(account_take(ACCOUNT_PAGES, 1));
	assert_false(account_take_small(ACCOUNT_PAGES, 1001));
	assert_true(account_take_small(ACCOUNT_PAGES, 1000));
	assert_int_equal(account_used(), MEMORY);
	account_add(ACCOUNT_BODIES, 500); /* what must go on is not asked */
	assert_int_equal(account_left(), 0);
	assert_false(account_take_small(ACCOUNT_PAGES, 1));
	account_add(ACCOUNT_TEXTS, -7000);
	assert_int_equal(account_left(), 5500);
	assert_int_equal(account_used_for(ACCOUNT_PAGES), 1000);
	assert_string_equal(account_unbalanced(), "pages");
	account_add(ACCOUNT_PAGES, -1000);
	assert_string_equal(account_unbalanced(), "bodies");
	account_add(ACCOUNT_BODIES, -500);
}

static void what_nobody_charges_is_measured(void **state)
{
	(void)state;
	assert_true(account_take(ACCOUNT_TEXTS, 1000));
	account_note_resident(1800); /* 800 of them are code, stacks and the like */
	assert_int_equal(account_total(), 7200);
	assert_int_equal(account_left(), 5300);
	account_note_resident(500); /* charged, but not yet touched: it comes back slowly */
	assert_in_range(account_total(), 7201, 7300);
	for (unsigned i = 0; i < 200; i++)
		account_note_resident(500);
	assert_int_equal(account_total(), MEMORY);
	account_note_resident(10000);
	assert_int_equal(account_total(), 0);
	assert_false(account_take_small(ACCOUNT_TEXTS, 1));
	account_add(ACCOUNT_TEXTS, -1000);
}

static void what_is_there_at_the_start_stays(void **state)
{
	(void)state;
	account_start(MEMORY);
	account_note_resident(300);
	account_note_resident(900);
	for (unsigned i = 0; i < 200; i++)
		account_note_resident(0);
	assert_int_equal(account_beside(), 300);
}

/* Between two measurements: by whoever takes much. */
static void who_takes_much_measures(void **state)
{
	(void)state;
	const uint64_t memory = UINT64_C(1) << 40;
	account_start(memory);
	assert_true(account_take(ACCOUNT_TEXTS, 1 << 20));
	account_add(ACCOUNT_TEXTS, -(1 << 20));
	assert_in_range(account_beside(), 1, memory);
}

struct room {
	uint64_t frees, asked;
	unsigned calls;
};

static void make_room(void *arg, uint64_t bytes)
{
	struct room *room = arg;
	room->asked = bytes;
	room->calls++;
	account_add(ACCOUNT_PAGES, -(int64_t)room->frees);
}

static void room_is_made_before_anything_is_refused(void **state)
{
	(void)state;
	struct room room = {.frees = 600};
	account_on_full(make_room, &room);
	assert_true(account_take(ACCOUNT_PAGES, 6500));
	assert_int_equal(room.calls, 0);
	assert_true(account_take(ACCOUNT_TEXTS, 1000));
	assert_int_equal(room.calls, 1);
	assert_int_equal(room.asked, 500);
	assert_false(account_take(ACCOUNT_TEXTS, 3000));
	assert_int_equal(room.calls, 2);
	assert_int_equal(account_used_for(ACCOUNT_PAGES), 5300);
	assert_int_equal(account_used_for(ACCOUNT_TEXTS), 1000);
	account_add(ACCOUNT_PAGES, -5300);
	account_add(ACCOUNT_TEXTS, -1000);
}

enum { THREADS = 4, TURNS = 20000, PIECE = 3000 };

/* Takes and gives back; two of them fit at a time, a third does not. */
static void *take_and_give(void *arg)
{
	unsigned *most = arg;
	for (unsigned i = 0; i < TURNS; i++) {
		if (!account_take(ACCOUNT_RECORDS, PIECE))
			continue;
		if (account_used() > *most)
			*most = (unsigned)account_used();
		account_add(ACCOUNT_RECORDS, -PIECE);
	}
	return NULL;
}

static void threads_never_take_more_than_there_is(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	unsigned most[THREADS] = {0};
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &most[i]), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < THREADS; i++)
		assert_in_range(most[i], 0, 2 * PIECE);
	assert_int_equal(account_used(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(without_a_limit_all_is_taken, open_account, close_account),
	        cmocka_unit_test_setup_teardown(the_last_eighth_is_for_small_ones, open_account, close_account),
	        cmocka_unit_test_setup_teardown(what_nobody_charges_is_measured, open_account, close_account),
	        cmocka_unit_test_setup_teardown(what_is_there_at_the_start_stays, open_account, close_account),
	        cmocka_unit_test_setup_teardown(who_takes_much_measures, open_account, close_account),
	        cmocka_unit_test_setup_teardown(room_is_made_before_anything_is_refused, open_account, close_account),
	        cmocka_unit_test_setup_teardown(threads_never_take_more_than_there_is, open_account, close_account),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
