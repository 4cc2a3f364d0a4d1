/* SPDX-License-Identifier: Apache-2.0 */
/* Invalidations that memcached missed. The linker sends what memcached and the log are told to the test (--wrap). With
 * real servers: wire/test_symbfile.py. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "seed.h"

#include "../../src/modules/periodic.c"

enum mc_status __wrap_page_memcached_invalidate(struct mc_client *c, const struct module_hash *hash);
void __wrap_log_event(enum log_level level, const char *event, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
void __wrap_background_tick(void);

enum { MOST = 10000 };

static const struct config none;
static struct load_context context = {.config = &none};
static struct loads loads;
static struct periodic periodic;
static bool answers, uploads_meanwhile;
static unsigned asked;
static atomic_uint ticks;
static char logged[200];

enum mc_status __wrap_page_memcached_invalidate(struct mc_client *c, const struct module_hash *hash)
{
	assert_null(c);
	asked++;
	if (uploads_meanwhile)
		periodic_invalidate(&periodic, hash);
	return answers ? MC_OK : MC_DOWN;
}

void __wrap_log_event(enum log_level level, const char *event, const char *format, ...)
{
	va_list arguments;
	if (strcmp(event, "not stored") == 0)
		return;
	assert_int_equal(level, LOG_LEVEL_WARNING);
	assert_string_equal(event, "not announced");
	va_start(arguments, format);
	vsnprintf(logged, sizeof logged, format, arguments);
	va_end(arguments);
}

void __wrap_background_tick(void)
{
	atomic_fetch_add(&ticks, 1);
}

static void keep(unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++) {
		struct module_hash hash;
		char name[20];
		snprintf(name, sizeof name, "%u", i);
		assert_true(module_hash_make(&hash, "test", str_from(name), str_from("0")));
		periodic_invalidate(&periodic, &hash);
	}
}

static void put(unsigned asks)
{
	asked = 0;
	send_missed(&periodic, NULL);
	assert_int_equal(asked, asks);
}

static int begin(void **state)
{
	(void)state;
	loads_init(&loads, &context, 1);
	periodic_init(&periodic, &loads, NULL);
	answers = uploads_meanwhile = false;
	logged[0] = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	loads_release(&loads);
	return 0;
}

static void test_each_is_kept_once_until_memcached_takes_it(void **state)
{
	(void)state;
	keep(0, 3);
	keep(1, 1);
	put(3);
	put(3);
	answers = true;
	put(3);
	put(0);
	periodic_stop(&periodic);
	assert_string_equal(logged, "");
}

/* What memcached took, or will take, may be of the file before. */
static void test_one_that_comes_while_it_is_sent_is_sent_again(void **state)
{
	(void)state;
	keep(0, 2);
	uploads_meanwhile = true;
	put(2);
	answers = true;
	put(2);
	uploads_meanwhile = false;
	put(2);
	put(0);
}

static void test_those_above_the_limit_are_logged(void **state)
{
	(void)state;
	if (is_watched_for_races())
		skip();
	keep(0, MOST);
	keep(0, MOST / 10);
	put(MOST);
	assert_string_equal(logged, "");
	keep(MOST, 7);
	put(MOST);
	assert_non_null(strstr(logged, " of 7 invalidations"));
	keep(MOST, 2);
	periodic_stop(&periodic);
	assert_non_null(strstr(logged, " of 10002 invalidations"));
}

/* The periodic thread may still look for what can be finished while the process stops. */
static void test_nothing_is_finished_after_the_end(void **state)
{
	struct finishers finishers;
	struct offmap *map = calloc(1, sizeof *map);
	assert_non_null(map);
	struct module *m = module_new(&(struct module_hash){{0}}, map, LIFE_LOADED);
	assert_non_null(m);
	(void)state;
	finishers_init(&finishers, &loads);
	finishers_stop(&finishers);
	strcpy(m->label, "a/0");
	finish_module(&finishers, m);
	assert_int_equal(m->refs, 1);
	assert_int_equal(m->holds, 0);
	module_unref(m);
	assert_null(account_unbalanced());
}

