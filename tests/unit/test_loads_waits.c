/* SPDX-License-Identifier: Apache-2.0 */
/* Requests' waits for loads. */
#include <config.h>

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../src/modules/loads.c"
#include "modules/refresh.h"

static unsigned told;

static void tell(struct load_wait *w)
{
	told++;
	free(w); /* as an inquiry that replies at once */
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

static const struct config config = {.cold_requests = 1,
        .cold_modules = 1,
        .bucket_parallel = 1,
        .bucket_parallel_request = 1,
        .cache_size = 1 << 20,
        .failures_max = 100,
        .missing_ttl = 1000 * SECOND,
        .corrupt_ttl = 1000 * SECOND,
        .failure_ttl_min = 1000 * SECOND,
        .failure_ttl_max = 1000 * SECOND,
        .bucket_total_timeout = 1000 * SECOND};
static struct load_context context = {.config = &config};
static struct loads loads;

static int begin(void **state)
{
	(void)state;
	told = 0;
	context.cache = page_cache_new(config.cache_size);
	context.outcomes = outcomes_new(&config);
	assert_true(context.cache && context.outcomes);
	loads_init(&loads, &context, 1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	loads_release(&loads);
	outcomes_free(context.outcomes);
	page_cache_free(context.cache);
	return 0;
}

/* What a load gives a request stays until the request lets it go. */
static void test_what_a_request_has_is_held(void **state)
{
	struct module_want w = {0};
	struct load_wait wait = {.deadline = INT64_MAX};
	struct offmap *map = calloc(1, sizeof *map);
	(void)state;
	assert_non_null(map);
	assert_true(module_want_init(&w, LOOKUP_COVERING, str_from("a"), str_from("AB0")));
	struct load l = {.module = module_new(&w.own.hash, map, LIFE_LOADED)};
	assert_non_null(l.module);
	give_result(&loads, &l, &wait, &w);
	assert_int_equal(w.state, WANT_FOUND);
	assert_int_equal(wait.held, 1);
	assert_int_equal(l.module->holds, 1);
	module_want_release(&w);
	assert_int_equal(wait.held, 0);
	assert_int_equal(l.module->holds, 0);
	module_unref(l.module);
}

static struct load_wait *new_wait(bool (*gone)(const struct load_wait *w))
{
	struct load_wait *w = calloc(1, sizeof *w);
	assert_non_null(w);
	w->done = tell;
	w->gone = gone;
	w->deadline = 100;
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
	assert_true(TAILQ_EMPTY(&loads.waits));
}

/* Those that are told may be freed by that. */
static void test_each_wait_that_is_over_is_told_once(void **state)
{
	enum { COUNT = 10 };
	struct load_wait *waits[COUNT];
	(void)state;
	for (unsigned i = 0; i < COUNT; i++)
		waits[i] = new_wait(is_there);
	for (unsigned part = 0; part < 2; part++) {
		pthread_mutex_lock(&loads.lock);
		for (unsigned i = part; i < COUNT; i += 2)
			end_wait(&loads, waits[i]);
		assert_int_equal(told, part * COUNT / 2);
		unlock_and_tell(&loads);
		assert_int_equal(told, (part + 1) * COUNT / 2);
		assert_int_equal(TAILQ_EMPTY(&loads.waits), part);
	}
}

/* What came of a load that ended after the request had looked holds for the same spelling of the id, and if it is no
 * older than what the request has seen. */
static void test_what_was_remembered_meanwhile_needs_no_load(void **state)
{
	static const struct {
		const char *id;
		int64_t not_before;
		bool holds;
	} asked[] = {{"AB0", 0, true}, {"AB0", 50, true}, {"ab0", 0, false}, {"AB0", 51, false}};
	struct module_want first = {0};
	(void)state;
	assert_true(module_want_init(&first, LOOKUP_COVERING, str_from("a"), str_from("AB0")));
	outcomes_set(context.outcomes, &first.own.hash, &first.own.spelling,
	        &(struct outcome){.class = FAILURE_MISSING, .checked = 50});
	for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
		struct module_want w = {0};
		struct load_wait wait = {.done = tell, .gone = is_there, .deadline = INT64_MAX};
		assert_true(module_want_init(&w, LOOKUP_COVERING, str_from("a"), str_from(asked[i].id)));
		w.own.not_before = asked[i].not_before;
		enum load_result result = loads_get(&loads, &wait, &w, 1);
		assert_int_equal(result, asked[i].holds ? LOAD_READY : LOAD_WAIT);
		assert_int_equal(w.state, asked[i].holds ? WANT_FAILED : WANT_LOAD);
		assert_int_equal(metric_get(M_LOADS_IN_FLIGHT), !asked[i].holds);
		loads_leave(&loads, &wait);
		assert_int_equal(metric_get(M_LOADS_IN_FLIGHT), 0);
	}
}

/* A request whose modules are in memory goes on while another thread, which may have lost its core, holds the lock. */
static void test_who_needs_no_load_takes_no_lock(void **state)
{
	struct module_want wants[2] = {{.state = WANT_FOUND}, {.state = WANT_FAILED, .failure = FAILURE_MISSING}};
	struct load_wait wait = {.done = tell, .gone = is_there, .deadline = INT64_MAX};
	(void)state;
	alarm(60);
	pthread_mutex_lock(&loads.lock);
	assert_int_equal(loads_get(&loads, &wait, wants, 2), LOAD_READY);
	loads_leave(&loads, &wait);
	pthread_mutex_unlock(&loads.lock);
	alarm(0);
}

static void count_told(struct load_wait *w)
{
	(void)w;
	told++;
}

static void test_a_request_that_waits_again_keeps_its_place(void **state)
{
	struct module_want w = {0};
	struct load_wait wait = {.done = count_told, .gone = is_there, .deadline = 100};
	(void)state;
	assert_true(module_want_init(&w, LOOKUP_COVERING, str_from("a"), str_from("AB0")));
	assert_int_equal(loads_get(&loads, &wait, &w, 1), LOAD_WAIT);
	tick(100, false, 1);
	w.state = WANT_LOAD;
	wait.deadline = INT64_MAX;
	assert_int_equal(loads_get(&loads, &wait, &w, 1), LOAD_WAIT);
	assert_int_equal(metric_get(M_HELD_BACK), 0); /* it waits for nothing that its client holds */
	assert_int_equal(metric_get(M_TURNSTILE_INSIDE_LOADS), 1);
	loads_leave(&loads, &wait);
	assert_int_equal(metric_get(M_TURNSTILE_INSIDE_LOADS), 0);
}

/* The place is the first one's, whose load it is. */
static void test_who_joins_a_load_takes_no_place(void **state)
{
	struct module_want wants[2] = {0};
	struct load_wait waits[2];
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		waits[i] = (struct load_wait){.done = count_told, .gone = is_there, .deadline = INT64_MAX};
		assert_true(module_want_init(&wants[i], LOOKUP_COVERING, str_from("a"), str_from("AB0")));
		assert_int_equal(loads_get(&loads, &waits[i], &wants[i], 1), LOAD_WAIT);
		assert_int_equal(has_place(&waits[i]), i == 0);
		assert_int_equal(metric_get(M_LOADS_IN_FLIGHT), 1);
	}
	for (unsigned i = 0; i < 2; i++)
		loads_leave(&loads, &waits[i]);
}

