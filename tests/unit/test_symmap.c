/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a symbol file says in memory: how much that takes, and pages made from it by several threads. The linker sends
 * allocations through alloc_fail.c (--wrap).
 */
#include <config.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/clock.h"
#include "base/process.h"
#include "cache/page_cache.h"
#include "offmap_tools.h"
#include "seed.h"
#include "sym/symmap.h"

enum { KIB = 1 << 10 };

enum { RUNS = 3, FUNCS = 5000, PLACES = RUNS * FUNCS };

/* RUNS runs of functions in turn, each ascending, but each begins elsewhere among the addresses; with names for
 * string pages, one large function, and records that no page needs. */
static struct buffer make_runs(void)
{
	uint64_t seed = seed_of(6);
	struct buffer t = text_new();
	text_add(&t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nINLINE_ORIGIN 0 %0100u\n", 1);
	for (unsigned i = 0; i < PLACES; i++) {
		unsigned step = (i / RUNS + i % RUNS * FUNCS / RUNS) % FUNCS, at = (RUNS * step + i % RUNS) * 0x100;
		text_add(&t, "FUNC %x 100 0 function%u\nINLINE 0 %u 0 0 %x 8\n", at, i, i, at);
		for (unsigned k = 0; k < 16; k++)
			text_add(&t, "%x 10 %u 0\n", at + 16 * k, next_random(&seed));
		if (i % 1000 == 0)
			text_add(&t, "INLINE_ORIGIN %u %0200u\n", i + 1, i);
	}
	text_add(&t, "FUNC %x 1000000 0 large\n", PLACES * 0x100);
	for (unsigned i = 0; i < 0x1000000; i += 0x80)
		text_add(&t, "%x 80 %u 0\n", PLACES * 0x100 + i, i);
	for (size_t end = t.len + (1 << 20); t.len < end;)
		text_add(&t, "STACK CFI 100 .cfa: $rsp 8 +\n");
	return t;
}

/* A module without pages whose records are attached, as a load leaves it. */
struct loaded {
	atomic_uint idle_makers;
	struct symmap *text;
	struct page_cache *cache;
	struct module *module;
	const struct offmap *want;
	uint64_t seed;
};

static void feed(struct symmap *m, const struct buffer *t, size_t most)
{
	for (size_t at = 0, n; at < t->len; at += n) {
		n = t->len - at < most ? t->len - at : most;
		assert_int_equal(symmap_feed(m, t->data + at, n, NULL), ERR_OK);
	}
	assert_int_equal(symmap_finish(m, NULL), ERR_OK);
}

static void load(struct loaded *l, const struct buffer *t, size_t most, uint64_t memory_max)
{
	struct module_hash hash = {0};
	struct offmap_options options = plain_options;
	options.memory_max = memory_max;
	*l = (struct loaded){.cache = page_cache_new(UINT32_MAX)};
	l->text = symmap_new(&options, &l->idle_makers, str_from(""));
	assert_non_null(l->text);
	feed(l->text, t, most);
	l->module = module_new(&hash, symmap_map(l->text), LIFE_LOADED);
	assert_non_null(l->module);
	symmap_ref(l->text);
	l->module->records = l->text;
}

static void unload(struct loaded *l)
{
	symmap_unref(l->text);
	module_unref(l->module);
	assert_int_equal(l->idle_makers, 0);
	page_cache_free(l->cache);
}

static void finish_page(struct loaded *l, struct symmap_maker *maker, enum page_kind kind, uint32_t number)
{
	struct page *p = symmap_make(maker, kind, number);
	assert_non_null(p);
	module_put_page(l->cache, l->module, number, p);
	page_unref(p);
	symmap_charge(l->text, maker);
}

static void finish_pages(struct loaded *l)
{
	struct symmap_maker maker;
	assert_true(symmap_take(l->text, true, &maker));
	for (uint32_t i = 0; i < l->want->string_count; i++)
		finish_page(l, &maker, PAGE_STRINGS, i);
	for (uint32_t i = 0; i < l->want->code_count; i++)
		finish_page(l, &maker, PAGE_CODE, i);
	symmap_give(l->text, &maker);
}

static void *ask_for_pages(void *arg)
{
	struct loaded *l = arg;
	uint64_t seed = l->seed + (uintptr_t)&seed;
	for (unsigned i = 0; i < rounds(500); i++) {
		bool code = next_random(&seed) % 8;
		uint32_t number = next_random(&seed) % (code ? l->want->code_count : l->want->string_count);
		enum page_kind kind = code ? PAGE_CODE : PAGE_STRINGS;
		struct page *p = module_page(l->cache, l->module, kind, number);
		if (!p)
			assert_int_equal(module_make_page(l->cache, l->module, kind, number, &p), ERR_OK);
		assert_non_null(p);
		const struct page *want = (code ? l->want->code : l->want->strings)[number];
		assert_int_equal(p->len, want->len);
		assert_memory_equal(p->bytes, want->bytes, p->len);
		page_unref(p);
	}
	return NULL;
}

/* Threads that miss pages make them, while another one makes all. */
static void test_pages_by_threads(void **state)
{
	enum { THREADS = 3 };
	struct buffer t = make_runs();
	struct offmap *want = map_build(text_str(&t), &plain_options);
	struct loaded l;
	pthread_t threads[THREADS];
	(void)state;
	load(&l, &t, SIZE_MAX, 0);
	l.want = want;
	l.seed = seed_of(5);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_for_pages, &l), 0);
	finish_pages(&l);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_same_pages(want, l.module->map);
	unload(&l);
	offmap_free(want);
	buffer_release(&t);
}

