/* SPDX-License-Identifier: Apache-2.0 */
/* Loads in flight: whose turn it is, the limits, and what becomes of loads whose requests go. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../src/modules/loads.c"

enum { TRANSFERS = 4, OF_ONE_REQUEST = 2, REQUESTS = 3, WANTS = 8 };

static struct config config = {.bucket_parallel = TRANSFERS,
        .bucket_parallel_request = OF_ONE_REQUEST,
        .cache_size = 1 << 20,
        .failures_max = 1};
static struct load_context context = {.config = &config};
static struct loads loads;

/* Requests with so many modules each, of names that say whose they are. */
static struct load_wait waits[REQUESTS];
static struct module_want wants[REQUESTS][WANTS];
static char names[REQUESTS][WANTS][8];

static int begin(void **state)
{
	(void)state;
	context.cache = page_cache_new(config.cache_size);
	context.outcomes = outcomes_new(&config);
	loads_init(&loads, &context, 1);
	for (unsigned r = 0; r < REQUESTS; r++) {
		waits[r] = (struct load_wait){.wants = wants[r], .want_count = WANTS, .client = {0, r}};
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
	assert_int_equal(loads.queue_count, 0);
	loads_release(&loads);
	page_cache_free(context.cache);
	outcomes_free(context.outcomes);
	assert_int_equal(metric_get(M_LOADS_IN_FLIGHT), 0);
	return 0;
}

static struct load *join_it(struct load *l, unsigned request, unsigned want)
{
	join(l, &waits[request], &wants[request][want]);
	return l;
}

static void begin_loads(unsigned request, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct load *l = start(&loads, &wants[request][i], &waits[request]);
		assert_non_null(l);
		join_it(l, request, i);
	}
}

static struct load *take_next(const char *name)
{
	struct load *l = take(&loads);
	if (name) {
		assert_non_null(l);
		assert_string_equal(l->name.data, name);
	} else {
		assert_null(l);
	}
	return l;
}

static void finish(struct load *l)
{
	end_transfer(&loads, l);
	land(&loads, l);
	while (!LIST_EMPTY(&l->waiters))
		leave(LIST_FIRST(&l->waiters));
	loads_finished(&loads, l);
}

static void leave_request(unsigned request)
{
	leave_all(&waits[request]);
	abandon(&loads, &waits[request]);
}

static void test_requests_take_turns(void **state)
{
	(void)state;
	begin_loads(0, 4);
	begin_loads(1, 2);
	begin_loads(2, 1);
	static const char *const order[] = {"a0", "b0", "c0", "a1", "b1", "a2", "a3"};
	for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
		finish(take_next(order[i]));
	take_next(NULL);
}

static void test_limits_of_transfers(void **state)
{
	struct load *a[3], *b, *c;
	(void)state;
	loads.transfers.places = 3; /* so few that no quarter is kept for clients that hold none */
	begin_loads(0, 4);
	a[0] = take_next("a0");
	a[1] = take_next("a1");
	take_next(NULL); /* no more of one request */
	begin_loads(1, 3);
	begin_loads(2, 1);
	b = take_next("b0");
	take_next(NULL); /* no more at all */
	finish(a[0]);
	a[2] = take_next("a2"); /* its turn had been passed over */
	take_next(NULL);
	finish(a[1]);
	c = take_next("c0");
	take_next(NULL);
	finish(c);
	c = take_next("b1"); /* it has waited longer than a3 */
	take_next(NULL);
	finish(b);
	finish(c);
	finish(take_next("a3"));
	finish(take_next("b2"));
	finish(a[2]);
	take_next(NULL);
}

/* Requests 0 and 1 are one client's, 2 is another's: of four transfers one client gets three, two while another waits.
 */
static void test_clients_take_turns(void **state)
{
	struct load *a[2], *b[2], *c[2];
	(void)state;
	for (unsigned r = 0; r < REQUESTS; r++)
		waits[r].client.lo = r / 2;
	begin_loads(0, 4);
	begin_loads(1, 4);
	a[0] = take_next("a0");
	b[0] = take_next("b0");
	a[1] = take_next("a1");
	take_next(NULL); /* the last quarter is for a client that holds none */
	begin_loads(2, 3);
	c[0] = take_next("c0");
	finish(b[0]);
	take_next(NULL); /* it still is, whoever waits */
	finish(a[0]);
	b[0] = take_next("b1"); /* both hold one; its last turn was longer ago */
	take_next(NULL);
	finish(c[0]);
	c[1] = take_next("c1");
	finish(a[1]);
	a[0] = take_next("a2");
	finish(c[1]);
	c[0] = take_next("c2");
	take_next(NULL);
	finish(c[0]);
	b[1] = take_next("b2"); /* nobody else waits any more */
	take_next(NULL);
	finish(b[0]);
	a[1] = take_next("a3");
	finish(a[0]);
	finish(a[1]);
	finish(b[1]);
	finish(take_next("b3"));
}

static void test_what_is_not_finished_stops_the_rest(void **state)
{
	(void)state;
	begin_loads(0, 2);
	struct load *l = take_next("a0");
	account_start(32 << 20);
	account_note_resident(0);
	account_add(ACCOUNT_TEXTS, 32 << 20);
	end_transfer(&loads, l);
	land(&loads, l);
	take_next(NULL);
	leave(&wants[0][0]);
	loads_finished(&loads, l);
	l = take_next("a1"); /* one goes on, whatever is charged */
	account_add(ACCOUNT_TEXTS, -(32 << 20));
	account_start(0);
	finish(l);
}

