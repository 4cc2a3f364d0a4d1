/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbfiles made to cost much: all work of building, the map and the memory that it takes grow no faster than the
 * records, and the answers stay right as far as they go. Then every allocation fails once.
 */
#include <config.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "offmap_tools.h"
#include "seed.h"
#include "symbfile/map.h"
#include "work.h"

/* ---- measuring ---- */

static void add(struct symbfile_map *m, uint64_t va, uint64_t length, uint32_t depth, const char *func)
{
	const struct symbfile_line lines[] = {{0, 7}, {(uint32_t)(length / 2), (uint32_t)va}};
	const struct symbfile_range r = {.va = va,
	        .length = length,
	        .depth = depth,
	        .func = str_from(func),
	        .file = str_from("a.c"),
	        .has_file = true,
	        .call_line = depth,
	        .lines = lines,
	        .line_count = 2};
	struct symbfile_sink sink = symbfile_map_sink(m);
	assert_int_equal(sink.range(sink.arg, &r, NULL), ERR_OK);
}

static void add_pad(struct symbfile_map *m, uint64_t va, const char *outer, const char *inner)
{
	const struct symbfile_frame frames[] = {
	        {str_from(outer), str_from("a.c"), 5}, {str_from(inner), str_from("b.h"), 6}};
	const struct symbfile_pad p = {va, frames, 2};
	struct symbfile_sink sink = symbfile_map_sink(m);
	assert_int_equal(sink.pad(sink.arg, &p, NULL), ERR_OK);
}

/* Adds n records. */
typedef void make_fn(struct symbfile_map *m, uint32_t n);

struct measured {
	struct offmap *map;
	uint64_t bytes;       /* of the map with its root */
	struct alloc_use use; /* of building */
};

static struct measured measure(make_fn *make, uint32_t n)
{
	struct measured r = {0};
	alloc_watch();
	struct symbfile_map *m = symbfile_map_new(&plain_options);
	assert_non_null(m);
	make(m, n);
	assert_int_equal(symbfile_map_all(m, &r.map), ERR_OK);
	symbfile_map_free(m);
	r.use = alloc_watched();
	struct page *root = offmap_root_encode(r.map);
	assert_non_null(root);
	r.bytes = r.map->raw_bytes + root->len;
	page_unref(root);
	return r;
}

static bool grew(uint64_t one, uint64_t two)
{
	return 10 * two <= 22 * one + 10 * (64 << 10);
}

/* What a sanitizer makes larger shows no growth: there only the larger one is built. */
static void check_grew(make_fn *make, uint32_t n, const struct measured *two)
{
	if (slowness() > 1)
		return;
	struct measured one = measure(make, n);
	print_message("%" PRIu32 " records: work %zu, map %" PRIu64 ", peak %zu; twice: work %zu, map %" PRIu64
	              ", peak %zu\n",
	        n, one.use.work, one.bytes, one.use.peak, two->use.work, two->bytes, two->use.peak);
	offmap_free(one.map);
	assert_true(work_is_linear(one.use.work, two->use.work));
	assert_true(grew(one.bytes, two->bytes));
	assert_true(grew(one.use.peak, two->use.peak));
}

/* Twice the records take at most 2.2 times as much of everything, and a record no more than 4000 edges of work, and
 * bytes as given. */
static struct offmap *check_growth(make_fn *make, uint32_t n, unsigned map_share, unsigned peak_share)
{
	struct measured two = measure(make, 2 * n);
	check_grew(make, n, &two);
	assert_true(two.use.work <= 2 * 4000 * (uint64_t)n);
	assert_true(two.bytes <= 2 * (uint64_t)map_share * n);
	assert_true(two.use.peak <= 2 * (uint64_t)peak_share * n);
	return two.map;
}

/* ---- the files ---- */

static void one_after_another(struct symbfile_map *m, uint32_t n)
{
	char name[32];
	for (uint32_t i = 0; i < n / 4; i++) {
		snprintf(name, sizeof name, "function_%" PRIu32, i);
		add(m, 100 * (uint64_t)i, 100, 0, name);
		add(m, 100 * (uint64_t)i + 10, 50, 1, "a");
		add(m, 100 * (uint64_t)i + 20, 20, 2, "b");
		add_pad(m, 100 * (uint64_t)i + 70, name, "c");
	}
}

