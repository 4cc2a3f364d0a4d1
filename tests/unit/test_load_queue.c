/* SPDX-License-Identifier: Apache-2.0 */
/* Loads in flight: whose turn it is, the limits, and what becomes of loads whose requests go. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/account.h"
#include "base/metrics.h"
#include "modules/load_queue.h"

enum { TRANSFERS = 4, OF_ONE_REQUEST = 2, REQUESTS = 3, WANTS = 8 };

static const struct config config = {
        .bucket_parallel = TRANSFERS, .bucket_parallel_request = OF_ONE_REQUEST, .cache_size = 1 << 20};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct load_means means = {.config = &config};
static struct leases leases;
static struct load_queue queue;

/* Requests with so many modules each, of names that say whose they are. */
static struct load_wait waits[REQUESTS];
static struct module_want wants[REQUESTS][WANTS];
static char names[REQUESTS][WANTS][8];

static int begin(void **state)
{
	(void)state;
	means.cache = page_cache_new(config.cache_size);
	leases_init(&leases, &lock, loaders_max(&config));
	queue_init(&queue, &means, &leases, 1);
	for (unsigned r = 0; r < REQUESTS; r++) {
		waits[r] = (struct load_wait){.wants = wants[r], .want_count = WANTS};
		for (unsigned i = 0; i < WANTS; i++) {
			snprintf(names[r][i], sizeof names[r][i], "%c%u", 'a' + (char)r, i);
			assert_true(
			        module_want_init(&wants[r][i], LOOKUP_COVERING, str_from(names[r][i]), str_from("0")));
		}
	}
	return 0;
}

/* Nothing is left in flight. */
static int end(void **state)
{
	(void)state;
	queue_release(&queue);
	page_cache_free(means.cache);
	assert_int_equal(metric_get(M_LOADS_IN_FLIGHT), 0);
	return 0;
}

static struct load *join(struct load *l, unsigned request, unsigned want)
{
	wait_join(&waits[request], &wants[request][want], &l->waiters);
	return l;
}

static void start(unsigned request, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct load *l = queue_start(&queue, &wants[request][i], &waits[request]);
		assert_non_null(l);
		join(l, request, i);
	}
}

static struct load *take(const char *name)
{
	struct load *l = queue_take(&queue);
	if (name) {
		assert_non_null(l);
		assert_string_equal(l->name, name);
	} else {
		assert_null(l);
	}
	return l;
}

static void finish(struct load *l)
{
	queue_done(&queue, l);
	while (!LIST_EMPTY(&l->waiters))
		wait_leave(LIST_FIRST(&l->waiters));
	load_free(l);
	queue_finished(&queue);
}

static void leave(unsigned request)
{
	wait_leave_all(&waits[request]);
	queue_abandon(&queue, &waits[request]);
}

static void test_requests_take_turns(void **state)
{
	(void)state;
	start(0, 4);
	start(1, 2);
	start(2, 1);
	static const char *const order[] = {"a0", "b0", "c0", "a1", "b1", "a2", "a3"};
	for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
		finish(take(order[i]));
	take(NULL);
}

static void test_limits_of_transfers(void **state)
{
	struct load *a[3], *b[2], *c;
	(void)state;
	start(0, 4);
	a[0] = take("a0");
	a[1] = take("a1");
	take(NULL); /* no more of one request */
	start(1, 3);
	start(2, 1);
	b[0] = take("b0");
	c = take("c0");
	take(NULL); /* no more at all */
	finish(a[0]);
	a[2] = take("a2"); /* its turn had been passed over */
	take(NULL);
	finish(a[1]);
	b[1] = take("b1"); /* it has waited longer than a3 */
	finish(c);
	finish(b[0]);
	finish(take("a3"));
	finish(take("b2"));
	finish(a[2]);
	finish(b[1]);
	take(NULL);
}

/* Requests 0 and 1 are one client's, 2 is another's: of four transfers one client gets three, two while another waits.
 */
static void test_clients_take_turns(void **state)
{
	static struct shares shares;
	struct load *a[2], *b[2], *c[2];
	(void)state;
	for (unsigned r = 0; r < REQUESTS; r++) {
		waits[r].client.lo = r / 2;
		assert_non_null(waits[r].share = shares_get(&shares, waits[r].client));
	}
	start(0, 4);
	start(1, 4);
	a[0] = take("a0");
	b[0] = take("b0");
	a[1] = take("a1");
	take(NULL); /* the last quarter is for a client that holds none */
	start(2, 3);
	c[0] = take("c0");
	finish(b[0]);
	take(NULL); /* it still is, whoever waits */
	finish(a[0]);
	b[0] = take("b1"); /* both hold one; its last turn was longer ago */
	take(NULL);
	finish(c[0]);
	c[1] = take("c1");
	finish(a[1]);
	a[0] = take("a2");
	finish(c[1]);
	c[0] = take("c2");
	take(NULL);
	finish(c[0]);
	b[1] = take("b2"); /* nobody else waits any more */
	take(NULL);
	finish(b[0]);
	a[1] = take("a3");
	finish(a[0]);
	finish(a[1]);
	finish(b[1]);
	finish(take("b3"));
	for (unsigned r = 0; r < REQUESTS; r++)
		share_put(waits[r].share);
	for (unsigned i = 0; i < SHARE_CHAINS; i++)
		assert_true(LIST_EMPTY(&shares.chains[i]));
}