static void add_stack_records(struct buffer *t, size_t len)
{
	for (size_t end = t->len + len; t->len < end;)
		text_add(t, "STACK CFI %zx .cfa: $rsp %zu + .ra: .cfa -8 + ^\n", t->len, t->len % 1000);
}

/* Functions with more text than a page has, up to 2 MiB, are cut at the same places however the text arrives. */
static void test_large_functions_are_cut_alike(void **state)
{
	static const size_t pieces[] = {100003, 256 * KIB, 777};
	uint64_t seed = seed_of(11), addr = 0;
	(void)state;
	if (is_watched_for_races())
		skip();
	struct buffer t = text_new();
	text_add(&t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\n");
	for (unsigned i = 0; i < 60; i++) {
		unsigned lines = 1u << next_random(&seed) % 17; /* 1 to 65,536 */
		text_add(&t, "FUNC %" PRIx64 " %x 0 function%u\n", addr, 16 * lines, i);
		for (unsigned k = 0; k < lines; k++, addr += 16)
			text_add(&t, "%" PRIx64 " 10 %u 0\n", addr, i + k);
		if (i % 8 == 0)
			add_stack_records(&t, next_random(&seed) % (256 * KIB));
	}
	struct offmap *want = map_build(text_str(&t), &plain_options);
	for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		struct loaded l;
		load(&l, &t, pieces[i], 0);
		l.want = want;
		finish_pages(&l);
		assert_same_pages(want, l.module->map);
		unload(&l);
	}
	offmap_free(want);
	buffer_release(&t);
}

/* ---- memory ---- */

/* What a text takes once it has been read. */
static uint64_t held_for(const struct buffer *t)
{
	atomic_uint idle_makers = 0;
	alloc_watch();
	struct symmap *m = symmap_new(&plain_options, &idle_makers, str_from(""));
	assert_non_null(m);
	feed(m, t, 256 * KIB);
	uint64_t held = alloc_held(), charged = account_used_for(ACCOUNT_TEXTS);
	assert_in_range(charged, held - held / 8, held + held / 8 + 1 * KIB);
	symmap_unref(m);
	assert_int_equal(account_used_for(ACCOUNT_TEXTS), 0);
	alloc_watched();
	return held;
}