/* Runs the next load: its module is there. */
static void load_next(void)
{
	struct offmap *map = calloc(1, sizeof *map);
	struct load *l = loads_take(&loads);
	assert_non_null(map);
	assert_non_null(l->module = module_new(&l->hash, map, LIFE_LOADED));
	struct module *m = l->module;
	l->outcome.checked = clock_now();
	atomic_store(&m->checked, l->outcome.checked);
	loads_publish(&loads, l);
	loads_finished(&loads, l);
	module_unref(m);
}

static void check_held_up_by_memory(int64_t count)
{
	loads_note_held_up(&loads);
	assert_int_equal(metric_get(M_HELD_UP_MEMORY), count);
}

static void fill_memory(bool full)
{
	account_add(ACCOUNT_TEXTS, full ? 32 << 20 : -(32 << 20));
}

static const struct config four = {.cold_requests = 4,
        .cold_queue = 4,
        .cold_modules = 4,
        .bucket_parallel = 4,
        .bucket_parallel_request = 1,
        .cache_size = 1 << 20};

static void configure(const struct config *c)
{
	loads_release(&loads);
	context.config = c;
	loads_init(&loads, &context, 1);
}

/* The request ends, wherever it stands. */
static void leave_loads(struct load_wait *wait)
{
	if (wait->gave_back || in_line(wait) || wait->pending)
		TAILQ_REMOVE(&loads.waits, wait, next);
	if (wait->gave_back)
		set_gave_back(&loads, wait, false);
	if (in_line(wait))
		turnstile_withdraw(&loads.places, &wait->visit, false);
	loads_leave(&loads, wait);
}

/* Each of two requests has one of its two modules and lacks memory for the other. They waited for each other until
 * their time was over. */
