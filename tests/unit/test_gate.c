/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests may load. The linker sends the look at resident memory to the test (--wrap). */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "modules/gate.h"

uint64_t __wrap_resident_bytes(void);

enum { PLACES = 2, LINE = 3, MOST = 1000 };

static uint64_t resident;
static const struct config config = {
        .cold_requests = PLACES, .cold_queue = LINE, .cold_wait = 5 * SECOND, .memory = MOST};
static struct gate gate;
static struct waits waits;
static struct wait_list over;

uint64_t __wrap_resident_bytes(void)
{
	return resident;
}

static int open_gate(void **state)
{
	(void)state;
	resident = 0;
	waits = (struct waits){.count = 0};
	LIST_INIT(&over);
	gate_init(&gate, &config);
	return 0;
}

static enum load_result enter(struct load_wait *w)
{
	return gate_enter(&gate, &waits, w, true);
}

/* Whoever has just been let in; NULL: nobody. */
static struct load_wait *admit(void)
{
	gate_admit(&gate, &waits, &over);
	struct load_wait *w = LIST_FIRST(&over);
	if (w)
		LIST_REMOVE(w, next);
	assert_true(LIST_EMPTY(&over));
	return w;
}

static void test_places_then_a_line_then_refusal(void **state)
{
	struct load_wait w[PLACES + LINE + 1] = {0};
	int64_t refused = metric_get(M_COLD_REFUSED);
	(void)state;
	for (unsigned i = 0; i < PLACES; i++)
		assert_int_equal(enter(&w[i]), LOAD_READY);
	int64_t before = clock_now();
	for (unsigned i = PLACES; i < PLACES + LINE; i++) {
		assert_int_equal(enter(&w[i]), LOAD_WAIT);
		assert_true(w[i].waiting && w[i].gate.deadline >= before + config.cold_wait);
		assert_true(w[i].gate.deadline <= clock_now() + config.cold_wait);
	}
	assert_int_equal(enter(&w[PLACES + LINE]), LOAD_REFUSED);
	assert_false(w[PLACES + LINE].waiting);
	assert_int_equal(metric_get(M_COLD_REFUSED), refused + 1);
	assert_int_equal(waits.count, LINE);
}

static void test_a_free_place_goes_to_the_first_in_line(void **state)
{
	struct load_wait w[PLACES + LINE] = {0};
	(void)state;
	for (unsigned i = 0; i < PLACES + LINE; i++)
		enter(&w[i]);
	assert_null(admit());
	gate_leave_line(&gate, &w[PLACES + 1]); /* its time is over, or its client gone */
	waits_end(&waits, &w[PLACES + 1], &over);
	LIST_INIT(&over);
	gate_leave(&gate, &w[0]);
	assert_ptr_equal(admit(), &w[PLACES]);
	assert_true(w[PLACES].gate.placed && !w[PLACES].gate.lined && !w[PLACES].waiting);
	assert_null(admit());
	gate_leave(&gate, &w[1]);
	assert_ptr_equal(admit(), &w[PLACES + 2]);
	gate_leave(&gate, &w[PLACES]);
	assert_null(admit());
	assert_int_equal(enter(&w[PLACES + 1]), LOAD_READY); /* who was late may come again */
	assert_int_equal(waits.count, 0);
}

static void test_who_only_joins_needs_no_place(void **state)
{
	struct load_wait w[PLACES + LINE] = {0}, joins = {0}, many[4 * (PLACES + LINE) - LINE] = {0};
	(void)state;
	for (unsigned i = 0; i < PLACES + LINE; i++)
		enter(&w[i]);
	assert_int_equal(gate_enter(&gate, &waits, &joins, false), LOAD_READY);
	assert_false(joins.gate.placed || joins.waiting);
	for (unsigned i = 0; i < sizeof many / sizeof *many; i++) {
		assert_int_equal(gate_enter(&gate, &waits, &many[i], false), LOAD_READY);
		waits_begin(&waits, &many[i]);
	}
	assert_int_equal(gate_enter(&gate, &waits, &joins, false), LOAD_REFUSED);
}

