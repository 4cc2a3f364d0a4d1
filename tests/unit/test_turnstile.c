/* SPDX-License-Identifier: Apache-2.0 */
/* Turnstiles: never more inside than there are places, shares of clients, a line with a deadline, those that go at any
 * point; and all of it by many threads at a time, after which nothing is left. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/turnstile.h"
#include "seed.h"

enum { VISITS = 64, THREADS = 12 };

static struct turnstile turnstile;

/* A visit, and what became of it. */
struct one {
	struct visit visit; /* first */
	_Atomic unsigned calls;
	atomic_bool gone;
};
static struct one all[VISITS];

static void called(struct visit *v)
{
	atomic_fetch_add(&((struct one *)v)->calls, 1);
}

static bool has_gone(const struct visit *v)
{
	return atomic_load(&((const struct one *)v)->gone);
}

static void begin(unsigned places, unsigned line_max)
{
	memset(all, 0, sizeof all);
	turnstile_init(&turnstile, TURNSTILE_DOWNLOADS, places, line_max, false);
}

/* Nothing is left behind. */
static void end(void)
{
	assert_int_equal(turnstile.turns.busy, 0);
	assert_int_equal(turnstile.line_length, 0);
	assert_true(TAILQ_EMPTY(&turnstile.line));
	assert_true(TAILQ_EMPTY(&turnstile.turns.order));
	assert_true(LIST_EMPTY(&turnstile.turns.free));
	assert_int_equal(metric_get(M_TURNSTILE_INSIDE_DOWNLOADS), 0);
	assert_int_equal(metric_get(M_TURNSTILE_WAITING_DOWNLOADS), 0);
	turnstile_release(&turnstile);
}

static enum visit_state enter_until(unsigned i, unsigned client, int64_t until)
{
	all[i].visit = (struct visit){.turn.client = {0, client}, .called = called, .gone = has_gone, .until = until};
	return turnstile_enter(&turnstile, &all[i].visit);
}

static enum visit_state enter(unsigned i, unsigned client)
{
	return enter_until(i, client, INT64_MAX);
}

static void leave(unsigned i)
{
	turnstile_leave(&turnstile, &all[i].visit);
}

/* One client has three of four places; the fourth is for others. Who waits gets what becomes free. */
static void test_places_and_line(void **state)
{
	(void)state;
	begin(4, 8);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(enter(i, 1), VISIT_INSIDE);
	assert_int_equal(enter(3, 1), VISIT_WAITS);
	assert_int_equal(enter(4, 2), VISIT_INSIDE);
	assert_int_equal(enter(5, 3), VISIT_WAITS);
	leave(0);
	assert_int_equal(all[3].calls, 0);
	assert_int_equal(all[5].calls, 1);
	assert_int_equal(all[5].visit.state, VISIT_INSIDE);
	leave(1);
	leave(2);
	assert_int_equal(all[3].calls, 1);
	leave(3);
	leave(4);
	leave(5);
	end();
}

/* One client has half of a line in which others stand, and three quarters of one in which nobody else does. */
static void test_line_is_shared(void **state)
{
	(void)state;
	const int64_t refused = metric_get(M_TURNSTILE_REFUSED_DOWNLOADS);
	begin(1, 8);
	assert_int_equal(enter(0, 9), VISIT_INSIDE);
	for (unsigned i = 1; i <= 6; i++)
		assert_int_equal(enter(i, 1), VISIT_WAITS);
	assert_int_equal(enter(7, 1), VISIT_REFUSED);
	assert_int_equal(enter(8, 2), VISIT_WAITS);
	assert_int_equal(enter(9, 2), VISIT_REFUSED);
	assert_int_equal(enter(10, 3), VISIT_WAITS);
	assert_int_equal(enter(11, 4), VISIT_REFUSED);
	assert_int_equal(metric_get(M_TURNSTILE_REFUSED_DOWNLOADS), refused + 3);
	assert_int_equal(metric_get(M_TURNSTILE_WAITING_DOWNLOADS), 8);
	leave(0);
	const unsigned order[] = {1, 8, 10, 2, 3, 4, 5, 6};
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(all[order[i]].calls, 1);
		leave(order[i]);
	}
	end();
}