static void test_requests_that_fill_the_memory_do_not_wait_for_each_other(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	struct module_want wants[2][2] = {0};
	struct load_wait waits[2];
	(void)state;
	configure(&four);
	account_start(32 << 20);
	account_note_resident(0);
	for (unsigned i = 0; i < 2; i++) {
		waits[i] = (struct load_wait){.done = count_told, .gone = is_there, .deadline = INT64_MAX};
		for (unsigned k = 0; k < 2; k++)
			assert_true(module_want_init(
			        &wants[i][k], LOOKUP_COVERING, str_from(names[2 * i + k]), str_from("AB0")));
		assert_int_equal(loads_get(&loads, &waits[i], wants[i], 2), LOAD_WAIT);
	}
	load_next();
	load_next();
	assert_int_equal(waits[0].held + waits[1].held, 2);
	fill_memory(true);
	tick(100, false, 0);
	/* who began last has given back all, and stands in line */
	assert_int_equal(waits[0].held, 1);
	assert_int_equal(waits[1].held + waits[1].pending + has_place(&waits[1]), 0);
	assert_true(waits[1].gave_back);
	for (unsigned k = 0; k < 2; k++) {
		assert_int_equal(wants[1][k].state, WANT_LOAD);
		assert_null(page_cache_get(context.cache, &wants[1][k].own.hash));
	}
	check_held_up_by_memory(2); /* the other's second load, too */
	tick(101, false, 0);
	fill_memory(false);
	tick(102, false, 1);
	assert_int_equal(loads_get(&loads, &waits[1], wants[1], 2), LOAD_WAIT);
	assert_int_equal(waits[1].pending, 2);
	fill_memory(true);
	load_next();         /* begins: it holds none */
	tick(103, false, 0); /* and has given it back */
	assert_int_equal(waits[1].held + waits[1].pending + has_place(&waits[1]), 0);
	tick(103 + STUCK_TIME, false, 1); /* with all memory for itself the first cannot go on: it is refused */
	assert_true(waits[0].refused);
	fill_memory(false);
	for (unsigned i = 0; i < 2; i++) {
		leave_loads(&waits[i]);
		for (unsigned k = 0; k < 2; k++)
			module_want_release(&wants[i][k]);
	}
	assert_int_equal(loads.gave_back + loads.places.line_length + loads.places.turns.busy, 0);
	account_start(0);
	configure(&config);
}

/* Requests for two modules each, and a memory of 32 MB. */
struct pair {
	struct load_wait wait;
	struct module_want wants[2];
};

static void begin_pairs(void)
{
	configure(&four);
	account_start(32 << 20);
	account_note_resident(0);
}

/* Each has its first module, and waits for the second. */
static void hold_one_each(struct pair *pairs, unsigned count, const char *names[][2])
{
	for (unsigned i = 0; i < count; i++) {
		struct pair *p = &pairs[i];
		*p = (struct pair){.wait = {.done = count_told, .gone = is_there, .deadline = INT64_MAX}};
		for (unsigned k = 0; k < 2; k++)
			assert_true(module_want_init(
			        &p->wants[k], LOOKUP_COVERING, str_from(names[i][k]), str_from("AB0")));
		assert_int_equal(loads_get(&loads, &p->wait, p->wants, 2), LOAD_WAIT);
	}
	for (unsigned i = 0; i < count; i++)
		load_next();
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(pairs[i].wait.held, 1);
		assert_int_equal(pairs[i].wait.pending, 1);
	}
}

static void leave_pair(struct pair *p)
{
	leave_loads(&p->wait);
	for (unsigned k = 0; k < 2; k++)
		module_want_release(&p->wants[k]);
}

static void end_pairs(void)
{
	assert_int_equal(loads.gave_back + loads.places.line_length + loads.places.turns.busy, 0);
	account_start(0);
	configure(&config);
}

/* It waited as long as there were new ones that held modules, to its deadline. */
static void test_who_gave_back_does_not_wait_for_those_that_began_later(void **state)
{
	static const char *names[][2] = {{"a", "b"}, {"c", "d"}, {"e", "f"}};
	struct pair pairs[3], *first = &pairs[0], *second = &pairs[1], *third = &pairs[2];
	(void)state;
	begin_pairs();
	hold_one_each(pairs, 2, names);
	fill_memory(true);
	tick(100, false, 0);
	assert_true(second->wait.gave_back);
	fill_memory(false);
	account_add(ACCOUNT_TEXTS, 20 << 20); /* there is some memory, but not half of it */
	tick(101, false, 0);                  /* the first comes first */
	leave_pair(first);
	hold_one_each(third, 1, names + 2);
	tick(102, false, 1);
	assert_true(has_place(&second->wait));
	assert_int_equal(third->wait.held, 1);
	account_add(ACCOUNT_TEXTS, -(20 << 20));
	leave_pair(second);
	leave_pair(third);
	end_pairs();
}

