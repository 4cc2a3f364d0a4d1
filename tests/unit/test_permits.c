/* SPDX-License-Identifier: Apache-2.0 */
/* Permits to run: never more than there are, handed on by those that give theirs, and no wait after the end. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/permits.h"

enum { PERMITS = 3, THREADS = 8, ROUNDS = 20000, FULL = 2000 };

static sem_t permits;
static atomic_uint running, most, rounds, waiting;
static pthread_barrier_t both;

static int left(void)
{
	int value;
	assert_int_equal(sem_getvalue(&permits, &value), 0);
	return value;
}

/* Runs with a permit, and on without one in each fifth round. The wait for FULL rounds lets all of the permits be held
 * at once, however the threads are scheduled. Threads cannot use cmocka: they count. */
static void *run(void *arg)
{
	const int64_t end = clock_now() + 60 * SECOND;
	for (permit_take(&permits); rounds < ROUNDS; permit_take(&permits)) {
		unsigned now = ++running, before = most;
		while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
			;
		while (rounds > FULL && most < PERMITS && clock_now() < end)
			;
		running--;
		if (rounds++ % 5 == 0) {
			permit_give();
			permit_give(); /* which it has no longer */
		}
	}
	permit_give();
	return arg;
}

static void test_only_so_many_run(void **state)
{
	pthread_t threads[THREADS];
	(void)state;
	sem_init(&permits, 0, PERMITS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(most, PERMITS);
	assert_int_equal(left(), PERMITS);
	sem_destroy(&permits);
}

static void *take_after_another(void *arg)
{
	pthread_barrier_wait(&both);
	permit_take(&permits);
	permit_give();
	return arg;
}

/* The one permit is given while its thread goes on. */
static void test_who_gives_lets_another_run(void **state)
{
	pthread_t thread;
	void *result;
	(void)state;
	sem_init(&permits, 0, 1);
	pthread_barrier_init(&both, NULL, 2);
	permit_take(&permits);
	permit_take(&permits); /* it has one */
	assert_int_equal(left(), 0);
	pthread_create(&thread, NULL, take_after_another, &permits);
	pthread_barrier_wait(&both);
	permit_give();
	pthread_join(thread, &result);
	assert_ptr_equal(result, &permits);
	pthread_barrier_destroy(&both);
	sem_destroy(&permits);
}

static void *wait_for_ever(void *arg)
{
	waiting++;
	permit_take(&permits);
	return arg;
}

static void test_the_end_lets_all_go(void **state)
{
	pthread_t threads[THREADS];
	void *result;
	(void)state;
	sem_init(&permits, 0, 1);
	permit_take(&permits);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_ever, &permits), 0);
	while (waiting < THREADS)
		;
	permits_end(&permits, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		assert_ptr_equal(result, &permits);
	}
	permit_give();
	sem_destroy(&permits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_only_so_many_run),
	        cmocka_unit_test(test_who_gives_lets_another_run),
	        cmocka_unit_test(test_the_end_lets_all_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
