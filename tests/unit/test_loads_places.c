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

uint64_t __wrap_resident_bytes(void)
{
	return resident;
}

static void open_with(const struct config *c)
{
	resident = 0;
	context.config = c;
	loads_init(&loads, &context, 1);
}

static int open_gate(void **state)
{
	(void)state;
	open_with(&config);
	return 0;
}

/* Whoever stands in the line yet leaves it. */
static int close_gate(void **state)
{
	struct visit *v;
	(void)state;
	while ((v = TAILQ_FIRST(&loads.places.line)))
		turnstile_withdraw(&loads.places, v, false);
	loads_release(&loads);
	return 0;
}

/* A request of this client that lacks a module. */
static struct load_wait request_of(unsigned client)
{
	static struct module_want lacks;
	return (struct load_wait){.client = {0, client}, .loads = &loads, .lacks = &lacks};
}

/* Requests of as many clients. */
static void make_requests(struct load_wait *w, unsigned count)
{
	static unsigned client;
	for (unsigned i = 0; i < count; i++)
		w[i] = request_of(++client);
}

static enum load_result come(struct load_wait *w)
{
	return enter(&loads, w);
}

static enum load_result join_others(struct load_wait *w)
{
	w->lacks = NULL;
	return enter(&loads, w);
}

/* Whoever has just been let in; NULL: nobody. */
static struct load_wait *let_in(void)
{
	struct load_wait *w = TAILQ_FIRST(&loads.over);
	if (w)
		TAILQ_REMOVE(&loads.over, w, next);
	assert_true(TAILQ_EMPTY(&loads.over));
	return w;
}

static void go(struct load_wait *w)
{
	leave_place(&loads, w);
}

static unsigned waiting(void)
{
	const struct load_wait *w;
	unsigned count = 0;
	TAILQ_FOREACH(w, &loads.waits, next)
		count++;
	return count;
}

static void test_places_then_a_line_then_refusal(void **state)
{
	static struct load_wait w[PLACES + LINE + 1];
	make_requests(w, PLACES + LINE + 1);
	int64_t refused = metric_get(M_COLD_REFUSED);
	(void)state;
	for (unsigned i = 0; i < PLACES; i++)
		assert_int_equal(come(&w[i]), LOAD_READY);
	int64_t before = clock_now();
	for (unsigned i = PLACES; i < PLACES + LINE; i++) {
		assert_int_equal(come(&w[i]), LOAD_WAIT);
		assert_true(w[i].visit.until >= before + config.cold_wait);
		assert_true(w[i].visit.until <= clock_now() + config.cold_wait);
	}
	assert_int_equal(come(&w[PLACES + LINE]), LOAD_REFUSED);
	assert_false(in_line(&w[PLACES + LINE]) || has_place(&w[PLACES + LINE]));
	assert_int_equal(metric_get(M_COLD_REFUSED), refused + 1);
	assert_int_equal(waiting(), LINE);
}

static void test_a_free_place_goes_to_the_first_in_line(void **state)
{
	static struct load_wait w[PLACES + LINE];
	make_requests(w, PLACES + LINE);
	(void)state;
	for (unsigned i = 0; i < PLACES + LINE; i++)
		come(&w[i]);
	assert_null(let_in());
	turnstile_withdraw(&loads.places, &w[PLACES + 1].visit, true); /* its time is over, or its client gone */
	end_wait(&loads, &w[PLACES + 1]);
	assert_ptr_equal(let_in(), &w[PLACES + 1]);
	go(&w[0]);
	assert_ptr_equal(let_in(), &w[PLACES]);
	assert_true(has_place(&w[PLACES]));
	assert_null(let_in());
	go(&w[1]);
	assert_ptr_equal(let_in(), &w[PLACES + 2]);
	go(&w[PLACES]);
	assert_null(let_in());
	assert_int_equal(come(&w[PLACES + 1]), LOAD_READY); /* who was late may come again */
	assert_int_equal(waiting(), 0);
}

static void test_who_only_joins_needs_no_place(void **state)
{
	static struct load_wait w[PLACES + LINE], joins, many[100];
	make_requests(w, PLACES + LINE);
	make_requests(&joins, 1);
	make_requests(many, sizeof many / sizeof *many);
	(void)state;
	for (unsigned i = 0; i < PLACES + LINE; i++)
		come(&w[i]);
	assert_int_equal(join_others(&joins), LOAD_READY);
	assert_false(in_line(&joins) || has_place(&joins));
	for (unsigned i = 0; i < sizeof many / sizeof *many; i++) {
		assert_int_equal(join_others(&many[i]), LOAD_READY);
		begin_wait(&loads, &many[i]);
	}
	assert_int_equal(join_others(&joins), LOAD_READY);
}

static struct load_wait *told;

static void note_told(struct load_wait *w)
{
	told = w;
}

static void test_nobody_comes_in_while_memory_is_full(void **state)
{
	static struct load_wait w[PLACES + 1], late;
	bool idle;
	make_requests(w, PLACES + 1);
	make_requests(&late, 1);
	(void)state;
	for (unsigned i = 0; i <= PLACES; i++)
		come(&w[i]);
	resident = MOST;
	assert_false(is_memory_full(&loads));
	resident = MOST + 1;
	assert_int_equal(come(&late), LOAD_REFUSED);
	go(&w[0]);
	assert_null(let_in());
	resident = 0; /* until it is noted: the last look holds */
	assert_int_equal(join_others(&late), LOAD_REFUSED);
	assert_null(let_in());
	w[PLACES].done = note_told;
	assert_true(loads_note_memory(&loads, false, &idle));
	assert_false(loads_note_memory(&loads, false, &idle));
	assert_true(idle);
	assert_ptr_equal(told, &w[PLACES]);
	assert_true(has_place(&w[PLACES]));
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
	static struct load_wait a[20], b[2];
	struct load_wait c = request_of(3);
	const int64_t held_back = metric_get(M_HELD_BACK);
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		a[i] = request_of(1);
		assert_int_equal(come(&a[i]), i < 6 ? LOAD_READY : i < 12 ? LOAD_WAIT : LOAD_REFUSED);
	}
	for (unsigned i = 0; i < 2; i++)
		b[i] = request_of(2);
	assert_int_equal(come(&b[0]), LOAD_READY);
	assert_int_equal(come(&c), LOAD_READY);
	assert_int_equal(come(&b[1]), LOAD_WAIT);
	go(&a[0]);
	go(&a[1]);
	assert_null(let_in());
	go(&a[2]);
	assert_ptr_equal(let_in(), &a[6]); /* it came first, and holds less than half */
	go(&a[3]);
	assert_ptr_equal(let_in(), &b[1]);
	pthread_mutex_lock(&loads.lock);
	unlock_and_tell(&loads);
	/* six waited and eight were refused while places were free */
	assert_int_equal(metric_get(M_HELD_BACK), held_back + 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_places_then_a_line_then_refusal, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_a_free_place_goes_to_the_first_in_line, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_who_only_joins_needs_no_place, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_nobody_comes_in_while_memory_is_full, open_gate, close_gate),
	        cmocka_unit_test_setup_teardown(test_one_client_does_not_take_all_places, open_wide, close_gate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