/* All but the first gave back, before the load that lacked memory could see that there was some. */
static void test_no_more_give_back_than_a_running_load_needs(void **state)
{
	static const char *names[][2] = {{"a", "b"}, {"c", "d"}, {"e", "f"}};
	struct pair pairs[3];
	(void)state;
	begin_pairs();
	hold_one_each(pairs, 3, names);
	account_add(ACCOUNT_TEXTS, 20 << 20);
	atomic_store(&context.needy_waits, true);
	tick(100, false, 0);
	assert_true(pairs[2].wait.gave_back);
	assert_false(pairs[1].wait.gave_back);
	tick(101, false, 0); /* it needs more */
	assert_true(pairs[1].wait.gave_back);
	tick(102, false, 0);
	assert_false(pairs[0].wait.gave_back);
	atomic_store(&context.needy_waits, false);
	account_add(ACCOUNT_TEXTS, -(20 << 20));
	for (unsigned i = 0; i < 3; i++)
		leave_pair(&pairs[i]);
	end_pairs();
}

struct taking {
	struct load load;
	bool taken;
};

static void *take_two_megabytes(void *arg)
{
	struct taking *t = arg;
	const struct offmap_options options = load_options(&context, &t->load);
	t->taken = options.take(options.take_arg, ACCOUNT_TEXTS, 0, 2 << 20);
	return NULL;
}

/* A load may wait when it has been given up before, and when it has waited; but memory lacks only while it waits. */
static void test_a_load_that_need_not_wait_takes_nothing_from_others(void **state)
{
	static const char *names[][2] = {{"a", "b"}, {"c", "d"}};
	struct pair pairs[2];
	struct taking large = {.load = {.context = &context, .large = true}};
	pthread_t thread;
	(void)state;
	begin_pairs();
	hold_one_each(pairs, 2, names);
	take_two_megabytes(&large);
	assert_true(large.taken);
	assert_ptr_equal(context.needy, &large.load);
	tick(100, false, 0);
	assert_false(pairs[1].wait.gave_back);
	fill_memory(true);
	alarm(60);
	assert_int_equal(pthread_create(&thread, NULL, take_two_megabytes, &large), 0);
	while (!atomic_load(&context.needy_waits))
		sched_yield();
	fill_memory(false);
	pthread_join(thread, NULL);
	alarm(0);
	assert_true(large.taken);
	assert_int_equal(large.load.room_until, 0); /* it may wait once more */
	tick(101, false, 0);
	assert_false(pairs[1].wait.gave_back);
	account_add(ACCOUNT_TEXTS, -(4 << 20));
	context.needy = NULL;
	context.heavy = 0;
	for (unsigned i = 0; i < 2; i++)
		leave_pair(&pairs[i]);
	end_pairs();
}

/* What is resident beside the account may be all the memory that there may be: the server ended with a division by 0.
 */
static void test_a_tick_while_what_is_not_charged_fills_the_memory(void **state)
{
	struct module_want w = {0};
	struct load_wait wait = {.done = count_told, .gone = is_there, .deadline = INT64_MAX};
	(void)state;
	assert_true(module_want_init(&w, LOOKUP_COVERING, str_from("a"), str_from("AB0")));
	assert_int_equal(loads_get(&loads, &wait, &w, 1), LOAD_WAIT);
	account_start(32 << 20);
	account_note_resident(64 << 20);
	assert_int_equal(account_total(), 0);
	tick(100, false, 0);
	load_next(); /* one always begins */
	assert_int_equal(w.state, WANT_FOUND);
	assert_false(has_more_memory(0));
	account_start(0);
	loads_leave(&loads, &wait);
	module_want_release(&w);
}

/* Memcached has lost its memory, so this module is to be loaded once more. */
static void want_again(struct module_want *w, const char *name)
{
	struct offmap *map = calloc(1, sizeof *map);
	assert_non_null(map);
	assert_true(module_want_init(w, LOOKUP_COVERING, str_from(name), str_from("AB0")));
	want_found(w, module_new(&w->own.hash, map, LIFE_LOADED));
	assert_non_null(w->module);
}