static void test_a_small_module_takes_little(void **state)
{
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nINLINE_ORIGIN 0 in\n");
	for (unsigned i = 0; t.len < 1200; i++)
		text_add(
		        &t, "FUNC %x 10 0 function%u\nINLINE 0 1 0 0 %x 8\n%x 10 %u 0\n", i * 16, i, i * 16, i * 16, i);
	uint64_t held = held_for(&t);
	print_message("%zu bytes of text take %" PRIu64 "\n", t.len, held);
	assert_in_range(held, 1, 4 * KIB);
	buffer_release(&t);
}

/* Functions as compilers make them, but for their names, which are shorter. */
static struct buffer make_usual(void)
{
	uint64_t seed = seed_of(7);
	struct buffer t = text_new();
	text_add(&t, "MODULE Linux x86_64 0 a\n");
	for (unsigned i = 0; i < 1000; i++)
		text_add(&t, "FILE %u /usr/include/c++/12/bits/file_%u.h\nINLINE_ORIGIN %u std::vector<%u>::at\n", i, i,
		        i, i);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned at = 0x1000000 + i * 0x100, line = next_random(&seed) % 2000;
		text_add(&t, "FUNC %x 100 0 ceph::buffer::list::function_%u(unsigned int, char const*) const\n", at, i);
		for (unsigned k = 0; k < 6; k++)
			text_add(&t, "INLINE %u %u %u %u %x %x\n", k % 3, line + k, i % 1000, (i + k) % 1000,
			        at + 8 * k, 4 + k);
		for (unsigned k = 0; k < 24; k++)
			text_add(&t, "%x 8 %u %u\n", at + 8 * k, line + next_random(&seed) % 50, (i + k / 4) % 1000);
	}
	return t;
}

static void test_a_large_module_takes_a_quarter_of_its_text(void **state)
{
	struct buffer t = make_usual();
	(void)state;
	uint64_t held = held_for(&t);
	print_message("%zu bytes of text take %" PRIu64 "\n", t.len, held);
	assert_in_range(held, 1, t.len / 4);
	buffer_release(&t);
}

static void test_stack_records_take_no_memory(void **state)
{
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE Linux x86_64 0 a\nFUNC 0 100 0 f\n0 10 1 0\nPUBLIC 1000 0 p\n");
	uint64_t without = held_for(&t);
	add_stack_records(&t, 5 << 20);
	assert_in_range(held_for(&t), 1, without + 64);
	buffer_release(&t);
}

/* One id that is far from the others makes them all be copied, of which the bound knew nothing. */
static void test_memory_to_sort_definitions_is_within_the_bound(void **state)
{
	enum { COUNT = 100000, HELD_MAX = 25 * COUNT };
	struct offmap_options options = plain_options;
	struct buffer t = text_new();
	atomic_uint idle_makers = 0;
	struct error e;
	(void)state;
	options.memory_max = HELD_MAX;
	text_add(&t, "MODULE Linux x86_64 0 a\nFILE 9999999999 a.c\n");
	for (unsigned i = 0; i < COUNT; i++)
		text_add(&t, "FILE 1 a\n");
	text_add(&t, "FUNC 0 10 0 f\n");
	alloc_watch();
	struct symmap *m = symmap_new(&options, &idle_makers, str_from(""));
	assert_non_null(m);
	assert_int_equal(symmap_feed(m, t.data, t.len, &e), ERR_OK);
	assert_int_equal(symmap_finish(m, &e), ERR_TOO_LARGE);
	symmap_unref(m);
	assert_in_range(alloc_watched().peak, 16 * COUNT, HELD_MAX);
	buffer_release(&t);
}

/* ---- makers ---- */

