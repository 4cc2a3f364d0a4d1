/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of maps in the process: its budget, its clock, and which maps may stay. */
#include <config.h>

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/account.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "cache/page_cache.h"
#include "cache/page_memcached.h"
#include "map/value.h"
#include "seed.h"

enum { PAGES = 4, PAGE_BYTES = 2000, MODULE_BYTES = 2 * PAGES * (PAGE_BYTES + 150) };

static struct module_hash hash_of(unsigned number)
{
	struct module_hash h;
	char name[20];
	snprintf(name, sizeof name, "%u", number);
	assert_true(module_hash_make(&h, "test", str_from(name), str_from("0")));
	return h;
}

static struct page *make_page(enum page_kind kind, uint32_t number, uint8_t mark)
{
	struct page *p = page_new(kind, PAGE_BYTES);
	assert_non_null(p);
	memset(p->bytes, mark + (int)number, p->len);
	return p;
}

/* A map of so many code and string pages whose bytes are mark + number; `filled` of each are there. */
static struct offmap *make_map_of(uint8_t mark, uint32_t pages, uint32_t filled)
{
	struct offmap *m = calloc(1, sizeof *m);
	assert_non_null(m);
	m->code_count = m->string_count = pages;
	m->generation = mark;
	m->code = calloc(pages, sizeof *m->code);
	m->strings = calloc(pages, sizeof *m->strings);
	m->code_first = calloc(pages, sizeof *m->code_first);
	m->string_first = calloc(pages, sizeof *m->string_first);
	assert_true(m->code && m->strings && m->code_first && m->string_first);
	for (uint32_t i = 0; i < filled; i++) {
		m->code[i] = make_page(PAGE_CODE, i, mark);
		m->strings[i] = make_page(PAGE_STRINGS, i, mark);
	}
	return m;
}

/* Of PAGES of each; without pages when `empty`. */
static struct offmap *make_map(uint8_t mark, bool empty)
{
	return make_map_of(mark, PAGES, empty ? 0 : PAGES);
}

static struct module *make_module(unsigned number, bool stored)
{
	struct module_hash h = hash_of(number);
	struct module *m = module_new(&h, make_map((uint8_t)number, false), LIFE_LOADED);
	assert_non_null(m);
	atomic_store(&m->life, stored ? LIFE_STORED : LIFE_WHOLE);
	return m;
}

static void put_module(struct page_cache *c, struct module *m)
{
	page_cache_add(c, m);
	page_cache_evict(c);
}

/* Puts a module in and lets go of it. */
static void put(struct page_cache *c, unsigned number, bool stored)
{
	struct module *m = make_module(number, stored);
	put_module(c, m);
	module_unref(m);
}

/* Whether a module is in; looking counts as use. */
static bool is_in(struct page_cache *c, unsigned number)
{
	struct module_hash h = hash_of(number);
	struct module *m = page_cache_get(c, &h);
	module_unref(m);
	return m != NULL;
}

static unsigned pages_of(const struct module *m)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < PAGES; i++)
		n += (m->map->code[i] != NULL) + (m->map->strings[i] != NULL);
	return n;
}

static uint64_t cache_bytes(void)
{
	return (uint64_t)metric_get(M_CACHE_BYTES);
}

static int setup(void **state)
{
	(void)state;
	return cache_bytes() != 0 || metric_get(M_CACHE_MAPS) != 0 || metric_get(M_LOADING_BYTES) != 0;
}

/* ---- how long locks are held ---- */

/* The locks that are held, and what had been evicted when they were taken. Without more threads than one. */
static struct {
	const pthread_mutex_t *lock;
	int64_t evicted;
} taken[8];
static unsigned taken_count;
static int64_t most_evicted = -1; /* under one lock; below 0: nobody asks */

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	if (most_evicted >= 0) {
		taken[taken_count].lock = m;
		taken[taken_count++].evicted = metric_get(M_CACHE_EVICTED);
	}
	return __real_pthread_mutex_lock(m);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	for (unsigned i = 0; most_evicted >= 0 && i < taken_count; i++)
		if (taken[i].lock == m) {
			int64_t evicted = metric_get(M_CACHE_EVICTED) - taken[i].evicted;
			most_evicted = evicted > most_evicted ? evicted : most_evicted;
			taken[i] = taken[--taken_count];
		}
	return __real_pthread_mutex_unlock(m);
}