static void test_what_is_loaded_again_already_takes_no_lock(void **state)
{
	struct module_want w;
	struct refresher r;
	(void)state;
	refresher_init(&r, &loads);
	want_again(&w, "a");
	assert_true(refresh_later(&r, &w));
	alarm(60);
	pthread_mutex_lock(&r.lock);
	assert_true(refresh_later(&r, &w));
	pthread_mutex_unlock(&r.lock);
	alarm(0);
	assert_int_equal(r.count, 1);
	refresher_stop(&r);
	module_want_release(&w);
}

static void until_loads_wait(bool waits)
{
	for (bool is_so = false; !is_so; sched_yield()) {
		pthread_mutex_lock(&loads.lock);
		is_so = TAILQ_EMPTY(&loads.waits) == !waits;
		pthread_mutex_unlock(&loads.lock);
	}
}

/* The first one's source has just failed. */
static void test_what_fails_keeps_no_other_from_being_loaded_again(void **state)
{
	struct module_want wants[2];
	struct refresher r;
	(void)state;
	refresher_init(&r, &loads);
	for (unsigned i = 0; i < 2; i++) {
		want_again(&wants[i], i ? "good" : "fails");
		page_cache_add(context.cache, wants[i].module);
		wants[i].own.marker = 1;
		wants[i].own.marker_seen = clock_now();
		assert_true(refresh_later(&r, &wants[i]));
	}
	outcomes_set(context.outcomes, &wants[0].own.hash, &wants[0].own.spelling,
	        &(struct outcome){.class = FAILURE_TEMPORARY, .marker = 1, .checked = clock_now()});
	alarm(60);
	assert_true(refresher_start(&r));
	until_loads_wait(true);
	load_next();
	until_loads_wait(false);
	refresher_stop(&r);
	alarm(0);
	for (unsigned i = 0; i < 2; i++) {
		struct module *m = page_cache_get(context.cache, &wants[i].own.hash);
		assert_int_equal(m != wants[i].module, i);
		module_unref(m);
		module_want_release(&wants[i]);
	}
}

/* Nobody takes the load, as when another host has its lease. */
static void test_what_is_loaded_again_does_not_delay_the_end(void **state)
{
	struct module_want w;
	struct refresher r;
	(void)state;
	refresher_init(&r, &loads);
	assert_true(refresher_start(&r));
	want_again(&w, "a");
	assert_true(refresh_later(&r, &w));
	alarm(60);
	until_loads_wait(true);
	atomic_store(&context.stopping, true);
	refresher_stop(&r);
	alarm(0);
	assert_true(TAILQ_EMPTY(&loads.waits));
	assert_int_equal(loads.places.turns.busy, 0);
	assert_int_equal(w.module->refs, 1);
	module_want_release(&w);
	atomic_store(&context.stopping, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_each_load_ends_the_wants_of_its_own),
	        cmocka_unit_test_setup_teardown(test_what_a_request_has_is_held, begin, end),
	        cmocka_unit_test_setup_teardown(
	                test_a_wait_ends_at_its_deadline_or_when_its_client_is_gone, begin, end),
	        cmocka_unit_test_setup_teardown(test_each_wait_that_is_over_is_told_once, begin, end),
	        cmocka_unit_test_setup_teardown(test_what_was_remembered_meanwhile_needs_no_load, begin, end),
	        cmocka_unit_test_setup_teardown(test_who_needs_no_load_takes_no_lock, begin, end),
	        cmocka_unit_test_setup_teardown(test_a_request_that_waits_again_keeps_its_place, begin, end),
	        cmocka_unit_test_setup_teardown(test_who_joins_a_load_takes_no_place, begin, end),
	        cmocka_unit_test_setup_teardown(
	                test_requests_that_fill_the_memory_do_not_wait_for_each_other, begin, end),
	        cmocka_unit_test_setup_teardown(
	                test_who_gave_back_does_not_wait_for_those_that_began_later, begin, end),
	        cmocka_unit_test_setup_teardown(test_no_more_give_back_than_a_running_load_needs, begin, end),
	        cmocka_unit_test_setup_teardown(test_a_load_that_need_not_wait_takes_nothing_from_others, begin, end),
	        cmocka_unit_test_setup_teardown(test_a_tick_while_what_is_not_charged_fills_the_memory, begin, end),
	        cmocka_unit_test_setup_teardown(test_what_is_loaded_again_already_takes_no_lock, begin, end),
	        cmocka_unit_test_setup_teardown(test_what_fails_keeps_no_other_from_being_loaded_again, begin, end),
	        cmocka_unit_test_setup_teardown(test_what_is_loaded_again_does_not_delay_the_end, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
