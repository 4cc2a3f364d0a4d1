/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests may load. The linker sends the look at resident memory to the test (--wrap). */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../src/modules/loads.c"

uint64_t __wrap_resident_bytes(void);

enum { PLACES = 2, LINE = 3, MOST = 1000 };

static uint64_t resident;
static const struct config config = {
        .cold_requests = PLACES, .cold_queue = LINE, .cold_wait = 5 * SECOND, .memory = MOST};
static struct load_context context;
static struct loads loads;
static struct wait_list over;

uint64_t __wrap_resident_bytes(void)
{
	return resident;
}

static void open_with(const struct config *c)
{
	resident = 0;
	LIST_INIT(&over);
	context.config = c;
	loads_init(&loads, &context, 1);
}

static int open_gate(void **state)
{
	(void)state;
	open_with(&config);
	return 0;
}

/* With what the requests hold that a test leaves in the line. */
static int close_gate(void **state)
{
	struct share *share;
	(void)state;
	for (unsigned i = 0; i < SHARE_CHAINS; i++)
		while ((share = LIST_FIRST(&loads.shares[i]))) {
			LIST_REMOVE(share, chain);
			free(share);
		}
	loads_release(&loads);
	return 0;
}

/* A request of this client. */
static struct load_wait request_of(unsigned client)
{
	struct load_wait w = {.client = {0, client}};
	w.share = share_get(&loads, w.client);
	assert_non_null(w.share);
	return w;
}

/* Requests of as many clients. */
static void make_requests(struct load_wait *w, unsigned count)
{
	static unsigned client;
	for (unsigned i = 0; i < count; i++)
		w[i] = request_of(++client);
}

static void free_requests(struct load_wait *w, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		share_put(w[i].share);
}

static unsigned held_back; /* requests, for what their clients hold */

static enum load_result enter_counted(struct load_wait *w, bool starts)
{
	bool held = false;
	enum load_result result = enter(&loads, w, starts, &held);
	held_back += held;
	return result;
}

static enum load_result come(struct load_wait *w)
{
	return enter_counted(w, true);
}

/* Whoever has just been let in; NULL: nobody. */
static struct load_wait *let_in(void)
{
	admit(&loads, false, &over);
	struct load_wait *w = LIST_FIRST(&over);
	if (w)
		LIST_REMOVE(w, next);
	assert_true(LIST_EMPTY(&over));
	return w;
}

/* Gives its place back, and lets nobody in yet. */
static void go(struct load_wait *w)
{
	move(&loads, w, WAIT_AWAY);
}

static void test_places_then_a_line_then_refusal(void **state)
{
	struct load_wait w[PLACES + LINE + 1];
	make_requests(w, PLACES + LINE + 1);
	int64_t refused = metric_get(M_COLD_REFUSED);
	(void)state;
	for (unsigned i = 0; i < PLACES; i++)
		assert_int_equal(come(&w[i]), LOAD_READY);
	int64_t before = clock_now();
	for (unsigned i = PLACES; i < PLACES + LINE; i++) {
		assert_int_equal(come(&w[i]), LOAD_WAIT);
		assert_true(w[i].line_end >= before + config.cold_wait);
		assert_true(w[i].line_end <= clock_now() + config.cold_wait);
	}
	assert_int_equal(come(&w[PLACES + LINE]), LOAD_REFUSED);
	assert_int_equal(w[PLACES + LINE].state, WAIT_AWAY);
	assert_int_equal(metric_get(M_COLD_REFUSED), refused + 1);
	assert_int_equal(loads.held[HELD_WAITS], LINE);
}

static void test_a_free_place_goes_to_the_first_in_line(void **state)
{
	struct load_wait w[PLACES + LINE];
	make_requests(w, PLACES + LINE);
	(void)state;
	for (unsigned i = 0; i < PLACES + LINE; i++)
		come(&w[i]);
	assert_null(let_in());
	move(&loads, &w[PLACES + 1], WAIT_AWAY); /* its time is over, or its client gone */
	end_wait(&loads, &w[PLACES + 1], &over);
	LIST_INIT(&over);
	go(&w[0]);
	assert_ptr_equal(let_in(), &w[PLACES]);
	assert_int_equal(w[PLACES].state, WAIT_PLACED);
	assert_null(let_in());
	go(&w[1]);
	assert_ptr_equal(let_in(), &w[PLACES + 2]);
	go(&w[PLACES]);
	assert_null(let_in());
	assert_int_equal(come(&w[PLACES + 1]), LOAD_READY); /* who was late may come again */
	assert_int_equal(loads.held[HELD_WAITS], 0);
}

