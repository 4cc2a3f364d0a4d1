/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are kept as they stand in replies: when they are added, found, withheld and dropped. */
#include <config.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/account.h"
#include "seed.h"

#include "../../src/cache/hot_frames.c"

static const struct hot_key some = {{{1, 2, 3}}, 4, 0x1000, 0x1000, false};

static struct hot_frame *get(struct hot_frames *h, const struct hot_key *key)
{
	bool wanted;
	return hot_frames_get(h, key, &wanted);
}

static void add(struct hot_frames *h, const struct hot_key *key, uint32_t len)
{
	struct hot_frame *f = hot_frame_new(key, len);
	assert_non_null(f);
	memset(f->text, (int)key->address, len);
	hot_frames_add(h, f);
	hot_frame_unref(f);
}

static bool is_there(struct hot_frames *h, const struct hot_key *key)
{
	/* one look in many finds nothing */
	struct hot_frame *f = get(h, key), *again = f ? NULL : get(h, key);
	bool there = f || again;
	hot_frame_unref(f);
	hot_frame_unref(again);
	return there;
}

static void test_found_under_its_own_key_alone(void **state)
{
	struct hot_frames *h = hot_frames_new(1 << 20, 7);
	(void)state;
	add(h, &some, 100);
	struct hot_frame *f = get(h, &some);
	assert_non_null(f);
	assert_int_equal(f->len, 100);
	hot_frame_unref(f);
	struct hot_key others[] = {some, some, some, some, some};
	others[0].module.bytes[15] = 1; /* another module */
	others[1].generation++;         /* a new file of it */
	others[2].address++;
	others[3].offset++; /* the same place, by an image that begins elsewhere */
	others[4].function_only = true;
	for (unsigned i = 0; i < 5; i++)
		assert_false(is_there(h, &others[i]));
	hot_frames_free(h);
	assert_null(account_unbalanced());
}

/* What is asked for once is not worth keeping. */
static void test_wanted_at_the_second_miss(void **state)
{
	struct hot_frames *h = hot_frames_new(1 << 20, 7);
	bool wanted;
	(void)state;
	assert_null(hot_frames_get(h, &some, &wanted));
	assert_false(wanted);
	assert_null(hot_frames_get(h, &some, &wanted));
	assert_true(wanted);
	unsigned often = 0;
	for (uint64_t i = 0; i < 100000; i++) {
		struct hot_key key = some;
		key.address = key.offset = i + 0x100000;
		hot_frames_get(h, &key, &wanted);
		often += wanted;
	}
	/* by chance: tags have 15 bits */
	assert_in_range(often, 0, 50);
	hot_frames_free(h);
	assert_null(hot_frames_get(NULL, &some, &wanted));
	assert_false(wanted);
}

/* So that the pages behind a frame count as used. */
static void test_withheld_now_and_then(void **state)
{
	struct hot_frames *h = hot_frames_new(1 << 20, 7);
	unsigned found = 0;
	(void)state;
	add(h, &some, 10);
	for (unsigned i = 0; i < 640; i++) {
		struct hot_frame *f = get(h, &some);
		found += f != NULL;
		hot_frame_unref(f);
	}
	assert_int_equal(found, 630);
	hot_frames_free(h);
}

/* Its bytes stay below the budget, and the account knows them; what is asked for stays, of what is not asked for. */
static void test_budget(void **state)
{
	enum { BUDGET = 8 << 20, LEN = 1000 };
	struct hot_frames *h = hot_frames_new(BUDGET, 7);
	unsigned hot = 0, kept = 0;
	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		struct hot_key key = some;
		key.address = i;
		add(h, &key, LEN);
		assert_true(account_used_for(ACCOUNT_PAGES) <= BUDGET);
		key.address = i % 500; /* asked for all the time */
		hot_frame_unref(get(h, &key));
	}
	assert_true(account_used_for(ACCOUNT_PAGES) > BUDGET / 2);
	for (uint64_t i = 0; i < 100000; i++) {
		struct hot_key key = some;
		key.address = i;
		bool there = is_there(h, &key);
		kept += there;
		hot += there && i < 500;
	}
	print_message("%u kept, %u of 500 that are hot\n", kept, hot);
	assert_true(hot > 450);
	hot_frames_free(h);
	assert_int_equal(account_used_for(ACCOUNT_PAGES), 0);
}

/* A client that asks for a million frames, each once, or each twice in a row so that all are added, beside others who
 * ask for few: theirs stay. */