static void test_late_and_gone(void **state)
{
	(void)state;
	const int64_t refused = metric_get(M_TURNSTILE_REFUSED_DOWNLOADS);
	begin(1, 8);
	assert_int_equal(enter(0, 1), VISIT_INSIDE);
	assert_int_equal(enter_until(1, 2, 100), VISIT_WAITS);
	assert_int_equal(enter_until(2, 2, 200), VISIT_WAITS);
	assert_int_equal(enter_until(3, 3, 200), VISIT_WAITS);
	turnstiles_tick(99);
	assert_int_equal(all[1].calls, 0);
	turnstiles_tick(100);
	assert_int_equal(all[1].calls, 1);
	assert_int_equal(all[1].visit.state, VISIT_REFUSED);
	all[2].gone = true;
	turnstiles_tick(101);
	assert_int_equal(all[2].calls, 1);
	assert_int_equal(all[2].visit.state, VISIT_REFUSED);
	assert_int_equal(metric_get(M_TURNSTILE_REFUSED_DOWNLOADS), refused + 1); /* nobody waited for the other */
	leave(0);
	assert_int_equal(all[3].visit.state, VISIT_INSIDE);
	leave(3);
	end();
}

static void test_more_and_fewer_places(void **state)
{
	(void)state;
	begin(1, 8);
	assert_int_equal(enter(0, 1), VISIT_INSIDE);
	assert_int_equal(enter(1, 2), VISIT_WAITS);
	assert_int_equal(enter(2, 3), VISIT_WAITS);
	turnstile_set_places(&turnstile, 2);
	assert_int_equal(all[1].calls, 1);
	assert_int_equal(all[2].calls, 0);
	turnstile_set_places(&turnstile, 1);
	leave(0);
	assert_int_equal(all[2].calls, 0);
	leave(1);
	assert_int_equal(all[2].calls, 1);
	leave(2);
	end();
}

static void test_threads_that_wait(void **state)
{
	(void)state;
	struct visit first = {.turn.client = {0, 1}, .until = INT64_MAX}, second = first;
	atomic_bool cancel = true;
	begin(1, 8);
	assert_true(turnstile_wait(&turnstile, &first, &cancel)); /* there is a place: nobody looks */
	assert_false(turnstile_wait(&turnstile, &second, &cancel));
	second = (struct visit){.turn.client = {0, 2}, .until = clock_now() + 20 * MS};
	assert_false(turnstile_wait(&turnstile, &second, NULL));
	turnstile_leave(&turnstile, &first);
	end();
}

/* ---- many threads ---- */

static _Atomic unsigned inside, waiters_left;
static _Atomic uint64_t entered;

static void be_inside(unsigned places)
{
	assert_true(atomic_fetch_add(&inside, 1) < places);
	atomic_fetch_add(&entered, 1);
	sched_yield();
	atomic_fetch_sub(&inside, 1);
}

enum { PLACES = 3 };

static void *blocking(void *arg)
{
	uint64_t seed = seed_of((uintptr_t)arg);
	for (unsigned i = 0; i < rounds(4000); i++) {
		atomic_bool cancel = next_random(&seed) % 16 == 0;
		struct visit v = {.turn.client = {0, next_random(&seed) % 5}, .until = INT64_MAX};
		if (next_random(&seed) % 8 == 0)
			v.until = clock_now() + next_random(&seed) % 100000;
		if (!turnstile_wait(&turnstile, &v, &cancel))
			continue;
		be_inside(PLACES);
		turnstile_leave(&turnstile, &v);
	}
	return NULL;
}

/* As an exchange: whoever calls it may be any thread. */
struct parked {
	struct one one; /* first */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool told;
};

