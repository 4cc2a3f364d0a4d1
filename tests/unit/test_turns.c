/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: by client, then by what is new and what has begun; shares of the workers; and the same for random
 * orders of events. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/turns.h"
#include "seed.h"

enum { TURNS = 64 };

static struct turns turns;
static struct turn all[TURNS];
static unsigned made;

static void begin(unsigned workers)
{
	turns_init(&turns, workers, 5);
	made = 0;
	for (unsigned i = 0; i < TURNS + workers; i++)
		assert_true(turns_grow(&turns));
}

/* Clients that neither wait nor hold a worker are forgotten. */
static void end(void)
{
	unsigned forgotten = 0;
	struct turn_client *c;
	assert_int_equal(turns.busy, 0);
	assert_true(TAILQ_EMPTY(&turns.order));
	assert_null(turns_remove(&turns));
	LIST_FOREACH(c, &turns.free, chain)
		forgotten++;
	assert_int_equal(forgotten, TURNS + turns.places);
	turns_destroy(&turns);
}

static struct turn *add_old(unsigned client, bool begun, int64_t since)
{
	struct turn *t = &all[made++];
	*t = (struct turn){.client = {0, client}, .begun = begun, .since = since};
	turns_add(&turns, t);
	return t;
}

static struct turn *add(unsigned client, bool begun)
{
	return add_old(client, begun, 0);
}

static void expect(const struct turn *t, struct turn_client **client)
{
	assert_int_equal(turns_ready(&turns), t != NULL);
	assert_ptr_equal(turns_next(&turns, client), t);
}

/* One worker, so each turn ends before the next. */
static void expect_alone(const struct turn *t)
{
	struct turn_client *c;
	expect(t, &c);
	turns_done(&turns, c);
}

static void test_in_turn_by_client(void **state)
{
	(void)state;
	begin(1);
	struct turn *a1 = add(1, false), *a2 = add(1, false), *a3 = add(1, false), *b1 = add(2, false),
	            *b2 = add(2, false), *c1 = add(3, false);
	struct turn *order[] = {a1, b1, c1, a2, b2, a3};
	for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
		expect_alone(order[i]);
	end();
}

/* Who is passed because he holds much is held back, once for each turn. */
static void test_held_back(void **state)
{
	(void)state;
	begin(4);
	struct turn *a1 = add(1, false), *a2 = add(1, false), *a3 = add(1, false), *b1 = add(2, false);
	struct turn_client *clients[6];
	struct turn *order[] = {a1, b1, a2};
	for (unsigned i = 0; i < 3; i++)
		expect(order[i], &clients[i]);
	expect(NULL, &clients[3]); /* the last is for others, of whom there are none */
	assert_int_equal(turns.held_back_count, 0);
	expect(add(3, false), &clients[3]);
	assert_int_equal(turns.held_back_count, 1);
	assert_true(client_key_equal(turns.held_back, (struct client_key){0, 1}));
	turns_done(&turns, clients[3]);
	expect(add(4, false), &clients[3]);
	assert_int_equal(turns.held_back_count, 1);
	for (unsigned i = 0; i < 4; i++)
		turns_done(&turns, clients[i]);
	expect_alone(a3);
	end();
}

/* A new one does not wait for all that have begun, nor these for all new ones. */
static void test_new_and_begun_in_turn(void **state)
{
	(void)state;
	begin(1);
	struct turn *b1 = add(1, true), *b2 = add(1, true), *b3 = add(1, true), *n1 = add(1, false),
	            *n2 = add(1, false);
	struct turn *order[] = {b1, n1, b2, n2, b3};
	for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
		expect_alone(order[i]);
	end();
}

/* Of what has begun one after the other ends, so that few take memory. */
static void test_the_oldest_first(void **state)
{
	(void)state;
	begin(1);
	struct turn *t[4];
	static const int64_t ages[] = {30, 10, 40, 20};
	for (unsigned i = 0; i < 4; i++)
		t[i] = add_old(1, true, ages[i]);
	expect_alone(t[1]);
	turns_add(&turns, t[1]); /* it is not over */
	expect_alone(t[1]);
	expect_alone(t[3]);
	expect_alone(t[0]);
	expect_alone(t[2]);
	end();
}

/* Of eight workers two are for clients that hold none; alone a client may have the other six. */
static void test_the_last_quarter(void **state)
{
	struct turn_client *a[6], *b, *c, *none;
	(void)state;
	begin(8);
	for (unsigned i = 0; i < 8; i++)
		add(1, false);
	for (unsigned i = 0; i < 6; i++)
		expect(&all[i], &a[i]);
	expect(NULL, &none);
	struct turn *b1 = add(2, false);
	add(2, false);
	struct turn *c1 = add(3, false);
	expect(b1, &b);
	expect(c1, &c);
	expect(NULL, &none); /* all are busy */
	turns_done(&turns, c);
	expect(NULL, &none); /* those that wait hold some */
	for (unsigned i = 0; i < 6; i++)
		turns_done(&turns, a[i]);
	turns_done(&turns, b);
	while (turns_remove(&turns))
		;
	end();
}

/* While another waits. */
static void test_no_more_than_half(void **state)
{
	struct turn_client *a[4], *b[3], *none;
	(void)state;
	begin(8);
	for (unsigned i = 0; i < 5; i++)
		add(1, false);
	for (unsigned i = 0; i < 4; i++)
		expect(&all[i], &a[i]);
	struct turn *b1 = add(2, false), *b2 = add(2, false), *b3 = add(2, false);
	expect(b1, &b[0]);
	expect(b2, &b[1]); /* not the fifth of the first client */
	expect(NULL, &none);
	turns_done(&turns, a[0]);
	expect(&all[4], &a[0]); /* it is the first one's turn again, and it holds three */
	turns_done(&turns, a[1]);
	expect(b3, &b[2]);
	for (unsigned i = 0; i < 4; i++)
		if (i != 1)
			turns_done(&turns, a[i]);
	for (unsigned i = 0; i < 3; i++)
		turns_done(&turns, b[i]);
	end();
}

static unsigned below(uint64_t *seed, unsigned n)
{
	return next_random(seed) % n;
}

/* Some workers, some clients, some events: nobody is lost, and whoever may run does. */
static void test_random(void **state)
{
	uint64_t seed = seed_of(29);
	(void)state;
	for (unsigned round = 0; round < rounds(400); round++) {
		struct turn_client *held[16];
		unsigned workers = 1 + below(&seed, 16), busy = 0, waiting = 0, served = 0;
		begin(workers);
		while (made < TURNS || waiting || busy) {
			unsigned what = below(&seed, 3);
			if (what == 0 && made < TURNS) {
				add(below(&seed, 5), below(&seed, 2));
				waiting++;
			} else if (what == 1 && turns_next(&turns, &held[busy])) {
				assert_true(busy++ < workers);
				waiting--;
				served++;
			} else if (what == 2 && busy) {
				unsigned i = below(&seed, busy);
				turns_done(&turns, held[i]);
				held[i] = held[--busy];
			}
			assert_int_equal(turns.busy, busy);
			assert_true(busy || !waiting || turns_ready(&turns));
		}
		assert_int_equal(served, TURNS);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_in_turn_by_client),
	        cmocka_unit_test(test_held_back),
	        cmocka_unit_test(test_new_and_begun_in_turn),
	        cmocka_unit_test(test_the_oldest_first),
	        cmocka_unit_test(test_the_last_quarter),
	        cmocka_unit_test(test_no_more_than_half),
	        cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