static void test_who_only_joins_needs_no_place(void **state)
{
	struct load_wait w[PLACES + LINE], joins, many[100];
	make_requests(w, PLACES + LINE);
	make_requests(&joins, 1);
	make_requests(many, sizeof many / sizeof *many);
	(void)state;
	for (unsigned i = 0; i < PLACES + LINE; i++)
		come(&w[i]);
	held_back = 0;
	assert_int_equal(enter_counted(&joins, false), LOAD_READY);
	assert_int_equal(held_back, 0);
	assert_int_equal(joins.state, WAIT_AWAY);
	for (unsigned i = 0; i < sizeof many / sizeof *many; i++) {
		assert_int_equal(enter_counted(&many[i], false), LOAD_READY);
		begin_wait(&loads, &many[i]);
	}
	assert_int_equal(enter_counted(&joins, false), LOAD_READY);
}

static void test_nobody_comes_in_while_memory_is_full(void **state)
{
	struct load_wait w[PLACES + 1], late;
	bool idle;
	make_requests(w, PLACES + 1);
	make_requests(&late, 1);
	(void)state;
	for (unsigned i = 0; i <= PLACES; i++)
		come(&w[i]);
	resident = MOST;
	assert_false(is_memory_full(&loads));
	resident = MOST + 1;
	go(&w[0]);
	assert_int_equal(come(&late), LOAD_REFUSED);
	assert_null(let_in());
	resident = 0; /* until it is noted: the last look holds */
	assert_int_equal(enter_counted(&late, false), LOAD_REFUSED);
	assert_null(let_in());
	assert_true(loads_note_memory(&loads, false, &idle));
	assert_false(loads_note_memory(&loads, false, &idle));
	assert_ptr_equal(let_in(), &w[PLACES]);
}

/* ---- clients ---- */

static const struct config wide = {.cold_requests = 8, .cold_queue = 8, .cold_wait = 5 * SECOND, .memory = MOST};

static int open_wide(void **state)
{
	(void)state;
	open_with(&wide);
	return 0;
}

/* The last places are for clients that hold none, and so are the last in the line. */
static void test_one_client_does_not_take_all_places(void **state)
{
	struct load_wait a[20], b[3], c = request_of(3);
	enum load_result expected[20];
	(void)state;
	held_back = 0;
	for (unsigned i = 0; i < 20; i++)
		expected[i] = i < 6 ? LOAD_READY : i < 12 ? LOAD_WAIT : LOAD_REFUSED;
	for (unsigned i = 0; i < 20; i++) {
		a[i] = request_of(1);
		assert_int_equal(come(&a[i]), expected[i]);
	}
	assert_int_equal(held_back, 14);
	for (unsigned i = 0; i < 3; i++)
		b[i] = request_of(2);
	assert_int_equal(come(&b[0]), LOAD_READY);
	assert_int_equal(come(&c), LOAD_READY);
	assert_int_equal(come(&b[1]), LOAD_WAIT);
	/* the next place goes to who holds fewer, though the other came first */
	go(&a[0]);
	go(&a[1]);
	go(&a[2]);
	assert_ptr_equal(let_in(), &b[1]);
	assert_null(let_in()); /* the last quarter */
	free_requests(a, 20);
	free_requests(b, 3);
	free_requests(&c, 1);
	for (unsigned i = 0; i < SHARE_CHAINS; i++)
		assert_true(LIST_EMPTY(&loads.shares[i]));
}

static bool may(uint64_t has, uint64_t used, uint64_t most, bool others_wait)
{
	struct share share = {.held = {[HELD_PLACES] = has, [HELD_LINE] = 1}};
	loads.held[HELD_PLACES] = used;
	loads.held[HELD_LINE] = 1 + others_wait;
	return may_hold(&loads, &share, HELD_PLACES, most, HELD_LINE);
}

static void test_no_more_than_half_while_others_wait(void **state)
{
	(void)state;
	assert_true(may(5, 5, 8, false));
	assert_true(may(3, 5, 8, true));
	assert_false(may(4, 5, 8, true));
	assert_false(may(1, 6, 8, false)); /* the last quarter */
	assert_true(may(0, 7, 8, true));
	assert_false(may(0, 8, 8, false));
	assert_true(may(0, 0, 1, true));
	assert_false(may(1, 1, 1, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_places_then_a_line_then_refusal, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_a_free_place_goes_to_the_first_in_line, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_who_only_joins_needs_no_place, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_nobody_comes_in_while_memory_is_full, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_one_client_does_not_take_all_places, open_wide, close_gate),
	        cmocka_unit_test_setup_teardown(test_no_more_than_half_while_others_wait, open_gate, close_gate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