static void test_what_is_not_finished_stops_the_rest(void **state)
{
	(void)state;
	start(0, 2);
	struct load *l = take("a0");
	account_start(32 << 20);
	account_note_resident(0);
	account_add(ACCOUNT_TEXTS, 32 << 20);
	queue_done(&queue, l);
	take(NULL);
	queue_finished(&queue);
	wait_leave(&wants[0][0]);
	load_free(l);
	l = take("a1"); /* one goes on, whatever is charged */
	account_add(ACCOUNT_TEXTS, -(32 << 20));
	account_start(0);
	finish(l);
}

/* A load that lacked memory runs again when no other has much of it; others pass it. */
static void test_a_load_that_lacked_memory_waits_for_those_that_have_it(void **state)
{
	(void)state;
	start(0, 3);
	struct load *a0 = take("a0");
	a0->no_room = true;
	means.heavy = 1;
	queue_put_back(&queue, a0, false);
	finish(take("a1"));
	finish(take("a2"));
	take(NULL);
	means.heavy = 0;
	finish(take("a0"));
	take(NULL);
}

static void test_loads_of_a_request_that_goes(void **state)
{
	(void)state;
	start(0, 3);
	struct load *running = take("a0");
	assert_ptr_equal(queue_find(&queue, &wants[0][1]), join(queue_find(&queue, &wants[0][1]), 1, 0));
	leave(0);
	assert_null(queue_find(&queue, &wants[0][2]));               /* nobody waits for it: dropped */
	assert_ptr_equal(queue_find(&queue, &wants[0][0]), running); /* it runs on */
	struct load *l = take("a1");                                 /* another's now */
	assert_ptr_equal(l->owner, &waits[1]);
	assert_int_equal(waits[1].queue.running_count, 1);
	leave(1);
	assert_null(l->owner);
	finish(l);
	finish(running);
	assert_int_equal(queue.transfers + queue.unfinished, 0);
}

static void test_a_load_elsewhere_has_no_place(void **state)
{
	(void)state;
	start(0, OF_ONE_REQUEST + 1);
	struct load *l = take("a0"), *other = take("a1");
	queue_put_back(&queue, l, true);
	assert_int_equal(queue.transfers, 1);
	assert_ptr_equal(queue_find(&queue, &wants[0][0]), l);
	finish(take("a2"));
	finish(other);
	l->lease.look_at = 0;
	assert_ptr_equal(take("a0"), l);
	assert_false(l->transferring);
	queue_put_back(&queue, l, false); /* nobody has the lease any more: it waits for its turn */
	assert_ptr_equal(take("a0"), l);
	assert_true(l->transferring);
	queue_put_back(&queue, l, true);
	leave(0);
	l->lease.look_at = 0;
	take(NULL); /* dropped, as nobody waits */
	assert_null(queue_find(&queue, &wants[0][0]));
}

static void test_a_load_of_an_invalidated_module_is_not_joined(void **state)
{
	(void)state;
	start(0, 1);
	struct load *old = take("a0");
	queue_forget(&queue, &old->lease.hash);
	assert_null(queue_find(&queue, &wants[0][0]));
	wait_leave(&wants[0][0]);
	start(0, 1);
	struct load *new = queue_find(&queue, &wants[0][0]);
	assert_true(new &&new != old);
	finish(old);
	assert_ptr_equal(take("a0"), new);
	finish(new);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_requests_take_turns, begin, end),
	        cmocka_unit_test_setup_teardown(test_limits_of_transfers, begin, end),
	        cmocka_unit_test_setup_teardown(test_clients_take_turns, begin, end),
	        cmocka_unit_test_setup_teardown(test_what_is_not_finished_stops_the_rest, begin, end),
	        cmocka_unit_test_setup_teardown(
	                test_a_load_that_lacked_memory_waits_for_those_that_have_it, begin, end),
	        cmocka_unit_test_setup_teardown(test_loads_of_a_request_that_goes, begin, end),
	        cmocka_unit_test_setup_teardown(test_a_load_elsewhere_has_no_place, begin, end),
	        cmocka_unit_test_setup_teardown(test_a_load_of_an_invalidated_module_is_not_joined, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
