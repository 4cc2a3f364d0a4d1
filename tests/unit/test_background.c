/* SPDX-License-Identifier: Apache-2.0 */
/* Threads in the background, on a core that another thread wants all the time. */
#define _GNU_SOURCE
#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "seed.h"

enum {
	TICK_MS = 100,
	BOUND = 60,    /* seconds */
	RUN_MS = 2000, /* twice as long for a small share, which begins late */
	PERCENT = 5,
	PERCENT_OF_EQUALS = 10, /* the least at which a lifted thread has the priority of others */
};

struct spinner {
	pthread_t thread;
	pid_t id;
	clockid_t clock;
	atomic_bool started, ends, sleeps;
	atomic_bool left, stays; /* it has left SCHED_IDLE; its thread does not end */
	bool enters, helps;
};

static _Thread_local struct spinner *mine;

static void *spin(void *arg)
{
	struct spinner *s = mine = arg;
	if (s->enters)
		background_enter(s->helps);
	s->id = (pid_t)syscall(SYS_gettid);
	assert_int_equal(pthread_getcpuclockid(pthread_self(), &s->clock), 0);
	atomic_store(&s->started, true);
	while (!atomic_load(&s->ends)) {
		background_give_way();
		if (atomic_load(&s->sleeps))
			nanosleep(&(struct timespec){0, SECOND / 2}, NULL); /* after each it may wait for the core */
	}
	if (s->enters)
		background_leave();
	while (atomic_load(&s->stays))
		nanosleep(&(struct timespec){0, MS}, NULL);
	return NULL;
}

static void start_as(struct spinner *s, bool enters, bool helps)
{
	*s = (struct spinner){.enters = enters, .helps = helps};
	assert_int_equal(pthread_create(&s->thread, NULL, spin, s), 0);
	while (!atomic_load(&s->started))
		nanosleep(&(struct timespec){0, MS}, NULL);
}

static void start(struct spinner *s, bool enters)
{
	start_as(s, enters, false);
}

static void end(struct spinner *s)
{
	atomic_store(&s->ends, true);
	pthread_join(s->thread, NULL);
}