static void test_ordinary(void **state)
{
	(void)state;
	struct offmap *m = check_growth(one_after_another, 40000, 60, 300);
	assert_answer(m, 100, "function_1+0x0/0x64 a.c:7");
	assert_answer(m, 125, "b a.c:7 < a a.c:2 < function_1+0x19/0x64 a.c:1");
	assert_answer(m, 170, "c b.h:6 < function_1+0x46/0x64 a.c:5");
	offmap_free(m);
}

/* Half of the ranges reach over the other half, which are the functions. */
static void deep_over_functions(struct symbfile_map *m, uint32_t n)
{
	for (uint32_t i = 0; i < n / 2; i++) {
		add(m, 2 * (uint64_t)i, 1, 0, i % 2 ? "f" : "g");
		add(m, 0, n, 1 + i, "deep");
	}
}

static void test_deep_over_functions(void **state)
{
	(void)state;
	struct offmap *m = check_growth(deep_over_functions, 40000, 400, 700);
	/* the chain is short by then */
	assert_answer(m, 79996,
	        "deep a.c:8 < deep a.c:7 < deep a.c:6 < deep a.c:5 < deep a.c:4 < deep a.c:3 < deep a.c:2 < "
	        "g+0x0/0x1 a.c:1");
	offmap_free(m);
}

static void all_to_one_end(struct symbfile_map *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		add(m, i, 2 * (uint64_t)n - i, 0, i % 2 ? "f" : "g");
}

static void one_in_another(struct symbfile_map *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		add(m, i, 4 * (uint64_t)n - 2 * i, i % 3 ? 1 : 0, i % 2 ? "f" : "g");
}

static void all_the_same(struct symbfile_map *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		add(m, 10, 10, i % 100, "f");
		add_pad(m, 12, "f", "g");
	}
}

static void test_overlaps(void **state)
{
	(void)state;
	struct offmap *m = check_growth(all_to_one_end, 40000, 60, 300);
	assert_answer(m, 79999, "f+0x1387e/0x270ff a.c:7"); /* all that overlap are one function */
	assert_answer(m, 159999, "f+0x270fe/0x270ff a.c:79999");
	offmap_free(m);
	offmap_free(check_growth(one_in_another, 40000, 200, 500));
	offmap_free(check_growth(all_the_same, 40000, 60, 400));
}

static void two_hundred_levels(struct symbfile_map *m, uint32_t n)
{
	for (uint32_t i = 0; i < n / 200; i++)
		for (uint32_t depth = 0; depth < 200; depth++)
			add(m, 1000 * (uint64_t)i + depth, 1000 - 2 * (uint64_t)depth, depth, "f");
}

static void depths_of_all_sizes(struct symbfile_map *m, uint32_t n)
{
	uint64_t seed = seed_of(1);
	for (uint32_t i = 0; i < n; i++)
		add(m, next_random(&seed) % n, next_random(&seed) % n, 2 * next_random(&seed), "f");
}

static void pads_cut_a_deep_function(struct symbfile_map *m, uint32_t n)
{
	for (uint32_t i = 0; i < n / 2; i++)
		add(m, 0, 4 * (uint64_t)n, i, "f");
	for (uint32_t i = 0; i < n / 2; i++)
		add_pad(m, 2 * (uint64_t)i, i % 2 ? "g" : "h", "i");
}

static void test_depths(void **state)
{
	(void)state;
	struct offmap *m = check_growth(two_hundred_levels, 80000, 60, 300);
	offmap_free(m);
	offmap_free(check_growth(depths_of_all_sizes, 40000, 400, 700));
	offmap_free(check_growth(pads_cut_a_deep_function, 40000, 400, 700));
}

static unsigned count_frames(const struct offmap *m, uint64_t address)
{
	struct buffer text = text_new();
	unsigned frames = 1;
	describe(m, address, &text);
	for (size_t i = 0; i + 3 < text.len; i++)
		frames += memcmp(text.data + i, " < ", 3) == 0;
	buffer_release(&text);
	return frames;
}

