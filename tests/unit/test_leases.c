/* SPDX-License-Identifier: Apache-2.0 */
/* Leases held, and those elsewhere. The linker sends what memcached is asked for to the test (--wrap), which answers
 * and lets leases end while one is renewed. With real servers: wire/test_cache.py and the faults. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../src/modules/loads.c"

enum mc_status __wrap_page_memcached_lease(struct mc_client *c, const struct module_hash *hash, uint64_t token);
enum mc_status __wrap_page_memcached_lease_renew(
        struct mc_client *c, const struct module_hash *hash, uint64_t token, uint64_t marker);
void __wrap_page_memcached_lease_release(struct mc_client *c, const struct module_hash *hash, uint64_t token);

enum { COUNT = 4, LOOKERS = 4 };

static struct mc_client *const client = (struct mc_client *)&(char){0}; /* handed on only */
static const struct config config = {.bucket_parallel = LOOKERS / 2, .failures_max = 1};
static struct load_context context = {.config = &config};
static struct loads loads;
static struct load held[COUNT], *ending;
static enum mc_status answer;
static unsigned renewed[COUNT], released[COUNT];

static unsigned which(const struct module_hash *hash, uint64_t token)
{
	unsigned i = 0;
	while (i < COUNT && held[i].lease.token != token)
		i++;
	assert_in_range(i, 0, COUNT - 1);
	assert_true(module_hash_equal(hash, &held[i].hash));
	return i;
}

enum mc_status __wrap_page_memcached_lease_renew(
        struct mc_client *c, const struct module_hash *hash, uint64_t token, uint64_t marker)
{
	unsigned i = which(hash, token);
	assert_ptr_equal(c, client);
	assert_int_equal(marker, i + 100);
	renewed[i]++;
	if (&held[i] == ending)
		lease_give_back(&loads, &held[i], client);
	return answer;
}

void __wrap_page_memcached_lease_release(struct mc_client *c, const struct module_hash *hash, uint64_t token)
{
	assert_ptr_equal(c, client);
	assert_int_equal(pthread_mutex_trylock(&loads.lock), 0); /* memcached is never asked under it */
	pthread_mutex_unlock(&loads.lock);
	released[which(hash, token)]++;
}

static int take_all(void **state)
{
	(void)state;
	loads_init(&loads, &context, 1);
	answer = MC_OK;
	ending = NULL;
	for (unsigned i = 0; i < COUNT; i++) {
		struct str text = {(const char *)&i, sizeof i};
		held[i] = (struct load){.outcome.marker = i + 100, .lease.token = i + 1};
		renewed[i] = released[i] = 0;
		assert_true(module_hash_make(&held[i].hash, "test", text, text));
		lease_hold(&loads, &held[i]);
	}
	return 0;
}

static void assert_renewed(unsigned a, unsigned b, unsigned c, unsigned d)
{
	const unsigned want[COUNT] = {a, b, c, d};
	assert_memory_equal(renewed, want, sizeof want);
}

static void test_all_that_are_held_are_renewed(void **state)
{
	(void)state;
	leases_renew(&loads, client);
	assert_renewed(1, 1, 1, 1);
	lease_give_back(&loads, &held[1], client);
	leases_renew(&loads, client);
	assert_renewed(2, 1, 2, 2);
	assert_int_equal(released[1], 1);
	lease_give_back(&loads, &held[2], NULL);
	assert_int_equal(released[2], 0);
	assert_false(held[2].lease.held);
}

static void test_one_of_an_invalidated_module_is_not_renewed(void **state)
{
	(void)state;
	context.cache = page_cache_new(1 << 20);
	context.outcomes = outcomes_new(&config);
	assert_true(context.cache && context.outcomes);
	loads_forget(&loads, &held[2].hash);
	outcomes_free(context.outcomes);
	page_cache_free(context.cache);
	leases_renew(&loads, client);
	assert_renewed(1, 1, 0, 1);
	assert_true(held[2].lease.stale && held[2].lease.held && !held[1].lease.stale);
}

static void test_one_that_memcached_denies_is_lost(void **state)
{
	(void)state;
	answer = MC_DOWN;
	leases_renew(&loads, client);
	assert_false(held[0].lease.lost); /* nobody else gets it there either */
	answer = MC_EXISTS;
	leases_renew(&loads, client);
	assert_true(held[0].lease.lost && held[COUNT - 1].lease.lost);
	answer = MC_OK;
	leases_renew(&loads, client);
	assert_true(held[0].lease.lost);
	lease_give_back(&loads, &held[0], client); /* the load runs again, under another lease */
	held[0].lease.token = COUNT + 1;
	lease_hold(&loads, &held[0]);
	assert_false(held[0].lease.lost);
}

/* It was released before the renewal arrived, which may have taken it once more. */
static void test_one_given_back_while_it_is_renewed_is_released_again(void **state)
{
	(void)state;
	ending = &held[0];
	leases_renew(&loads, client);
	assert_int_equal(released[0], 2);
	assert_int_equal(released[1] + released[2] + released[3], 0);
	leases_renew(&loads, client);
	assert_renewed(1, 2, 2, 2);
	answer = MC_MISSING;
	ending = &held[1];
	leases_renew(&loads, client);
	assert_int_equal(released[1], 1);
}

static void test_those_elsewhere_are_looked_at_in_turn_and_more_seldom_if_many(void **state)
{
	enum { MANY = 10 * LOOKERS };
	static struct module_want wants[MANY];
	static struct load_wait wait;
	struct load many[MANY] = {0};
	(void)state;
	assert_null(take_elsewhere(&loads, INT64_MAX));
	for (unsigned i = 0; i < MANY; i++) {
		many[i].life = LIFE_TAKEN;
		join(&many[i], &wait, &wants[i]);
		int64_t before = clock_now();
		wait_elsewhere(&loads, &many[i]);
		int64_t after = clock_now();
		assert_in_range(many[i].lease.look_at, before + LOOK_MS * MS * (1 + i / LOOKERS),
		        after + LOOK_MS * MS * (1 + i / LOOKERS));
	}
	assert_null(take_elsewhere(&loads, many[0].lease.look_at - 1));
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(take_elsewhere(&loads, INT64_MAX), &many[i]);
	assert_int_equal(loads.elsewhere_count, 0);
	wait_elsewhere(&loads, &many[0]); /* with few again as often as at first */
	assert_true(many[0].lease.look_at <= clock_now() + LOOK_MS * MS);
	assert_ptr_equal(take_elsewhere(&loads, INT64_MAX), &many[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_all_that_are_held_are_renewed, take_all),
	        cmocka_unit_test_setup(test_one_of_an_invalidated_module_is_not_renewed, take_all),
	        cmocka_unit_test_setup(test_one_that_memcached_denies_is_lost, take_all),
	        cmocka_unit_test_setup(test_one_given_back_while_it_is_renewed_is_released_again, take_all),
	        cmocka_unit_test_setup(test_those_elsewhere_are_looked_at_in_turn_and_more_seldom_if_many, take_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