static void test_an_attacker_pushes_nothing_out(void **state)
{
	enum { HOT = 300, DISTINCT = 1000000, BUDGET = 4 << 20, LEN = 500, ASKED = 8 };
	(void)state;
	if (is_watched_for_races())
		skip();
	for (unsigned times = 1; times <= 2; times++) {
		struct hot_frames *h = hot_frames_new(BUDGET, 7);
		uint64_t added = 0, found = 0, asked = 0;
		struct hot_key key = some;
		for (uint64_t i = 0; i < HOT; i++) {
			key.address = i;
			add(h, &key, LEN);
		}
		for (uint64_t i = 0; i < DISTINCT; i++) {
			bool wanted;
			for (unsigned n = 0; n < times; n++) {
				key.address = HOT + i;
				assert_null(hot_frames_get(h, &key, &wanted));
			}
			if (wanted)
				add(h, &key, LEN);
			added += wanted;
			if (i % ASKED)
				continue;
			key.address = i / ASKED % HOT;
			struct hot_frame *f = hot_frames_get(h, &key, &wanted);
			asked++;
			found += f != NULL;
			if (!f && wanted)
				add(h, &key, LEN);
			hot_frame_unref(f);
		}
		print_message("%u times: %llu added, others found %llu of %llu\n", times, (unsigned long long)added,
		        (unsigned long long)found, (unsigned long long)asked);
		if (times == 1)
			assert_in_range(added, 0, DISTINCT / 1000);
		else
			assert_true(added > DISTINCT / 2);
		assert_true(found * 100 > asked * (times == 1 ? 98 : 90));
		hot_frames_free(h);
		assert_int_equal(account_used_for(ACCOUNT_PAGES), 0);
	}
}

static void test_held_frames_outlive_the_table(void **state)
{
	struct hot_frames *h = hot_frames_new(1 << 20, 7);
	(void)state;
	add(h, &some, 64);
	struct hot_frame *f = get(h, &some);
	hot_frames_free(h);
	assert_int_equal(f->text[63], (uint8_t)some.address);
	assert_int_not_equal(account_used_for(ACCOUNT_PAGES), 0);
	hot_frame_unref(f);
	assert_int_equal(account_used_for(ACCOUNT_PAGES), 0);
}

static void test_too_large(void **state)
{
	(void)state;
	struct hot_frame *f = hot_frame_new(&some, 16 << 10);
	assert_non_null(f);
	hot_frame_unref(f);
	assert_null(hot_frame_new(&some, (16 << 10) + 1));
	assert_null(hot_frames_new(0, 1));
	account_start(1000);
	assert_null(hot_frame_new(&some, 5000));
	account_start(0);
	assert_int_equal(account_used_for(ACCOUNT_PAGES), 0);
}

/* Whoever holds the lock may have lost its core. */
static void test_nobody_waits_for_a_lock(void **state)
{
	struct hot_frames *h = hot_frames_new(1 << 20, 7);
	struct hot_key other = some;
	bool wanted;
	(void)state;
	other.address++;
	add(h, &some, 10);
	hot_frames_get(h, &other, &wanted);
	for (unsigned i = 0; i < SHARDS; i++)
		assert_false(atomic_flag_test_and_set(&h->shards[i].locked));
	assert_false(is_there(h, &some));
	assert_null(hot_frames_get(h, &other, &wanted));
	assert_false(wanted);
	add(h, &other, 10);
	for (unsigned i = 0; i < SHARDS; i++)
		atomic_flag_clear(&h->shards[i].locked);
	assert_true(is_there(h, &some));
	assert_null(hot_frames_get(h, &other, &wanted));
	assert_true(wanted);
	add(h, &other, 10);
	assert_true(is_there(h, &other));
	hot_frames_free(h);
	assert_null(account_unbalanced());
}

struct asker {
	struct hot_frames *h;
	uint64_t seed;
};

static void *ask_and_add(void *arg)
{
	struct hot_frames *h = ((struct asker *)arg)->h;
	uint64_t seed = ((struct asker *)arg)->seed;
	for (unsigned i = 0; i < 20000; i++) {
		struct hot_key key = some;
		bool wanted;
		key.address = next_random(&seed) % 3000;
		struct hot_frame *f = hot_frames_get(h, &key, &wanted);
		if (f) {
			assert_int_equal(f->key.address, key.address);
			for (uint32_t k = 0; k < f->len; k++)
				assert_int_equal(f->text[k], (uint8_t)key.address);
		} else if (wanted) {
			add(h, &key, (uint32_t)(50 + key.address % 500));
		}
		hot_frame_unref(f);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct hot_frames *h = hot_frames_new(256 << 10, 7);
	struct asker askers[4];
	pthread_t threads[4];
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		askers[i] = (struct asker){h, seed_of(i)};
		assert_int_equal(pthread_create(&threads[i], NULL, ask_and_add, &askers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(account_used_for(ACCOUNT_PAGES) <= 256 << 10);
	hot_frames_free(h);
	assert_int_equal(account_used_for(ACCOUNT_PAGES), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_found_under_its_own_key_alone),
	        cmocka_unit_test(test_wanted_at_the_second_miss),
	        cmocka_unit_test(test_withheld_now_and_then),
	        cmocka_unit_test(test_budget),
	        cmocka_unit_test(test_an_attacker_pushes_nothing_out),
	        cmocka_unit_test(test_held_frames_outlive_the_table),
	        cmocka_unit_test(test_too_large),
	        cmocka_unit_test(test_nobody_waits_for_a_lock),
	        cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
