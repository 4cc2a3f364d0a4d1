/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers: they pause and go on, on other threads too, with what was on their stacks. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "front/fiber.h"

enum { PAUSES = 100, DEEP = 200, THREADS = 4, FIBERS = 32 };

struct job {
	struct fiber *fiber;
	unsigned seed, sum;
	bool ended;
};

/* Pauses in the depth of its stack, all of which must be as it was. */
static unsigned descend(struct job *j, unsigned depth)
{
	volatile unsigned char bytes[256];
	for (unsigned i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)(j->seed + depth + i);
	unsigned below = depth ? descend(j, depth - 1) : 0;
	if (depth % (DEEP / PAUSES) == 0)
		fiber_pause(j->fiber);
	unsigned wrong = 0;
	for (unsigned i = 0; i < sizeof bytes; i++)
		wrong += bytes[i] != (unsigned char)(j->seed + depth + i);
	return below + !wrong;
}

static void run(void *arg)
{
	struct job *j = arg;
	j->sum += descend(j, DEEP - 1);
}

static void test_pauses_and_goes_on(void **state)
{
	struct job j = {.fiber = fiber_new(), .seed = 3};
	(void)state;
	assert_non_null(j.fiber);
	/* again and again, on the same fiber */
	for (unsigned times = 1; times <= 3; times++) {
		bool ended = fiber_run(j.fiber, run, &j);
		for (unsigned i = 0; i < PAUSES; i++) {
			assert_false(ended);
			ended = fiber_resume(j.fiber);
		}
		assert_true(ended);
		assert_int_equal(j.sum, times * DEEP);
	}
	fiber_free(j.fiber);
	fiber_free(NULL);
}

static void nothing(void *arg)
{
	++*(unsigned *)arg;
}

static void test_need_not_pause(void **state)
{
	struct fiber *f = fiber_new();
	unsigned count = 0;
	(void)state;
	for (unsigned i = 1; i < 1000; i++) {
		assert_true(fiber_run(f, nothing, &count));
		assert_int_equal(count, i);
	}
	fiber_free(f);
}

static struct job jobs[FIBERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned list[FIBERS], waiting;

static bool take(unsigned *job)
{
	pthread_mutex_lock(&lock);
	bool some = waiting;
	if (some) {
		*job = list[0];
		memmove(list, list + 1, --waiting * sizeof *list);
	}
	pthread_mutex_unlock(&lock);
	return some;
}

static void give(unsigned job)
{
	pthread_mutex_lock(&lock);
	list[waiting++] = job;
	pthread_mutex_unlock(&lock);
}

/* Threads cannot use cmocka. */
static void *resume_some(void *arg)
{
	unsigned i;
	while (take(&i)) {
		jobs[i].ended = fiber_resume(jobs[i].fiber);
		if (!jobs[i].ended)
			give(i);
	}
	return arg;
}

static void test_goes_on_on_other_threads(void **state)
{
	pthread_t threads[THREADS];
	(void)state;
	for (unsigned i = 0; i < FIBERS; i++) {
		jobs[i] = (struct job){.fiber = fiber_new(), .seed = i};
		assert_non_null(jobs[i].fiber);
		assert_false(fiber_run(jobs[i].fiber, run, &jobs[i]));
		give(i);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resume_some, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < FIBERS; i++) {
		assert_true(jobs[i].ended);
		assert_int_equal(jobs[i].sum, DEEP);
		fiber_free(jobs[i].fiber);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_pauses_and_goes_on),
	        cmocka_unit_test(test_need_not_pause),
	        cmocka_unit_test(test_goes_on_on_other_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