static int64_t ran(const struct spinner *s)
{
	struct timespec t;
	assert_int_equal(clock_gettime(s->clock, &t), 0);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static void tick(void)
{
	nanosleep(&(struct timespec){0, TICK_MS * MS}, NULL);
	background_tick();
}

static void until_policy(const struct spinner *s, int policy)
{
	int64_t end = clock_now() + BOUND * SECOND;
	while (sched_getscheduler(s->id) != policy) {
		assert_true(clock_now() < end);
		tick();
	}
}

/* A tick after which it has had several times its share, however long others keep it from the core. */
static void tick_when_it_ran(const struct spinner *s)
{
	int64_t end = clock_now() + BOUND * SECOND, enough = ran(s) + 4 * PERCENT_OF_EQUALS * MS;
	while (ran(s) < enough && clock_now() < end)
		nanosleep(&(struct timespec){0, MS}, NULL);
	background_tick();
}

static void until_lowered(const struct spinner *s)
{
	int64_t end = clock_now() + BOUND * SECOND;
	while (sched_getscheduler(s->id) != SCHED_IDLE) {
		assert_true(clock_now() < end);
		tick_when_it_ran(s);
	}
}

/* All of this test's threads on one core. */
static int on_one_core(void **state)
{
	(void)state;
	cpu_set_t cores, one;
	unsigned first = 0;
	assert_int_equal(sched_getaffinity(0, sizeof cores, &cores), 0);
	while (!CPU_ISSET(first, &cores))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	background_begin(PERCENT_OF_EQUALS);
	return 0;
}

/* False, with a word about it: this process may not come back from SCHED_IDLE. */
static bool goes_idle(const struct spinner *s)
{
	bool idle = sched_getscheduler(s->id) == SCHED_IDLE;
	if (!idle)
		print_message("SCHED_IDLE cannot be left here: lower priority only\n");
	return idle;
}

static void a_thread_that_starves_is_lifted_until_it_does_not(void **state)
{
	(void)state;
	struct spinner background, busy;
	start(&background, true);
	if (goes_idle(&background)) {
		start(&busy, false);
		until_policy(&background, SCHED_OTHER);
		assert_int_equal(metric_get(M_LOADS_WAIT_PROCESSOR), 1);
		end(&busy);
		until_lowered(&background);
	}
	end(&background);
	background_tick();
	assert_int_equal(metric_get(M_LOADS_WAIT_PROCESSOR), 0);
}

static void a_thread_that_sleeps_stays_idle(void **state)
{
	(void)state;
	struct spinner background, busy;
	start(&background, true);
	if (goes_idle(&background)) {
		start(&busy, false);
		until_policy(&background, SCHED_OTHER);
		atomic_store(&background.sleeps, true);
		until_policy(&background, SCHED_IDLE);
		end(&busy);
	}
	end(&background);
}

static int lifted_of(const struct spinner *s, int n)
{
	int lifted = 0;
	for (int i = 0; i < n; i++)
		lifted += sched_getscheduler(s[i].id) == SCHED_OTHER;
	return lifted;
}

/* What they are owed after one tick is the share of one. */
static void one_at_a_time_is_lifted_in_turn(void **state)
{
	(void)state;
	struct spinner background[3], busy;
	for (int i = 0; i < 3; i++)
		start(&background[i], true);
	if (goes_idle(&background[0])) {
		start(&busy, false);
		int64_t until = clock_now() + BOUND * SECOND;
		for (; !lifted_of(background, 3); tick())
			assert_true(clock_now() < until);
		assert_int_equal(lifted_of(background, 3), 1);
		for (int i = 0; i < 3; i++)
			until_policy(&background[i], SCHED_OTHER);
		end(&busy);
	}
	for (int i = 0; i < 3; i++)
		end(&background[i]);
}

static int64_t both_ran(const struct spinner *one, const struct spinner *other)
{
	return ran(one) + (other ? ran(other) : 0);
}

/* Asserts that beside a busy thread one gets at least `least` hundredths of what that gets, and at most `most`
 * hundredths of the core; with its helper, unless that is NULL. Whatever else runs on the core takes from both, so it
 * can make neither fail. A sanitizer watches a shorter time, and asserts neither. */
static void check_share(unsigned percent, struct spinner *helper, int64_t least, int64_t most)
{
	struct spinner background, busy;
	background_begin(percent);
	start(&background, true);
	if (helper)
		start_as(helper, true, true);
	if (goes_idle(&background)) {
		start(&busy, false);
		until_policy(&background, SCHED_OTHER);
		int64_t own = both_ran(&background, helper), others = ran(&busy), begun = clock_now();
		int64_t enough = (percent < PERCENT_OF_EQUALS ? 2 * RUN_MS * MS : RUN_MS * MS) / slowness();
		while (ran(&busy) - others < enough && clock_now() < begun + BOUND * SECOND)
			tick();
		own = both_ran(&background, helper) - own;
		others = ran(&busy) - others;
		int64_t passed = clock_now() - begun;
		print_message("%lld ms beside %lld ms, of %lld ms\n", (long long)(own / MS), (long long)(others / MS),
		        (long long)(passed / MS));
		assert_true(slowness() > 1 || own * 100 > others * least);
		assert_true(slowness() > 1 || own * 100 < passed * most);
		end(&busy);
	}
	if (helper)
		end(helper);
	end(&background);
	background_begin(PERCENT_OF_EQUALS);
}

static void a_busy_core_leaves_it_its_share(void **state)
{
	(void)state;
	check_share(PERCENT, NULL, 4, 25);
	check_share(8 * PERCENT, NULL, 40, 130);
}

/* Owed 40 percent each, they would take two thirds of the core. */
static void a_helper_shares_what_its_load_is_owed(void **state)
{
	struct spinner helper;
	(void)state;
	check_share(8 * PERCENT, &helper, 40, 130);
}

static void at_100_percent_it_is_like_others(void **state)
{
	(void)state;
	struct spinner background;
	background_begin(100);
	start(&background, true);
	assert_int_equal(sched_getscheduler(background.id), SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)background.id), getpriority(PRIO_PROCESS, 0));
	end(&background);
	background_begin(PERCENT_OF_EQUALS);
}

/* In a process of its own: there is no way back for who is not root. Returns the nice value of a thread that entered.
 */