/* ---- room ---- */

struct room {
	struct page_cache *cache;
	struct module *stored;
	unsigned asked, locked;
};

static void make_room(void *arg, uint64_t bytes)
{
	struct room *r = arg;
	r->asked++;
	if (pthread_mutex_trylock(&r->stored->lock) != 0) {
		r->locked++;
		return;
	}
	pthread_mutex_unlock(&r->stored->lock);
	page_cache_shrink(r->cache, bytes);
}

/* The module that is stored is swept, too. */
static void test_room_is_made_for_a_root(void **state)
{
	const struct config none = {.memcached.count = 0};
	const struct store_options options = {.codec = CODEC_RAW, .item_max = UINT64_MAX};
	struct error e;
	struct room r = {page_cache_new(1 << 20), make_module(1, true), 0, 0};
	struct mc_servers *servers = mc_servers_new(&none, &e);
	struct mc_client *client = mc_client_new(servers);
	(void)state;
	put_module(r.cache, r.stored);
	account_start(account_used());
	account_on_full(make_room, &r);
	page_memcached_store(client, r.stored, &options, 0, NULL);
	account_on_full(NULL, NULL);
	account_start(0);
	assert_int_equal(r.asked, 1);
	assert_int_equal(r.locked, 0);
	mc_client_free(client);
	mc_servers_free(servers);
	module_unref(r.stored);
	page_cache_free(r.cache);
}

/* ---- the table ---- */

static void test_put_get_remove(void **state)
{
	struct page_cache *c = page_cache_new(1 << 20);
	struct module_hash h1 = hash_of(1), h2 = hash_of(2);
	(void)state;
	assert_non_null(c);
	assert_null(page_cache_get(c, &h1));
	put(c, 1, true);
	put(c, 2, true);
	assert_int_equal(metric_get(M_CACHE_MAPS), 2);
	struct module *m = page_cache_get(c, &h1);
	assert_non_null(m);
	assert_true(module_hash_equal(&m->hash, &h1));
	page_cache_remove(c, &h1, NULL);
	assert_false(is_in(c, 1));
	assert_true(is_in(c, 2));
	/* who has it reads on */
	struct page *p = module_page(c, m, PAGE_CODE, 3);
	assert_non_null(p);
	assert_int_equal(p->bytes[0], 1 + 3);
	page_unref(p);
	module_unref(m);
	/* nothing to remove */
	page_cache_remove(c, &h1, NULL);
	page_cache_remove(c, &h2, (struct module *)c);
	assert_true(is_in(c, 2));
	page_cache_free(c);
	page_cache_free(NULL);
	assert_int_equal(cache_bytes(), 0);
	assert_int_equal(metric_get(M_CACHE_MAPS), 0);
}

static void test_replaced(void **state)
{
	struct page_cache *c = page_cache_new(1 << 20);
	struct module_hash h = hash_of(1);
	struct module *old = make_module(1, true), *new = module_new(&h, make_map(100, false), LIFE_LOADED);
	(void)state;
	put_module(c, old);
	uint64_t one = cache_bytes();
	assert_true(one > 2 * PAGES * PAGE_BYTES && one < MODULE_BYTES);
	put_module(c, new);
	assert_int_equal(cache_bytes(), one);
	assert_int_equal(metric_get(M_CACHE_MAPS), 1);
	struct module *found = page_cache_get(c, &h);
	assert_ptr_equal(found, new);
	module_unref(found);
	/* the old one is still what it was, and no longer on the cache's account */
	struct page *p = module_page(c, old, PAGE_STRINGS, 0);
	assert_int_equal(p->bytes[0], 1);
	page_unref(p);
	page_unref(old->map->code[0]);
	old->map->code[0] = NULL;
	p = make_page(PAGE_CODE, 0, 7);
	module_put_page(c, old, 0, p);
	page_unref(p);
	assert_int_equal(cache_bytes(), one);
	/* only that one */
	page_cache_remove(c, &h, old);
	assert_true(is_in(c, 1));
	page_cache_remove(c, &h, new);
	assert_false(is_in(c, 1));
	assert_int_equal(cache_bytes(), 0);
	module_unref(old);
	module_unref(new);
	page_cache_free(c);
}