/* Where the nodes are used up, a chain is all there or short; it does not end in the middle. */
static void test_chains_become_short_at_once(void **state)
{
	unsigned all = 0, few = 0;
	struct symbfile_map *m = symbfile_map_new(&plain_options);
	struct offmap *map;
	(void)state;
	assert_non_null(m);
	for (uint32_t depth = 0; depth < 2000; depth++)
		add(m, 0, 1000, depth, "f");
	for (uint32_t i = 0; i < 100; i++) {
		add(m, 10 * i, 10, 1, "f");
		add(m, 10 * i + 5, 2, 1500, "f");
	}
	assert_int_equal(symbfile_map_all(m, &map), ERR_OK);
	symbfile_map_free(m);
	for (uint64_t at = 0; at < 1000; at += 3) {
		unsigned frames = count_frames(map, at);
		all += frames == 2000;
		few += frames == 8; /* a short chain */
	}
	assert_true(all && few);
	assert_int_equal(all + few, 334);
	offmap_free(map);
}

/* A name of a table is given with few bytes, as often as one likes. */
static void few_long_names(struct symbfile_map *m, uint32_t n)
{
	char name[1001];
	for (uint32_t i = 0; i < n; i++) {
		memset(name, 'a' + (int)(i % 17), sizeof name - 1);
		name[sizeof name - 1] = 0;
		add(m, 16 * (uint64_t)i, 10, 0, name);
	}
}

static void test_names(void **state)
{
	(void)state;
	offmap_free(check_growth(few_long_names, 40000, 60, 300));
}

/* Long names that nothing compresses: after 64 MiB they are cut. */
static void test_reading_of_strings_is_bounded(void **state)
{
	enum { COUNT = 2000 };
	const uint64_t len = 1 << 20, most = (64 << 20) + len + 4096 * COUNT;
	uint64_t seed = 1;
	char *name = malloc(len + 1);
	struct records *r = NULL;
	(void)state;
	assert_non_null(name);
	for (size_t i = 0; i < len; i++)
		name[i] = (char)('!' + next_random(&seed) % 90);
	name[len] = 0;
	struct symbfile_map *m = symbfile_map_new(&plain_options);
	assert_non_null(m);
	for (uint32_t i = 0; i < COUNT; i++) {
		memcpy(name, &(uint32_t){0x21212121 + (i % 64 | i / 64 << 8)}, sizeof i);
		add(m, i, 1, 0, name);
	}
	assert_int_equal(symbfile_map_finish(m, &r), ERR_OK);
	assert_in_range(records_bytes(r), most / 2, most + most / 8);
	records_free(r);
	symbfile_map_free(m);
	free(name);
}

/* ---- no memory ---- */

static bool try_to_build(void *arg)
{
	(void)arg;
	struct offmap *map = NULL;
	enum err err = ERR_NO_MEMORY;
	const struct symbfile_line lines[] = {{0, 7}, {5, 9}};
	struct symbfile_range r = {.length = 10, .lines = lines, .line_count = 2, .func = str_from("f\n")};
	const struct symbfile_frame frame = {
	        str_from("a name of more letters than there may be in a page of code, so it is "
	                 "one for the pages of strings"),
	        str_from("g"), 1};
	struct symbfile_pad p = {3, &frame, 1};
	struct error e;
	struct symbfile_map *m = symbfile_map_new(&plain_options);
	if (m) {
		struct symbfile_sink sink = symbfile_map_sink(m);
		err = ERR_OK;
		for (uint32_t i = 0; i < 300 && err == ERR_OK; i++) {
			char name[16];
			snprintf(name, sizeof name, "%" PRIu32, i);
			r.va = 5 * i;
			r.depth = i % 5 ? i : 0xffffff + i;
			r.call_file = str_from(name);
			r.has_call_file = true;
			err = sink.range(sink.arg, &r, &e);
			p.va += 7;
			if (err == ERR_OK)
				err = sink.pad(sink.arg, &p, &e);
		}
		enum err last = symbfile_map_all(m, &map);
		assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
		assert_true(last == ERR_NO_MEMORY || err == ERR_OK);
		err = last;
	}
	assert_int_equal(err == ERR_OK, map != NULL);
	offmap_free(map);
	symbfile_map_free(m);
	return err == ERR_OK;
}

static void test_every_allocation_may_fail(void **state)
{
	(void)state;
	size_t count = fail_each_allocation(try_to_build, NULL);
	print_message("%zu allocations\n", count);
	assert_true(count >= 30);
}

/* ---- what is held while a map is built ---- */

struct account {
	int64_t now, most;
};