/* A load that lacked memory runs again when no other has much of it; others pass it. */
static void test_a_load_that_lacked_memory_waits_for_those_that_have_it(void **state)
{
	(void)state;
	begin_loads(0, 3);
	struct load *a0 = take_next("a0");
	a0->no_room = true;
	context.heavy = 1;
	loads_put_back(&loads, a0, false);
	finish(take_next("a1"));
	finish(take_next("a2"));
	take_next(NULL);
	context.heavy = 0;
	finish(take_next("a0"));
	take_next(NULL);
}

static void test_loads_of_a_request_that_goes(void **state)
{
	(void)state;
	begin_loads(0, 3);
	struct load *running = take_next("a0");
	assert_ptr_equal(find(&loads, &wants[0][1]), join_it(find(&loads, &wants[0][1]), 1, 0));
	leave_request(0);
	assert_null(find(&loads, &wants[0][2]));               /* nobody waits for it: dropped */
	assert_ptr_equal(find(&loads, &wants[0][0]), running); /* it runs on */
	struct load *l = take_next("a1");                      /* another's now */
	assert_ptr_equal(l->owner, &waits[1]);
	assert_int_equal(waits[1].running_count, 1);
	leave_request(1);
	assert_null(l->owner);
	finish(l);
	finish(running);
	assert_int_equal(loads.transfers.busy + loads.unfinished, 0);
}

static void test_a_load_elsewhere_has_no_place(void **state)
{
	(void)state;
	begin_loads(0, OF_ONE_REQUEST + 1);
	struct load *l = take_next("a0"), *other = take_next("a1");
	loads_put_back(&loads, l, true);
	assert_int_equal(loads.transfers.busy, 1);
	assert_ptr_equal(find(&loads, &wants[0][0]), l);
	finish(take_next("a2"));
	finish(other);
	l->lease.look_at = 0;
	assert_ptr_equal(take_next("a0"), l);
	assert_null(l->client);
	loads_put_back(&loads, l, false); /* nobody has the lease any more: it waits for its turn */
	assert_ptr_equal(take_next("a0"), l);
	assert_non_null(l->client);
	loads_put_back(&loads, l, true);
	leave_request(0);
	l->lease.look_at = 0;
	take_next(NULL); /* dropped, as nobody waits */
	assert_null(find(&loads, &wants[0][0]));
}

static void test_a_load_of_an_invalidated_module_is_not_joined(void **state)
{
	(void)state;
	begin_loads(0, 1);
	struct load *old = take_next("a0");
	loads_forget(&loads, &old->hash);
	assert_null(find(&loads, &wants[0][0]));
	leave(&wants[0][0]);
	begin_loads(0, 1);
	struct load *new = find(&loads, &wants[0][0]);
	assert_true(new &&new != old);
	finish(old);
	assert_ptr_equal(take_next("a0"), new);
	finish(new);
}

static void check_held_up(int64_t memory, int64_t places, int64_t transfers, int64_t share, int64_t hosts)
{
	assert_int_equal(loads_note_held_up(&loads), memory + places + transfers + share + hosts);
	assert_int_equal(metric_get(M_HELD_UP_MEMORY), memory);
	assert_int_equal(metric_get(M_HELD_UP_PLACES), places);
	assert_int_equal(metric_get(M_HELD_UP_TRANSFERS), transfers);
	assert_int_equal(metric_get(M_HELD_UP_SHARE), share);
	assert_int_equal(metric_get(M_HELD_UP_HOSTS), hosts);
}

static void test_what_holds_requests_up_is_told(void **state)
{
	struct load *running[TRANSFERS];
	(void)state;
	check_held_up(0, 0, 0, 0, 0);
	begin_loads(0, 3); /* two of which one request may run */
	running[0] = take_next("a0");
	running[1] = take_next("a1");
	take_next(NULL);
	check_held_up(0, 0, 0, 1, 0);
	begin_loads(1, 1);
	running[2] = take_next("b0");
	begin_loads(2, 1);
	running[3] = take_next("c0");
	check_held_up(0, 0, 1, 0, 0);
	finish(running[3]);
	account_start(32 << 20);
	account_note_resident(0);
	account_add(ACCOUNT_TEXTS, 32 << 20);
	check_held_up(1, 0, 0, 0, 0);
	account_add(ACCOUNT_TEXTS, -(32 << 20));
	account_start(0);
	loads_put_back(&loads, running[2], true);
	check_held_up(0, 0, 0, 1, 1);
	assert_int_equal(visit(&loads, &waits[2], true), VISIT_WAITS); /* there are no places */
	check_held_up(0, 1, 0, 1, 1);
	turnstile_withdraw(&loads.places, &waits[2].visit, false);
	for (unsigned r = 0; r < REQUESTS; r++)
		leave_request(r);
	finish(running[0]);
	finish(running[1]);
	TAILQ_FIRST(&loads.elsewhere)->lease.look_at = 0;
	assert_null(take_elsewhere(&loads, 1)); /* nobody waits for it any more */
	check_held_up(0, 0, 0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_requests_take_turns, begin, end),
	        cmocka_unit_test_setup_teardown(test_what_holds_requests_up_is_told, begin, end),
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