/* ---- pages ---- */

static void test_pages(void **state)
{
	struct page_cache *c = page_cache_new(1 << 20);
	struct module_hash h = hash_of(1);
	struct module *m = module_new(&h, make_map(1, true), LIFE_LOADED);
	(void)state;
	put_module(c, m);
	uint64_t empty = cache_bytes();
	for (uint32_t i = 0; i < PAGES; i++) {
		assert_null(module_page(c, m, PAGE_CODE, i));
		assert_null(module_page(c, m, PAGE_STRINGS, i));
	}
	struct page *p = make_page(PAGE_CODE, 2, 1), *other = make_page(PAGE_CODE, 2, 9);
	module_put_page(c, m, 2, p);
	uint64_t one = cache_bytes();
	assert_true(one > empty + PAGE_BYTES && one < empty + PAGE_BYTES + 100);
	/* the first stays */
	module_put_page(c, m, 2, other);
	assert_int_equal(cache_bytes(), one);
	struct page *got = module_page(c, m, PAGE_CODE, 2);
	assert_ptr_equal(got, p);
	assert_null(module_page(c, m, PAGE_STRINGS, 2));
	/* numbers that there are none of */
	module_put_page(c, m, PAGES, p);
	assert_null(module_page(c, m, PAGE_CODE, PAGES));
	assert_null(module_page(c, m, PAGE_STRINGS, UINT32_MAX));
	assert_int_equal(cache_bytes(), one);
	page_unref(got);
	page_unref(p);
	page_unref(other);
	module_unref(m);
	page_cache_free(c);
}

/* A page that waits compressed is opened once, and from then on counted as it is. */
static void test_compressed_page(void **state)
{
	struct page_cache *c = page_cache_new(1 << 20);
	struct module_hash h = hash_of(1);
	struct module *m = module_new(&h, make_map(1, true), LIFE_LOADED);
	struct page *small = page_compress(make_page(PAGE_CODE, 0, 42), CODEC_ZSTD);
	(void)state;
	put_module(c, m);
	assert_true(small->len < 100);
	uint64_t empty = cache_bytes();
	module_put_page(c, m, 0, small);
	assert_true(cache_bytes() < empty + 200);
	struct page *raw = module_page(c, m, PAGE_CODE, 0), *again = module_page(c, m, PAGE_CODE, 0);
	assert_ptr_equal(raw, again);
	assert_int_equal(raw->codec, CODEC_RAW);
	assert_int_equal(raw->len, PAGE_BYTES);
	for (uint32_t i = 0; i < raw->len; i++)
		assert_int_equal(raw->bytes[i], 42);
	assert_true(cache_bytes() > empty + PAGE_BYTES);
	page_unref(raw);
	page_unref(again);
	page_unref(small);
	module_unref(m);
	page_cache_free(c);
	assert_int_equal(cache_bytes(), 0);
}

/* ---- the budget ---- */

static void test_budget_is_kept(void **state)
{
	for (int stored = 0; stored < 2; stored++) {
		const uint64_t budget = 20 * MODULE_BYTES;
		struct page_cache *c = page_cache_new(budget);
		int64_t evicted = metric_get(M_CACHE_EVICTED);
		uint64_t most = 0;
		for (unsigned i = 0; i < 300; i++) {
			put(c, i, stored);
			assert_true(cache_bytes() <= budget);
			most = cache_bytes() > most ? cache_bytes() : most;
		}
		/* and used: what is thrown away is a sixteenth, not all */
		assert_true(most > budget - 2 * MODULE_BYTES);
		assert_true(cache_bytes() > budget * 3 / 4);
		assert_true(metric_get(M_CACHE_EVICTED) - evicted > 250 * 2 * PAGES * PAGE_BYTES);
		page_cache_free(c);
		assert_int_equal(cache_bytes(), 0);
		assert_int_equal(metric_get(M_CACHE_MAPS), 0);
	}
	(void)state;
}