static int nice_after(int before)
{
	int status = 0;
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		setpriority(PRIO_PROCESS, 0, before);
		background_begin(PERCENT);
		background_enter(false);
		_exit(getpriority(PRIO_PROCESS, 0));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void it_never_raises_a_priority(void **state)
{
	(void)state;
	int here = getpriority(PRIO_PROCESS, 0);
	for (int before = here > 0 ? here : 0; before <= 19; before++)
		assert_int_equal(nice_after(before), before < 9 ? before + 10 : 19);
}

/* Between a tick's choice to lower a thread and its doing so, that thread leaves. */
static _Atomic(struct spinner *) leaver;
static atomic_bool no_way_back;

int __real_sched_setscheduler(pid_t thread, int policy, const struct sched_param *p);
int __wrap_sched_setscheduler(pid_t thread, int policy, const struct sched_param *p);
int __wrap_sched_setscheduler(pid_t thread, int policy, const struct sched_param *p)
{
	struct spinner *s = atomic_load(&leaver);
	if (atomic_load(&no_way_back) && policy == SCHED_OTHER)
		return -1;
	if (s && thread == s->id && policy == SCHED_IDLE) {
		int64_t until = clock_now() + BOUND * SECOND;
		atomic_store(&leaver, NULL);
		atomic_store(&s->ends, true);
		while (!atomic_load(&s->left) && clock_now() < until)
			nanosleep(&(struct timespec){0, MS}, NULL);
	} else if (thread == 0 && policy == SCHED_OTHER && mine) {
		int result = __real_sched_setscheduler(thread, policy, p);
		atomic_store(&mine->left, true);
		return result;
	}
	return __real_sched_setscheduler(thread, policy, p);
}

static void one_that_leaves_stays_lifted(void **state)
{
	(void)state;
	struct spinner background, busy;
	start(&background, true);
	if (goes_idle(&background)) {
		start(&busy, false);
		until_policy(&background, SCHED_OTHER);
		end(&busy);
		atomic_store(&background.stays, true);
		atomic_store(&leaver, &background);
		for (int64_t until = clock_now() + BOUND * SECOND; atomic_load(&leaver); tick_when_it_ran(&background))
			assert_true(clock_now() < until);
		assert_int_equal(sched_getscheduler(background.id), SCHED_OTHER);
	}
	atomic_store(&background.stays, false);
	end(&background);
}

static atomic_int yields;

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	atomic_fetch_add(&yields, 1);
	return (int)syscall(SYS_sched_yield);
}

/* Each quarter of a millisecond, not at each of thousands of calls. */
static void one_that_works_gives_way_now_and_then(void **state)
{
	(void)state;
	struct spinner background;
	int64_t begun = clock_now();
	atomic_store(&yields, 0);
	start(&background, true);
	while (atomic_load(&yields) < 100) {
		assert_true(clock_now() < begun + BOUND * SECOND);
		nanosleep(&(struct timespec){0, MS}, NULL);
	}
	assert_true(clock_now() - begun > 20 * MS);
	end(&background);
}

/* As long as little is owed; then it must have the core. */
static void one_that_is_lifted_gives_way_until_much_is_owed(void **state)
{
	(void)state;
	struct spinner background, busy;
	start(&background, true);
	if (goes_idle(&background)) {
		int64_t until = clock_now() + BOUND * SECOND;
		start(&busy, false);
		until_policy(&background, SCHED_OTHER);
		atomic_store(&yields, 0);
		while (!atomic_load(&yields) && clock_now() < until)
			nanosleep(&(struct timespec){0, MS}, NULL);
		assert_true(atomic_load(&yields));
		assert_int_equal(sched_getscheduler(background.id), SCHED_OTHER);
		for (int last = -1; last != atomic_load(&yields); tick()) {
			assert_true(clock_now() < until);
			last = atomic_load(&yields);
		}
		end(&busy);
	}
	end(&background);
}

static void does_not_give_way(bool enters)
{
	struct spinner s;
	atomic_store(&yields, 0);
	start(&s, enters);
	assert_int_equal(sched_getscheduler(s.id), SCHED_OTHER);
	for (int64_t until = ran(&s) + 10 * MS; ran(&s) < until;)
		nanosleep(&(struct timespec){0, MS}, NULL);
	end(&s);
	assert_int_equal(atomic_load(&yields), 0);
}

static void others_never_do(void **state)
{
	(void)state;
	does_not_give_way(false);
}

/* With a lower priority alone, it would lose most of its share. */
static void nor_does_one_that_has_no_way_back(void **state)
{
	(void)state;
	atomic_store(&no_way_back, true);
	background_begin(PERCENT);
	does_not_give_way(true);
	atomic_store(&no_way_back, false);
	background_begin(PERCENT_OF_EQUALS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_thread_that_starves_is_lifted_until_it_does_not),
	        cmocka_unit_test(a_thread_that_sleeps_stays_idle),
	        cmocka_unit_test(one_at_a_time_is_lifted_in_turn),
	        cmocka_unit_test(one_that_leaves_stays_lifted),
	        cmocka_unit_test(it_never_raises_a_priority),
	        cmocka_unit_test(a_busy_core_leaves_it_its_share),
	        cmocka_unit_test(a_helper_shares_what_its_load_is_owed),
	        cmocka_unit_test(one_that_works_gives_way_now_and_then),
	        cmocka_unit_test(one_that_is_lifted_gives_way_until_much_is_owed),
	        cmocka_unit_test(others_never_do),
	        cmocka_unit_test(nor_does_one_that_has_no_way_back),
	        cmocka_unit_test(at_100_percent_it_is_like_others),
	};
	return cmocka_run_group_tests(tests, on_one_core, NULL);
}