static void charge(void *arg, int64_t bytes)
{
	struct account *a = arg;
	a->now += bytes;
	a->most = a->now > a->most ? a->now : a->most;
	assert_true(a->now >= 0);
}

/* Functions with names of their own and return pads, then the map. Also when it is given up. */
static enum err build_within(uint32_t n, uint64_t memory_max, struct account *a, struct alloc_use *use)
{
	const struct offmap_options options = {.memory_max = memory_max, .charge = charge, .charge_arg = a};
	const struct symbfile_line lines[] = {{0, 7}, {8, 9}};
	struct offmap *map = NULL;
	enum err err = ERR_OK;
	*a = (struct account){0};
	alloc_watch();
	struct symbfile_map *m = symbfile_map_new(&options);
	assert_non_null(m);
	struct symbfile_sink sink = symbfile_map_sink(m);
	for (uint32_t i = 0; i < n && !err; i++) {
		char name[32];
		snprintf(name, sizeof name, "function_%" PRIu32, i);
		const struct symbfile_range r = {
		        .va = 16 * (uint64_t)i, .length = 16, .func = str_from(name), .lines = lines, .line_count = 2};
		const struct symbfile_frame frame = {str_from(name), str_from("a.c"), 5};
		const struct symbfile_pad pad = {16 * (uint64_t)i + 4, &frame, 1};
		err = sink.range(sink.arg, &r, NULL);
		if (!err)
			err = sink.pad(sink.arg, &pad, NULL);
	}
	if (!err)
		err = symbfile_map_all(m, &map);
	*use = alloc_watched();
	offmap_free(map);
	symbfile_map_free(m);
	assert_int_equal(a->now, 0);
	return err;
}

/* What is charged is what is held, within a factor; and with a bound no more than that is held. */
static void test_memory_of_a_map_that_is_built(void **state)
{
	enum { RECORDS = 200000, MAX = 8 << 20, BESIDE = 4 << 20 };
	struct account a;
	struct alloc_use use;
	(void)state;
	assert_int_equal(build_within(RECORDS, 0, &a, &use), ERR_OK);
	print_message("held %zu, charged %" PRId64, use.peak, a.most);
	assert_true(2 * (uint64_t)a.most + BESIDE >= use.peak);
	assert_true((uint64_t)a.most <= 2 * use.peak);
	/* given up while records come, and while pages are made of them */
	for (uint64_t max = MAX; max < (uint64_t)a.most; max += MAX) {
		struct account within;
		assert_int_equal(build_within(RECORDS, max, &within, &use), ERR_TOO_LARGE);
		print_message("; bounded by %" PRIu64 ": held %zu", max, use.peak);
		assert_true(use.peak <= 2 * max + BESIDE);
		assert_true((uint64_t)within.most <= 2 * max); /* with what sorting would take */
	}
	print_message("\n");
}

static void test_entries_of_the_same_line_take_no_room(void **state)
{
	enum { ENTRIES = 100000 };
	static struct symbfile_line lines[ENTRIES];
	const struct symbfile_range r = {
	        .va = 0x1000, .length = ENTRIES, .func = str_from("f"), .lines = lines, .line_count = ENTRIES};
	(void)state;
	for (uint32_t i = 0; i < ENTRIES; i++)
		lines[i] = (struct symbfile_line){i, 7};
	alloc_watch();
	struct symbfile_map *m = symbfile_map_new(&plain_options);
	assert_non_null(m);
	struct symbfile_sink sink = symbfile_map_sink(m);
	assert_int_equal(sink.range(sink.arg, &r, NULL), ERR_OK);
	size_t held = alloc_held();
	symbfile_map_free(m);
	alloc_watched();
	assert_in_range(held, 1, ENTRIES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_ordinary),
	        cmocka_unit_test(test_deep_over_functions),
	        cmocka_unit_test(test_overlaps),
	        cmocka_unit_test(test_depths),
	        cmocka_unit_test(test_chains_become_short_at_once),
	        cmocka_unit_test(test_names),
	        cmocka_unit_test(test_reading_of_strings_is_bounded),
	        cmocka_unit_test(test_every_allocation_may_fail),
	        cmocka_unit_test(test_memory_of_a_map_that_is_built),
	        cmocka_unit_test(test_entries_of_the_same_line_take_no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