/* A module that is larger than the whole budget does not stay, and neither does anything break. */
static void test_larger_than_budget(void **state)
{
	struct page_cache *c = page_cache_new(1000);
	struct module *m = make_module(1, false);
	(void)state;
	put_module(c, m);
	assert_false(is_in(c, 1));
	assert_int_equal(cache_bytes(), 0);
	struct page *p = module_page(c, m, PAGE_CODE, 1);
	assert_non_null(p);
	page_unref(p);
	module_unref(m);
	page_cache_free(c);
}

/* Maps that are being built take their room from those in the cache. */
static void test_charge(void **state)
{
	const uint64_t budget = 20 * MODULE_BYTES;
	struct page_cache *c = page_cache_new(budget);
	(void)state;
	for (unsigned i = 0; i < 15; i++)
		put(c, i, false);
	uint64_t before = cache_bytes();
	page_cache_charge(c, 4 * MODULE_BYTES);
	assert_int_equal(cache_bytes(), before);
	assert_int_equal(metric_get(M_LOADING_BYTES), 4 * MODULE_BYTES);
	page_cache_charge(c, 6 * MODULE_BYTES);
	assert_true(cache_bytes() <= 10 * MODULE_BYTES);
	assert_true(cache_bytes() > 7 * MODULE_BYTES);
	page_cache_charge(c, -10 * MODULE_BYTES);
	assert_int_equal(metric_get(M_LOADING_BYTES), 0);
	page_cache_free(c);
}

/* What was asked for lately does not give way to maps that are being built; what was not does. */
static void test_what_is_in_use_stays_while_maps_are_built(void **state)
{
	const uint64_t budget = 20 * MODULE_BYTES;
	struct page_cache *c = page_cache_new(budget);
	(void)state;
	for (unsigned i = 0; i < 15; i++)
		put(c, i, false);
	for (unsigned i = 0; i < 3; i++)
		page_cache_tick(c);
	for (unsigned i = 0; i < 5; i++) {
		struct module_hash hash = hash_of(i);
		module_unref(page_cache_get(c, &hash));
	}
	page_cache_charge(c, (int64_t)budget);
	assert_int_equal(metric_get(M_CACHE_MAPS), 5);
	page_cache_shrink(c, budget);
	assert_int_equal(metric_get(M_CACHE_MAPS), 5);
	page_cache_charge(c, -(int64_t)budget);
	for (unsigned i = 0; i < 3; i++)
		page_cache_tick(c);
	page_cache_shrink(c, budget);
	assert_int_equal(cache_bytes(), 0);
	page_cache_free(c);
}

static void test_shrink(void **state)
{
	struct page_cache *c = page_cache_new(20 * MODULE_BYTES);
	(void)state;
	for (unsigned i = 0; i < 15; i++)
		put(c, i, false);
	uint64_t before = cache_bytes();
	page_cache_shrink(c, before / 2);
	assert_true(cache_bytes() <= before / 2);
	assert_true(cache_bytes() + MODULE_BYTES > before / 2);
	page_cache_shrink(c, 2 * before);
	assert_int_equal(cache_bytes(), 0);
	page_cache_shrink(c, 1);
	page_cache_free(c);
}

/* ---- the clock ---- */

enum { CLOCKED = 320 };

/* Evicts once from a cache full of modules that were all just put: their marks are gone then. Returns how many are
 * left. */
static unsigned clear_marks(struct page_cache *c, struct module **modules)
{
	unsigned left = 0, next = 0;
	for (; metric_get(M_CACHE_MAPS) == next && next < CLOCKED; next++)
		put_module(c, modules[next]);
	assert_true(next < CLOCKED);
	for (unsigned i = 0; i < next; i++)
		left += modules[i]->in_cache;
	return left;
}

static void test_clock_spares_what_is_used(void **state)
{
	struct page_cache *c = page_cache_new(200 * MODULE_BYTES);
	struct module *modules[CLOCKED];
	bool used[CLOCKED];
	(void)state;
	for (unsigned i = 0; i < CLOCKED; i++)
		modules[i] = make_module(i, false);
	unsigned left = clear_marks(c, modules), kept = 0, gone = 0;
	assert_true(left > 150);
	/* every second one is looked at, then so many others are put that eighty have to go */
	for (unsigned i = 0, k = 0; i < CLOCKED; i++) {
		used[i] = modules[i]->in_cache && k++ % 2;
		if (used[i])
			assert_true(is_in(c, i));
	}
	for (unsigned i = 0; i < 60; i++)
		put(c, 1000 + i, false);
	for (unsigned i = 0; i < CLOCKED; i++) {
		kept += used[i] && modules[i]->in_cache;
		gone += used[i] && !modules[i]->in_cache;
		module_unref(modules[i]);
	}
	assert_int_equal(gone, 0);
	assert_int_equal(kept, left / 2);
	page_cache_free(c);
}