static void test_nobody_comes_in_while_memory_is_full(void **state)
{
	struct load_wait w[PLACES + 1] = {0}, late = {0};
	(void)state;
	for (unsigned i = 0; i <= PLACES; i++)
		enter(&w[i]);
	resident = MOST;
	assert_false(gate_memory_full(&gate));
	resident = MOST + 1;
	gate_leave(&gate, &w[0]);
	assert_int_equal(enter(&late), LOAD_REFUSED);
	assert_null(admit());
	resident = 0; /* until it is noted: the last look holds */
	assert_int_equal(gate_enter(&gate, &waits, &late, false), LOAD_REFUSED);
	assert_null(admit());
	assert_true(gate_note_memory(&gate, false));
	assert_false(gate_note_memory(&gate, false));
	assert_ptr_equal(admit(), &w[PLACES]);
}

/* ---- clients ---- */

static struct shares shares;

/* A request of this client. */
static struct load_wait request_of(unsigned client)
{
	struct load_wait w = {.client = {0, client}};
	w.share = shares_get(&shares, w.client);
	assert_non_null(w.share);
	return w;
}

static const struct config wide = {.cold_requests = 8, .cold_queue = 8, .cold_wait = 5 * SECOND, .memory = MOST};

static int open_wide(void **state)
{
	open_gate(state);
	gate_init(&gate, &wide);
	return 0;
}

/* The last places are for clients that hold none, and so are the last in the line. */
static void test_one_client_does_not_take_all_places(void **state)
{
	struct load_wait a[20], b[3], c = request_of(3);
	struct client_key client;
	enum load_result expected[20];
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		expected[i] = i < 6 ? LOAD_READY : i < 12 ? LOAD_WAIT : LOAD_REFUSED;
	int64_t before = metric_get(M_HELD_BACK);
	for (unsigned i = 0; i < 20; i++) {
		a[i] = request_of(1);
		assert_int_equal(enter(&a[i]), expected[i]);
	}
	assert_int_equal(metric_get(M_HELD_BACK) - before, 14);
	assert_int_equal(gate_held_back(&gate, &client), 14);
	assert_true(client_key_equal(client, a[0].client));
	assert_int_equal(gate_held_back(&gate, &client), 0);
	for (unsigned i = 0; i < 3; i++)
		b[i] = request_of(2);
	assert_int_equal(enter(&b[0]), LOAD_READY);
	assert_int_equal(enter(&c), LOAD_READY);
	assert_int_equal(enter(&b[1]), LOAD_WAIT);
	/* the next place goes to who holds fewer, though the other came first */
	gate_leave(&gate, &a[0]);
	gate_leave(&gate, &a[1]);
	gate_leave(&gate, &a[2]);
	assert_ptr_equal(admit(), &b[1]);
	assert_null(admit()); /* the last quarter */
	for (unsigned i = 0; i < 20; i++)
		share_put(a[i].share);
	for (unsigned i = 0; i < 3; i++)
		share_put(b[i].share);
	share_put(c.share);
	for (unsigned i = 0; i < SHARE_CHAINS; i++)
		assert_true(LIST_EMPTY(&shares.chains[i]));
}

static void test_no_more_than_half_while_others_wait(void **state)
{
	(void)state;
	assert_true(share_allows(5, 5, 8, false));
	assert_true(share_allows(3, 5, 8, true));
	assert_false(share_allows(4, 5, 8, true));
	assert_false(share_allows(1, 6, 8, false)); /* the last quarter */
	assert_true(share_allows(0, 7, 8, true));
	assert_false(share_allows(0, 8, 8, false));
	assert_true(share_allows(0, 0, 1, true));
	assert_false(share_allows(1, 1, 1, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_places_then_a_line_then_refusal, open_gate),
	        cmocka_unit_test_setup(test_a_free_place_goes_to_the_first_in_line, open_gate),
	        cmocka_unit_test_setup(test_who_only_joins_needs_no_place, open_gate),
	        cmocka_unit_test_setup(test_nobody_comes_in_while_memory_is_full, open_gate),
	        cmocka_unit_test_setup(test_one_client_does_not_take_all_places, open_wide),
	        cmocka_unit_test(test_no_more_than_half_while_others_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