/* It has a lease, which other hosts wait for, and no load begins where memory is full as long as one is unfinished. */
static void test_a_load_does_not_wait_behind_a_text_that_lacks_memory(void **state)
{
	(void)state;
	enum { LIMIT = 64 << 20 };
	struct error e;
	struct finishers finishers;
	struct module_want want;
	struct module *made[2];
	const int64_t bound = clock_now() + 10 * SECOND;
	context.servers = mc_servers_new(&none, &e);
	context.cache = page_cache_new(1 << 20);
	finishers_init(&finishers, &loads);
	assert_true(finishers_start(&finishers));
	for (unsigned i = 0; i < 2; i++) {
		struct offmap *map = calloc(1, sizeof *map);
		assert_non_null(map);
		assert_non_null(made[i] = module_new(&(struct module_hash){{(uint8_t)i}}, map, LIFE_LOADED));
	}
	account_start(LIMIT);
	account_add(ACCOUNT_TEXTS, LIMIT);
	strcpy(made[0]->label, "a/0");
	page_cache_add(context.cache, made[0]);
	finish_module(&finishers, made[0]);
	assert_true(module_want_init(&want, LOOKUP_COVERING, str_from("b"), str_from("0")));
	struct load *l = load_new(&context, &want);
	assert_non_null(l);
	l->module = made[1];
	atomic_fetch_add(&l->module->holds, 1);
	loads.unfinished = 1;
	finish_load(&finishers, l, NULL);
	bool unfinished = true;
	while (unfinished && clock_now() < bound) {
		nanosleep(&(struct timespec){0, MS}, NULL);
		pthread_mutex_lock(&loads.lock);
		unfinished = loads.unfinished;
		pthread_mutex_unlock(&loads.lock);
	}
	assert_false(unfinished);
	assert_int_equal(made[0]->refs, 3); /* that one still waits */
	atomic_store(&context.stopping, true);
	finishers_stop(&finishers);
	atomic_store(&context.stopping, false);
	module_unref(made[0]);
	account_add(ACCOUNT_TEXTS, -LIMIT);
	account_start(0);
	page_cache_free(context.cache);
	mc_servers_free(context.servers);
	assert_null(account_unbalanced());
}

/* Otherwise texts that wait for memory, and nothing else, could hold all of it. */
static void test_a_text_that_waits_for_memory_can_be_evicted(void **state)
{
	(void)state;
	enum { LIMIT = 64 << 20 };
	struct error e;
	struct finishers finishers;
	const int64_t bound = clock_now() + 10 * SECOND;
	struct offmap *map = calloc(1, sizeof *map);
	assert_non_null(map);
	struct module *m = module_new(&(struct module_hash){{0}}, map, LIFE_LOADED);
	assert_non_null(m);
	strcpy(m->label, "a/0");
	context.servers = mc_servers_new(&none, &e);
	context.cache = page_cache_new(1 << 20);
	page_cache_add(context.cache, m);
	finishers_init(&finishers, &loads);
	assert_true(finishers_start(&finishers));
	account_start(LIMIT);
	account_add(ACCOUNT_TEXTS, LIMIT);
	finish_module(&finishers, m);
	page_cache_shrink(context.cache, LIMIT);
	assert_false(module_is_cached(m));
	while (atomic_load(&m->refs) > 1 && clock_now() < bound)
		nanosleep(&(struct timespec){0, MS}, NULL);
	assert_int_equal(m->refs, 1);
	finishers_stop(&finishers);
	module_unref(m);
	account_add(ACCOUNT_TEXTS, -LIMIT);
	account_start(0);
	page_cache_free(context.cache);
	mc_servers_free(context.servers);
	assert_null(account_unbalanced());
}

static void assert_ticks(void)
{
	const int64_t bound = clock_now() + 60 * SECOND;
	unsigned before = atomic_load(&ticks);
	while (atomic_load(&ticks) < before + 3 && clock_now() < bound)
		nanosleep(&(struct timespec){0, MS}, NULL);
	assert_true(atomic_load(&ticks) >= before + 3);
}

/* As when a loader starves that has the lock. */
static void test_the_background_gets_its_share_whoever_has_the_lock(void **state)
{
	(void)state;
	struct error e;
	struct finishers finishers;
	context.servers = mc_servers_new(&none, &e);
	context.cache = page_cache_new(1 << 20);
	context.blocks = block_pool_new(0);
	finishers_init(&finishers, &loads);
	periodic.finishers = &finishers;
	assert_true(periodic_start(&periodic));
	pthread_mutex_lock(&loads.lock);
	assert_ticks();
	atomic_store(&context.stopping, true);
	assert_ticks(); /* so that they end soon */
	pthread_mutex_unlock(&loads.lock);
	periodic_stop(&periodic);
	atomic_store(&context.stopping, false);
	finishers_stop(&finishers);
	block_pool_free(context.blocks);
	page_cache_free(context.cache);
	mc_servers_free(context.servers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_each_is_kept_once_until_memcached_takes_it, begin, end),
	        cmocka_unit_test_setup_teardown(test_one_that_comes_while_it_is_sent_is_sent_again, begin, end),
	        cmocka_unit_test_setup_teardown(test_those_above_the_limit_are_logged, begin, end),
	        cmocka_unit_test_setup_teardown(test_nothing_is_finished_after_the_end, begin, end),
	        cmocka_unit_test_setup_teardown(test_a_text_that_waits_for_memory_can_be_evicted, begin, end),
	        cmocka_unit_test_setup_teardown(test_a_load_does_not_wait_behind_a_text_that_lacks_memory, begin, end),
	        cmocka_unit_test_setup_teardown(test_the_background_gets_its_share_whoever_has_the_lock, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