/* Of a module that memcached has, pages go one by one: those that nobody looked at. */
static void test_stored_module_loses_pages(void **state)
{
	struct page_cache *c = page_cache_new(MODULE_BYTES * 3 / 2);
	struct module *m = make_module(1, true);
	struct page *p;
	(void)state;
	put_module(c, m);
	/* What has to go is about three pages: the first round of the clock finds four. */
	for (uint32_t i = 0; i < PAGES; i++)
		atomic_store(&m->map->code[i]->used, 0);
	page_cache_charge(c, MODULE_BYTES * 3 / 4);
	assert_true(m->in_cache);
	for (uint32_t i = 0; i < PAGES; i++)
		assert_null(module_page(c, m, PAGE_CODE, i));
	assert_int_equal(pages_of(m), PAGES);
	page_cache_charge(c, -(MODULE_BYTES * 3 / 4));
	/* and may come back */
	p = make_page(PAGE_CODE, 2, 1);
	module_put_page(c, m, 2, p);
	page_unref(p);
	p = module_page(c, m, PAGE_CODE, 2);
	assert_non_null(p);
	page_unref(p);
	module_unref(m);
	page_cache_free(c);
	assert_int_equal(cache_bytes(), 0);
}

/* Nobody else has its pages: then half a map is worth nothing. */
static void test_unstored_module_goes_whole(void **state)
{
	struct page_cache *c = page_cache_new(40 * MODULE_BYTES);
	struct module *modules[100];
	unsigned in = 0;
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		modules[i] = make_module(i, false);
		for (uint32_t k = 0; k < PAGES; k++)
			atomic_store(&modules[i]->map->code[k]->used, 0);
		put_module(c, modules[i]);
	}
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(pages_of(modules[i]), 2 * PAGES);
		in += modules[i]->in_cache;
	}
	assert_true(in > 30 && in <= 41);
	assert_int_equal(metric_get(M_CACHE_MAPS), in);
	for (unsigned i = 0; i < 100; i++)
		module_unref(modules[i]);
	page_cache_free(c);
}

/* A request that wants a page waits until its shard and module are free: so they are after few pages. */
static void test_locks_are_not_held_for_long(void **state)
{
	enum { MODULES = 200, LARGE = 500, FEW = 32 };
	struct page_cache *c = page_cache_new(UINT64_C(1) << 40);
	struct module_hash hash = hash_of(MODULES);
	struct module *large = module_new(&hash, make_map_of(1, LARGE, LARGE), LIFE_LOADED);
	(void)state;
	assert_non_null(large);
	atomic_store(&large->life, LIFE_STORED);
	put_module(c, large);
	module_unref(large);
	for (unsigned i = 0; i < MODULES; i++)
		put(c, i, true);
	most_evicted = 0;
	page_cache_shrink(c, cache_bytes());
	int64_t most = most_evicted;
	most_evicted = -1;
	assert_int_equal(taken_count, 0);
	assert_int_equal(cache_bytes(), 0);
	assert_in_range(most, PAGE_BYTES, FEW * (PAGE_BYTES + 200));
	page_cache_free(c);
}

static void test_held_modules_stay(void **state)
{
	const uint64_t budget = 10 * MODULE_BYTES;
	struct page_cache *c = page_cache_new(budget);
	struct module *held[15];
	(void)state;
	for (unsigned i = 0; i < 15; i++) {
		held[i] = make_module(i, i % 2);
		atomic_fetch_add(&held[i]->holds, 1);
		put_module(c, held[i]);
	}
	for (unsigned i = 100; i < 200; i++)
		put(c, i, i % 2);
	assert_true(cache_bytes() > budget);
	for (unsigned i = 0; i < 15; i++) {
		assert_true(held[i]->in_cache);
		assert_int_equal(pages_of(held[i]), 2 * PAGES);
		assert_int_equal(atomic_fetch_sub(&held[i]->holds, 1), 1);
	}
	put(c, 300, false);
	assert_true(cache_bytes() <= budget);
	for (unsigned i = 0; i < 15; i++)
		module_unref(held[i]);
	page_cache_free(c);
	assert_int_equal(cache_bytes(), 0);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 4000, NAMES = 24 };