static void tell(struct visit *v)
{
	struct parked *p = (struct parked *)v;
	pthread_mutex_lock(&p->lock);
	assert_false(p->told);
	p->told = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void *parking(void *arg)
{
	uint64_t seed = seed_of((uintptr_t)arg);
	struct parked p = {.told = false};
	pthread_mutex_init(&p.lock, NULL);
	pthread_cond_init(&p.changed, NULL);
	for (unsigned i = 0; i < rounds(4000); i++) {
		p.one.visit = (struct visit){.turn.client = {0, next_random(&seed) % 5},
		        .called = tell,
		        .gone = has_gone,
		        .until = next_random(&seed) % 8 ? INT64_MAX : clock_now() + next_random(&seed) % 100000};
		p.told = false;
		atomic_store(&p.one.gone, false);
		enum visit_state now = turnstile_enter(&turnstile, &p.one.visit);
		if (now == VISIT_WAITS) {
			atomic_store(&p.one.gone, next_random(&seed) % 8 == 0);
			pthread_mutex_lock(&p.lock);
			while (!p.told)
				pthread_cond_wait(&p.changed, &p.lock);
			pthread_mutex_unlock(&p.lock);
			now = p.one.visit.state;
		}
		if (now == VISIT_INSIDE) {
			be_inside(PLACES);
			turnstile_leave(&turnstile, &p.one.visit);
		}
	}
	pthread_cond_destroy(&p.changed);
	pthread_mutex_destroy(&p.lock);
	return NULL;
}

static void *ticking(void *arg)
{
	(void)arg;
	while (atomic_load(&waiters_left)) {
		turnstiles_tick(clock_now());
		sched_yield();
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	(void)state;
	pthread_t threads[THREADS], ticker;
	begin(PLACES, 1000);
	entered = 0;
	inside = 0;
	waiters_left = 1;
	assert_int_equal(pthread_create(&ticker, NULL, ticking, NULL), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? blocking : parking, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	waiters_left = 0;
	pthread_join(ticker, NULL);
	assert_true(entered > THREADS * (uint64_t)rounds(4000) / 2);
	end();
}

/* Its owner alone ends waits and tells of them; one that is patient stands in a line that is full. */
static void test_one_that_is_owned(void **state)
{
	(void)state;
	const int64_t refused = metric_get(M_TURNSTILE_REFUSED_DOWNLOADS), held_back = metric_get(M_HELD_BACK);
	memset(all, 0, sizeof all);
	turnstile_init(&turnstile, TURNSTILE_DOWNLOADS, 1, 1, true);
	assert_true(turnstile_has_place(&turnstile));
	assert_int_equal(enter(0, 1), VISIT_INSIDE);
	assert_false(turnstile_has_place(&turnstile));
	assert_int_equal(enter_until(1, 2, 1), VISIT_WAITS);
	assert_int_equal(enter(2, 3), VISIT_REFUSED);
	all[3].visit = (struct visit){.turn.client = {0, 2}, .called = called, .patient = true, .until = INT64_MAX};
	assert_int_equal(turnstile_enter(&turnstile, &all[3].visit), VISIT_WAITS);
	turnstiles_tick(INT64_MAX);
	assert_int_equal(all[1].visit.state, VISIT_WAITS);
	turnstile_withdraw(&turnstile, &all[1].visit, true);
	assert_int_equal(metric_get(M_TURNSTILE_REFUSED_DOWNLOADS), refused + 2);
	assert_int_equal(all[1].calls, 0);
	turnstile_set_places(&turnstile, 0);
	leave(0);
	assert_int_equal(enter(0, 1), VISIT_REFUSED); /* no place, and the line is full */
	turnstile_set_places(&turnstile, 4);
	assert_int_equal(all[3].calls, 1);
	for (unsigned i = 4; i < 6; i++)
		assert_int_equal(enter(i, 2), VISIT_INSIDE);
	assert_int_equal(enter(6, 2), VISIT_WAITS); /* for what its client has, as the next */
	assert_int_equal(enter(7, 2), VISIT_REFUSED);
	assert_int_equal(metric_get(M_HELD_BACK), held_back);
	turnstile_tell(&turnstile);
	assert_int_equal(metric_get(M_HELD_BACK), held_back + 2);
	turnstile_withdraw(&turnstile, &all[6].visit, false);
	assert_int_equal(metric_get(M_TURNSTILE_REFUSED_DOWNLOADS), refused + 4);
	for (unsigned i = 3; i < 6; i++)
		leave(i);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_places_and_line),
	        cmocka_unit_test(test_line_is_shared),
	        cmocka_unit_test(test_late_and_gone),
	        cmocka_unit_test(test_more_and_fewer_places),
	        cmocka_unit_test(test_one_that_is_owned),
	        cmocka_unit_test(test_threads_that_wait),
	        cmocka_unit_test(test_many_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