static void test_idle_makers_are_few(void **state)
{
	enum { MAKERS = 12 };
	struct buffer t = make_runs();
	struct loaded l;
	struct symmap_maker makers[MAKERS];
	unsigned cores = cores_count();
	(void)state;
	load(&l, &t, SIZE_MAX, 0);
	for (unsigned i = 0; i < MAKERS; i++)
		assert_true(symmap_take(l.text, true, &makers[i]));
	assert_int_equal(l.idle_makers, 0);
	for (unsigned i = 0; i < MAKERS; i++)
		symmap_give(l.text, &makers[i]);
	assert_int_equal(l.idle_makers, cores < MAKERS ? cores : MAKERS);
	assert_true(symmap_take(l.text, true, &makers[0]));
	assert_int_equal(l.idle_makers, (cores < MAKERS ? cores : MAKERS) - 1);
	symmap_give(l.text, &makers[0]);
	unload(&l);
	buffer_release(&t);
}

static void use_one_core(cpu_set_t *before)
{
	cpu_set_t one;
	assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

/* On one core, too. */
static void test_nobody_waits_for_a_load_that_is_finished(void **state)
{
	struct buffer t = make_runs();
	struct loaded l;
	struct symmap_maker finisher, maker;
	cpu_set_t all;
	(void)state;
	use_one_core(&all);
	load(&l, &t, SIZE_MAX, 0);
	assert_true(symmap_take(l.text, true, &finisher));
	alarm(60); /* it would wait for ever */
	assert_true(symmap_take(l.text, false, &maker));
	alarm(0);
	symmap_give(l.text, &maker);
	symmap_give(l.text, &finisher);
	unload(&l);
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
	buffer_release(&t);
}

struct late {
	struct loaded *loaded;
	_Atomic pid_t thread;
	enum err err;
	struct page *page;
};

static void *ask_late(void *arg)
{
	struct late *l = arg;
	l->thread = gettid();
	l->err = module_make_page(l->loaded->cache, l->loaded->module, PAGE_CODE, 0, &l->page);
	return NULL;
}

static bool sleeps(pid_t thread)
{
	char path[64], state = 0;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'S';
}

/* Then it is in memcached, if the cache has evicted it already. */
static void test_a_page_that_waited_until_the_text_was_gone(void **state)
{
	struct buffer t = make_runs();
	struct loaded l;
	struct late late = {.loaded = &l};
	struct symmap_maker maker;
	pthread_t thread;
	cpu_set_t all;
	(void)state;
	use_one_core(&all);
	load(&l, &t, SIZE_MAX, 0);
	assert_true(symmap_take(l.text, false, &maker));
	assert_int_equal(pthread_create(&thread, NULL, ask_late, &late), 0);
	while (!late.thread || !sleeps(late.thread)) /* it waits for the maker */
		nanosleep(&(struct timespec){0, MS}, NULL);
	atomic_store(&l.module->life, LIFE_FINISHING);
	module_drop_records(l.module);
	symmap_give(l.text, &maker);
	pthread_join(thread, NULL);
	assert_int_equal(late.err, ERR_OK);
	page_unref(late.page);
	unload(&l);
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
	buffer_release(&t);
}

enum { MAKING = 3 };

struct making {
	struct symmap *text;
	pthread_barrier_t together;
	atomic_uint now, most;
};

static void *make_often(void *arg)
{
	struct making *w = arg;
	pthread_barrier_wait(&w->together);
	for (unsigned i = 0; i < rounds(50); i++) {
		struct symmap_maker maker;
		assert_true(symmap_take(w->text, false, &maker));
		unsigned now = ++w->now, most = w->most;
		while (now > most && !atomic_compare_exchange_weak(&w->most, &most, now))
			continue;
		struct page *p = symmap_make(&maker, PAGE_CODE, 0);
		assert_non_null(p);
		page_unref(p);
		w->now--;
		symmap_give(w->text, &maker);
	}
	return NULL;
}

/* Each may take 24 bytes for each byte of the largest function. */
static void test_makers_wait_for_memory(void **state)
{
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE a b 0 c\nFUNC 0 10000000 0 f\n");
	for (unsigned i = 0; t.len < 1 << 20; i++)
		text_add(&t, "%x 4 %u 0\n", 4 * i, i % 100);
	for (unsigned one = 0; one < 2; one++) {
		struct loaded l;
		struct making w = {0};
		pthread_t threads[MAKING];
		load(&l, &t, SIZE_MAX, one ? 40 << 20 : 0);
		w.text = l.text;
		pthread_barrier_init(&w.together, NULL, MAKING);
		for (unsigned i = 0; i < MAKING; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, make_often, &w), 0);
		for (unsigned i = 0; i < MAKING; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&w.together);
		print_message("%s: %u at once\n", one ? "memory for one" : "without a bound", w.most);
		assert_in_range(w.most, 1, one ? 1 : cores_count());
		unload(&l);
	}
	buffer_release(&t);
}