struct worker {
	struct page_cache *cache;
	uint64_t seed;
	unsigned wrong, found;
};

/* Reads a page, or puts it back when it is gone, some of them compressed. Threads cannot use cmocka: they count. */
static void use_page(struct worker *w, struct module *m, unsigned name)
{
	enum page_kind kind = next_random(&w->seed) % 2 ? PAGE_CODE : PAGE_STRINGS;
	uint32_t number = next_random(&w->seed) % PAGES;
	struct page *p = module_page(w->cache, m, kind, number);
	if (!p) {
		p = page_new(kind, PAGE_BYTES);
		if (!p)
			return;
		memset(p->bytes, (int)(name + number), p->len);
		if (next_random(&w->seed) % 2)
			p = page_compress(p, CODEC_LZ4);
		module_put_page(w->cache, m, number, p);
		page_cache_evict(w->cache);
	} else {
		w->found++;
		w->wrong += p->codec != CODEC_RAW || p->len != PAGE_BYTES || p->bytes[0] != name + number ||
		            p->bytes[PAGE_BYTES - 1] != name + number;
	}
	page_unref(p);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned name = next_random(&w->seed) % NAMES, what = next_random(&w->seed) % 100;
		struct module_hash h;
		char text[20];
		snprintf(text, sizeof text, "%u", name);
		if (!module_hash_make(&h, "test", str_from(text), str_from("0")))
			w->wrong++;
		struct module *m = page_cache_get(w->cache, &h);
		if (!m || what < 3) {
			module_unref(m);
			m = module_new(&h, make_map((uint8_t)name, what % 2), LIFE_LOADED);
			atomic_store(&m->life, next_random(&w->seed) % 2 ? LIFE_STORED : LIFE_WHOLE);
			put_module(w->cache, m);
		} else if (what < 5) {
			page_cache_remove(w->cache, &h, what == 3 ? NULL : m);
		} else if (what < 8) {
			page_cache_charge(w->cache, 3 * MODULE_BYTES);
			page_cache_charge(w->cache, -3 * MODULE_BYTES);
		}
		bool hold = what % 4 == 0;
		if (hold)
			atomic_fetch_add(&m->holds, 1);
		for (unsigned i = 0; i < 4; i++)
			use_page(w, m, name);
		if (hold)
			atomic_fetch_sub(&m->holds, 1);
		module_unref(m);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct page_cache *c = page_cache_new(12 * MODULE_BYTES);
	int64_t evicted = metric_get(M_CACHE_EVICTED);
	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){c, i + 1, 0, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(workers[i].wrong, 0);
		assert_true(workers[i].found > ROUNDS);
	}
	assert_true(metric_get(M_CACHE_EVICTED) > evicted);
	put(c, NAMES, false);
	assert_true(cache_bytes() <= 12 * MODULE_BYTES);
	page_cache_free(c);
	assert_int_equal(cache_bytes(), 0);
	assert_int_equal(metric_get(M_CACHE_MAPS), 0);
	assert_int_equal(metric_get(M_LOADING_BYTES), 0);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(test_room_is_made_for_a_root),
	        TEST(test_put_get_remove),
	        TEST(test_replaced),
	        TEST(test_pages),
	        TEST(test_compressed_page),
	        TEST(test_budget_is_kept),
	        TEST(test_larger_than_budget),
	        TEST(test_charge),
	        TEST(test_what_is_in_use_stays_while_maps_are_built),
	        TEST(test_shrink),
	        TEST(test_clock_spares_what_is_used),
	        TEST(test_stored_module_loses_pages),
	        TEST(test_unstored_module_goes_whole),
	        TEST(test_locks_are_not_held_for_long),
	        TEST(test_held_modules_stay),
	        TEST(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