/* ---- failures ---- */

static bool try_all(void *arg)
{
	struct buffer *t = arg;
	atomic_uint idle_makers = 0;
	struct error e;
	struct symmap *m = symmap_new(&plain_options, &idle_makers, str_from(""));
	enum err err = m ? ERR_OK : ERR_NO_MEMORY;
	struct symmap_maker maker = {0};
	for (size_t at = 0, n = 100003; at < t->len && !err; at += n)
		err = symmap_feed(m, t->data + at, n < t->len - at ? n : t->len - at, &e);
	if (!err)
		err = symmap_finish(m, &e);
	struct offmap *map = err ? NULL : symmap_map(m);
	bool ok = map && symmap_take(m, true, &maker);
	for (uint32_t i = 0; ok && i < map->code_count; i += 10) {
		struct page *p = symmap_make(&maker, PAGE_CODE, i);
		ok = p != NULL;
		page_unref(p);
	}
	if (maker.pages)
		symmap_give(m, &maker);
	symmap_unref(m);
	offmap_free(map);
	assert_true(!err || err == ERR_NO_MEMORY);
	assert_int_equal(account_used_for(ACCOUNT_TEXTS) + account_used_for(ACCOUNT_MAKERS), 0);
	return ok;
}

static void test_no_memory(void **state)
{
	(void)state;
	if (is_watched_for_races())
		skip();
	struct buffer t = text_new();
	text_add(&t, "MODULE Linux x86_64 0 a\nINFO CODE_ID 1 a.exe\nFILE 0 a.c\nINLINE_ORIGIN 70000 %0200u\n", 1);
	for (unsigned i = 0; i < 2000; i++)
		text_add(&t, "FUNC %x 10 0 %0100u\nINLINE 0 1 0 70000 %x 8\n%x 10 1 0\n", 16 * i, i * 7919, 16 * i,
		        16 * i);
	text_add(&t, "PUBLIC ffffffff 0 ");
	for (unsigned i = 0; i < 3; i++)
		text_add(&t, "%0400u", i);
	text_add(&t, "\nFUNC 100000 100000 0 large\n");
	for (unsigned i = 0; i < 70000; i++) /* all of its lines are looked at */
		text_add(&t, "%x 8 %u 0\n", 0x100000 + 8 * i, i);
	assert_in_range(fail_each_allocation(try_all, &t), 30, 2000);
	buffer_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_pages_by_threads),
	        cmocka_unit_test(test_large_functions_are_cut_alike),
	        cmocka_unit_test(test_a_small_module_takes_little),
	        cmocka_unit_test(test_a_large_module_takes_a_quarter_of_its_text),
	        cmocka_unit_test(test_stack_records_take_no_memory),
	        cmocka_unit_test(test_memory_to_sort_definitions_is_within_the_bound),
	        cmocka_unit_test(test_idle_makers_are_few),
	        cmocka_unit_test(test_nobody_waits_for_a_load_that_is_finished),
	        cmocka_unit_test(test_a_page_that_waited_until_the_text_was_gone),
	        cmocka_unit_test(test_makers_wait_for_memory),
	        cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
