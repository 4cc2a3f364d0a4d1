/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol files made to cost much: whatever they hold, the map and the memory and work that building it takes grow no
 * faster than the file, and the answers stay right. Nothing here depends on time.
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
#include "sym/symmap.h"
#include "work.h"

/* ---- measuring ---- */

/* Writes a file of size n. */
typedef void make_fn(struct buffer *text, unsigned n);

struct measured {
	struct offmap *map;
	uint64_t text, bytes; /* the file, the map with its root */
	struct alloc_use use; /* of building it */
	uint32_t largest;     /* page */
};

static uint32_t largest_page(const struct offmap *m)
{
	uint32_t largest = 0;
	for (uint32_t i = 0; i < m->code_count; i++)
		largest = m->code[i]->len > largest ? m->code[i]->len : largest;
	for (uint32_t i = 0; i < m->string_count; i++)
		largest = m->strings[i]->len > largest ? m->strings[i]->len : largest;
	return largest;
}

static struct measured measure(make_fn *make, unsigned n, const struct offmap_options *options)
{
	struct measured r = {0};
	struct buffer text = text_new();
	text_add(&text, "MODULE Linux x86_64 0 limits.so\n");
	make(&text, n);
	r.text = text.len;
	alloc_watch();
	r.map = map_build(text_str(&text), options);
	r.use = alloc_watched();
	buffer_release(&text);
	struct page *root = offmap_root_encode(r.map);
	assert_non_null(root);
	r.bytes = r.map->raw_bytes + root->len;
	r.largest = largest_page(r.map);
	page_unref(root);
	return r;
}

/* What a sanitizer makes larger shows no growth: there only the larger one is built. */
static void check_grew(make_fn *make, unsigned n, const struct offmap_options *options, const struct measured *two)
{
	if (slowness() > 1)
		return;
	struct measured one = measure(make, n, options);
	print_message("%" PRIu64 " bytes: work %zu, map %" PRIu64 ", peak %zu; %" PRIu64 ": work %zu, map %" PRIu64
	              ", peak %zu, largest page %" PRIu32 "\n",
	        one.text, one.use.work, one.bytes, one.use.peak, two->text, two->use.work, two->bytes, two->use.peak,
	        two->largest);
	offmap_free(one.map);
	/* What does not grow may be in the smaller one alone: up to 64 KB of it is no growth. */
	assert_true(10 * two->bytes <= 22 * one.bytes + (64 << 10));
	assert_true(10 * two->use.peak <= 22 * one.use.peak + (64 << 10));
	assert_true(work_is_linear(one.use.work, two->use.work));
}

/* The map is at most map_share times as large as the file, and took at most peak_share times its size; twice the file
 * takes at most 2.2 times as much, and as much work. (Tables grow by steps of two and four; n is chosen so that both
 * are at the same place between two steps.) */
static struct measured check_growth(
        make_fn *make, unsigned n, const struct offmap_options *options, unsigned map_share, unsigned peak_share)
{
	struct measured two = measure(make, 2 * n, options);
	check_grew(make, n, options, &two);
	assert_true(two.bytes <= map_share * two.text);
	assert_true(two.use.peak <= peak_share * two.text);
	return two;
}

/* ---- inline nodes ---- */

/* A FUNC with n INLINE records at depth 0 and one that covers all at each of 99 depths below: 100 n nodes. */
static void make_nodes(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 1 a.c\n");
	for (unsigned i = 0; i < 100; i++)
		text_add(text, "INLINE_ORIGIN %u level%u\n", i, i);
	text_add(text, "FUNC 10000 %x 0 deep\n", 4 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "INLINE 0 %u 1 0 %x 4\n", i + 1, 0x10000 + 4 * i);
	for (unsigned i = 1; i < 100; i++)
		text_add(text, "INLINE %u %u 1 %u 10000 %x\n", i, i, i, 4 * n);
	text_add(text, "10000 %x 77 1\nFUNC 0 10 0 other\nINLINE 0 5 1 3 0 10\n0 10 6 1\n", 4 * n);
}

static unsigned inlines_at(const struct offmap *m, uint64_t offset)
{
	struct arena arena;
	struct offmap_answer a;
	arena_init(&arena, 1 << 24);
	assert_int_equal(offmap_lookup(m->code[offmap_code_page(m, offset)], offset, &arena, &a), ERR_OK);
	arena_release(&arena);
	return a.inline_count;
}

static void test_node_cap(void **state)
{
	struct measured under = measure(make_nodes, OFFMAP_NODES_MAX / 100, &plain_options);
	struct measured over = measure(make_nodes, OFFMAP_NODES_MAX / 100 + 1, &plain_options);
	(void)state;
	for (uint64_t i = 0; i < OFFMAP_NODES_MAX / 100; i++) {
		assert_int_equal(inlines_at(under.map, 0x10000 + 4 * i), 100);
		assert_int_equal(inlines_at(under.map, 0x10003 + 4 * i), 100);
		assert_int_equal(inlines_at(over.map, 0x10000 + 4 * i), 0);
	}
	assert_answer(over.map, 0x10000, "deep+0x0/0xfa4 a.c:77");
	assert_answer(over.map, 0x10fa3, "deep+0xfa3/0xfa4 a.c:77");
	assert_answer(over.map, 0, "level3 a.c:6 < other+0x0/0x10 a.c:5");
	assert_answer(under.map, 0, "level3 a.c:6 < other+0x0/0x10 a.c:5");
	/* A file of 25 KB: what it can cost at most. */
	assert_true(under.use.peak < 16 << 20 && over.use.peak < 16 << 20);
	assert_true(under.bytes < 2 << 20 && over.bytes < 4 << 10);
	offmap_free(under.map);
	offmap_free(over.map);
}

/* Many such functions: each keeps within the cap, and their sum grows with the file. */
static void make_many_nodes(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 1 a.c\nINLINE_ORIGIN 1 one\n");
	for (unsigned f = 0; f < n; f++) {
		uint64_t start = 0x10000 + UINT64_C(0x1000) * f;
		text_add(text, "FUNC %" PRIx64 " 1000 0 f%u\n", start, f);
		for (unsigned i = 0; i < 300; i++)
			text_add(text, "INLINE 0 %u 1 1 %" PRIx64 " 4\n", i + 1, start + 4 * i);
		for (unsigned i = 1; i < 40; i++)
			text_add(text, "INLINE %u %u 1 1 %" PRIx64 " 1000\n", i, i, start);
		text_add(text, "%" PRIx64 " 1000 7 1\n", start);
	}
}

static void test_many_nodes(void **state)
{
	struct measured m = check_growth(make_many_nodes, 40, &plain_options, 8, 12);
	(void)state;
	assert_int_equal(inlines_at(m.map, 0x10000 + 0x1000 * 79 + 1199), 40);
	assert_true(m.largest < 1 << 20);
	offmap_free(m.map);
}

/* ---- many symbols ---- */

static void make_empty_funcs(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\n");
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC 1000 0 0 empty%u\n", i);
	text_add(text, "FUNC 2000 10 0 f\n2000 10 5 0\n");
}

/* They say no more than the first. */
static void test_million_empty_funcs(void **state)
{
	/* the index has 32 bytes for each line, which is 13 bytes long here */
	struct measured m = check_growth(make_empty_funcs, 500000, &plain_options, 1, 2);
	(void)state;
	assert_int_equal(m.map->funcs, 1000001);
	assert_answer(m.map, 0x1000, "-");
	assert_answer(m.map, 0x200f, "f+0xf/0x10 a.c:5");
	assert_true(m.bytes < 200);
	offmap_free(m.map);
	m = check_growth(make_empty_funcs, 50000, &nearest_options, 1, 2);
	assert_answer(m.map, 0x1fff, "empty0+0xfff/0x0 ?");
	assert_answer(m.map, 0x2010, "f+0x10/0x10 ?");
	offmap_free(m.map);
}

static void make_equal_funcs(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\nINLINE_ORIGIN 0 in\n");
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC 1000 10 0 equal%u\nINLINE 0 3 0 0 1000 8\n1000 10 %u 0\n", i, i + 1);
}

static void test_equal_funcs(void **state)
{
	struct measured m = check_growth(make_equal_funcs, 50000, &plain_options, 1, 1);
	(void)state;
	assert_answer(m.map, 0x1007, "in a.c:1 < equal0+0x7/0x10 a.c:3");
	offmap_free(m.map);
}

/* Each lies in the one before. */
static void make_nested(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\n");
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC %x %x 0 nested%u\n%x %x %u 0\n", 0x1000 + i, 2 * (n - i), i, 0x1000 + i,
		        2 * (n - i), i + 1);
}

static void make_nested_backwards(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\n");
	for (unsigned i = n; i-- > 0;)
		text_add(text, "FUNC %x %x 0 nested%u\n%x %x %u 0\n", 0x1000 + i, 2 * (n - i), i, 0x1000 + i,
		        2 * (n - i), i + 1);
}

static void check_nested(const struct offmap *m, unsigned n)
{
	static const unsigned numbers[] = {0, 1, 2, 1000, 49999, 99998, 99999};
	char expected[200];
	for (unsigned k = 0; k < sizeof numbers / sizeof *numbers; k++) {
		unsigned i = numbers[k], size = 2 * (n - i);
		snprintf(expected, sizeof expected, "nested%u+0x0/0x%x a.c:%u", i, size, i + 1);
		assert_answer(m, 0x1000 + i, expected);
		snprintf(expected, sizeof expected, "nested%u+0x%x/0x%x a.c:%u", i, size - 1, size, i + 1);
		assert_answer(m, 0x1000 + i + size - 1, expected);
	}
	assert_answer(m, 0xfff, "-");
	assert_answer(m, 0x1000 + 2 * n, "-");
}

static void test_nested_funcs(void **state)
{
	struct measured m = check_growth(make_nested, 50000, &plain_options, 2, 16);
	(void)state;
	check_nested(m.map, 100000);
	offmap_free(m.map);
	m = check_growth(make_nested_backwards, 50000, &plain_options, 2, 24);
	check_nested(m.map, 100000);
	offmap_free(m.map);
	m = check_growth(make_nested_backwards, 50000, &nearest_options, 2, 24);
	assert_answer(m.map, 0x1000 + 2 * 100000, "nested99999+0x186a1/0x2 ?");
	offmap_free(m.map);
}

/* Each starts where the one before ends. */
static void make_adjacent(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\n");
	for (unsigned i = 0; i < n; i++) {
		text_add(text, "FUNC %x 40 0 adjacent%u\n", 64 * i, i);
		for (unsigned k = 0; k < 16; k++)
			text_add(text, "%x 4 %u 0\n", 64 * i + 4 * k, i + 5 * k + 1);
	}
}

/* What has been written is not kept: the map and the records are all that grows. */
static void test_adjacent_funcs(void **state)
{
	struct measured m = check_growth(make_adjacent, 10000, &plain_options, 1, 1);
	(void)state;
	assert_true(m.use.peak < m.bytes + m.text * 2 / 5);
	assert_answer(m.map, 64 * 19999 + 63, "adjacent19999+0x3f/0x40 a.c:20075");
	offmap_free(m.map);
}

/* A function that is cut by each of those that lie in it. */
static void make_cut(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\nINLINE_ORIGIN 0 in\nFUNC 0 %x 0 around\n", 16 * n);
	for (unsigned i = 0; i < 100; i++)
		text_add(text, "INLINE %u %u 0 0 0 %x\n", i, i, 16 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "%x 10 %u 0\n", 16 * i, i + 1);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC %x 4 0 f%u\n", 16 * i + 8, i);
}

/* Every cut repeats the chain of a hundred: much, but no more than so many times the file. */
static void test_cut_by_others(void **state)
{
	struct measured m = check_growth(make_cut, 2000, &plain_options, 80, 200);
	(void)state;
	assert_int_equal(inlines_at(m.map, 16 * 3999 + 15), 100);
	assert_true(m.largest < 1 << 20);
	offmap_free(m.map);
}

/* One whose chain grows with the number of those that lie in it. */
static void make_deep_cut(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\nFUNC 0 %x 0 around\n", 16 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "INLINE %u 1 0 0 0 %x\n", i, 16 * n);
	text_add(text, "0 %x 7 0\n", 16 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC %x 4 0 f\n", 16 * i + 8);
}

/* If chains were repeated, the map would grow with the square of the file. So this function keeps only its lines, and
 * so does one that would write more than OFFMAP_REPEATED_MAX nodes. */
static void test_deep_chains_cut_by_others(void **state)
{
	struct measured m = check_growth(make_deep_cut, 2000, &plain_options, 3, 60),
	                under = measure(make_cut, OFFMAP_REPEATED_MAX / 100 - 1, &plain_options),
	                over = measure(make_cut, OFFMAP_REPEATED_MAX / 100, &plain_options);
	(void)state;
	assert_answer(m.map, 16 * 3999 + 15, "around+0xf9ff/0xfa00 a.c:7");
	assert_int_equal(inlines_at(under.map, 16 * 4000 + 15), 100);
	assert_int_equal(inlines_at(over.map, 16 * 4000 + 15), 0);
	offmap_free(m.map);
	offmap_free(under.map);
	offmap_free(over.map);
}

static void make_far_publics(struct buffer *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		text_add(text, "PUBLIC %" PRIx64 " 0 far%u\n", (uint64_t)i << 40, i);
}

static void test_far_publics(void **state)
{
	struct measured m = check_growth(make_far_publics, 10000, &plain_options, 3, 30);
	(void)state;
	assert_int_equal(m.map->code_count, 20000);
	assert_answer(m.map, (UINT64_C(12345) << 40) + 7, "far12345+0x7/0x10000000000 ?");
	assert_answer(m.map, UINT64_MAX, "far19999+0xffb1e0ffffffffff/? ?");
	offmap_free(m.map);
}

/* ---- many lines ---- */

enum { CHAIN = 300 };

static void make_chain(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\nFILE 1 b.h\n");
	for (unsigned i = 0; i < CHAIN; i++)
		text_add(text, "INLINE_ORIGIN %u level%u\n", i, i);
	text_add(text, "FUNC 1000 %x 0 long\n", 4 * n);
	for (unsigned i = 0; i < CHAIN; i++)
		text_add(text, "INLINE %u %u %u %u 1000 %x\n", i, i + 1, i % 2, i, 4 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "%x 4 %u %u\n", 0x1000 + 4 * i, i % 60000 + 1, i % 2);
}

static void test_lines_under_a_chain(void **state)
{
	struct measured m = check_growth(make_chain, 100000, &plain_options, 4, 16);
	(void)state;
	assert_true(m.largest < 1 << 20);
	for (uint64_t i = 0; i < 200000; i += 997) {
		struct buffer got = text_new();
		char innermost[100], outermost[100];
		int n = snprintf(innermost, sizeof innermost, "level299 %s:%u < level298 b.h:300 < ",
		        i % 2 ? "b.h" : "a.c", (unsigned)(i % 60000 + 1));
		int k = snprintf(
		        outermost, sizeof outermost, "level0 b.h:2 < long+0x%" PRIx64 "/0xc3500 a.c:1", 4 * i + 3);
		describe(m.map, 0x1000 + 4 * i + 3, &got);
		assert_true(got.len > (size_t)(n + k));
		assert_memory_equal(got.data, innermost, (size_t)n);
		assert_memory_equal(got.data + got.len - k, outermost, (size_t)k);
		assert_int_equal(inlines_at(m.map, 0x1000 + 4 * i), CHAIN);
		buffer_release(&got);
	}
	offmap_free(m.map);
}

/* Lines that overlap as a stair, and INLINE ranges of one depth that do: the slow ways of flattening. */
static void make_overlapping(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\nINLINE_ORIGIN 0 in\nFUNC 1000 %x 0 stairs\n", 4 * n + 0x1000);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "INLINE 0 %u 0 0 %x 1000\n", i + 1, 0x1000 + 4 * (n - 1 - i));
	for (unsigned i = 0; i < n; i++)
		text_add(text, "%x 1000 %u 0\n", 0x1000 + 4 * (n - 1 - i), i + 1);
}

static void test_overlapping(void **state)
{
	/* less text than 1 MiB, from which on pages are cut by all records; and more */
	struct measured m = check_growth(make_overlapping, 30000, &plain_options, 2, 16);
	(void)state;
	offmap_free(m.map);
	m = check_growth(make_overlapping, 10000, &plain_options, 2, 16);
	/* of the inlined calls the first in the file, of the lines the one with the greatest start */
	assert_answer(m.map, 0x1000 + 4 * 10000, "in a.c:10000 < stairs+0x9c40/0x14880 a.c:10000");
	assert_answer(m.map, 0x1000, "in a.c:20000 < stairs+0x0/0x14880 a.c:20000");
	assert_answer(m.map, 0x1000 + 4 * 20000, "in a.c:1 < stairs+0x13880/0x14880 a.c:1");
	offmap_free(m.map);
}

/* ---- names and ids ---- */

/* Every byte of a name grows to six. */
static void add_control_name(struct buffer *text, unsigned i)
{
	static char name[1 << 20];
	memset(name, 1 + i % 8, sizeof name);
	assert_true(buffer_append(text, name, sizeof name));
	text_add(text, "\n");
}

static void make_long_names(struct buffer *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		text_add(text, "INLINE_ORIGIN %u ", i);
		add_control_name(text, i);
	}
	for (unsigned i = 0; i < n; i++) {
		text_add(text, "FUNC %x 10 0 ", 0x1000 + 16 * i);
		add_control_name(text, i);
		text_add(text, "INLINE 0 1 0 %u %x 8\n", i, 0x1000 + 16 * i);
	}
}

static void test_long_names(void **state)
{
	struct measured m = check_growth(make_long_names, 2, &plain_options, 7, 40);
	struct buffer got = text_new();
	(void)state;
	assert_int_equal(m.map->string_count, 8);
	for (uint32_t i = 0; i < m.map->code_count; i++)
		assert_true(m.map->code[i]->len <= OFFMAP_PAGE_SIZE);
	for (unsigned i = 0; i < 4; i++) {
		describe(m.map, 0x1000 + 16 * i, &got);
		assert_true(got.len > 12 << 20);
		char expected[7];
		snprintf(expected, sizeof expected, "\\u%04x", 1 + i);
		for (size_t at = 0; at < 6 << 20; at += 6)
			assert_memory_equal(got.data + at, expected, 6);
		buffer_reset(&got);
	}
	buffer_release(&got);
	offmap_free(m.map);
}

/* Holes of all sizes, up to the greatest. */
static void make_sparse(struct buffer *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FILE %" PRIu64 " f%u\nINLINE_ORIGIN %u o%u\n", UINT64_MAX / (2 * n) * (2 * i + 1), i,
		        UINT32_MAX / n * i, i);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC %x 10 0 n%u\nINLINE 0 3 0 %u %x 8\n%x 10 %u %" PRIu64 "\n", 0x1000 + 16 * i, i,
		        UINT32_MAX / n * i, 0x1000 + 16 * i, 0x1000 + 16 * i, i + 1,
		        UINT64_MAX / (2 * n) * (2 * i + 1));
}

static void test_sparse_ids(void **state)
{
	struct measured m = check_growth(make_sparse, 24000, &plain_options, 2, 16);
	(void)state;
	for (unsigned i = 0; i < 40000; i += 333) {
		char expected[100];
		snprintf(expected, sizeof expected, "o%u f%u:%u < n%u+0x7/0x10 ?:3", i, i, i + 1, i);
		assert_answer(m.map, 0x1000 + 16 * i + 7, expected);
	}
	offmap_free(m.map);
}

static void make_greatest_id(struct buffer *text, unsigned n)
{
	(void)n;
	text_add(text, "FILE 4294967295 a.c\nFILE 18446744073709551615 b.c\nINLINE_ORIGIN 4294967295 o\n");
	text_add(text, "FUNC 1000 10 0 f\nINLINE 0 3 4294967295 4294967295 1000 8\n1000 10 7 18446744073709551615\n");
}

static void test_greatest_ids(void **state)
{
	struct measured m = measure(make_greatest_id, 0, &plain_options);
	(void)state;
	assert_true(m.use.peak < 256 << 10);
	assert_answer(m.map, 0x1000, "o b.c:7 < f+0x0/0x10 a.c:3");
	offmap_free(m.map);
}

/* ---- large functions ---- */

/* Lines at the start, the middle and the end of functions of these sizes. */
static void test_huge_funcs(void **state)
{
	static const uint64_t sizes[] = {UINT64_C(0xffffffff), UINT64_C(0x100000000), UINT64_C(0x100000001),
	        UINT64_C(0x1fffffffffffffff), UINT64_C(0x2000000000000000), UINT64_C(0x2000000000000001),
	        UINT64_C(0x4000000000000000), UINT64_C(0x8000000000000003), UINT64_C(0xfffffffffffff000)};
	(void)state;
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct buffer text = text_new();
		const uint64_t start = 0x1000, size = sizes[i], middle = start + size / 2, last = start + (size - 1);
		char expected[100];
		text_add(&text, "MODULE Linux x86_64 0 huge.so\nFILE 0 a.c\nINLINE_ORIGIN 0 in\n");
		text_add(&text, "FUNC %" PRIx64 " %" PRIx64 " 0 huge\n", start, size);
		text_add(&text, "INLINE 0 9 0 0 %" PRIx64 " 10\n", middle - 4);
		text_add(&text, "%" PRIx64 " 10 1 0\n%" PRIx64 " 10 2 0\n%" PRIx64 " 1 3 0\n", start, middle, last);
		for (int late = 0; late < 2; late++) {
			struct offmap *m = map_build(text_str(&text), &plain_options);
			assert_true(m->raw_bytes < 1000);
			snprintf(expected, sizeof expected, "huge+0x0/0x%" PRIx64 " a.c:1", size);
			assert_answer(m, start, expected);
			snprintf(expected, sizeof expected, "huge+0x%" PRIx64 "/0x%" PRIx64 " a.c:1",
			        middle - 5 - start, size);
			assert_answer(m, middle - 5, expected);
			snprintf(expected, sizeof expected, "in a.c:1 < huge+0x%" PRIx64 "/0x%" PRIx64 " a.c:9",
			        middle - 1 - start, size);
			assert_answer(m, middle - 1, expected);
			snprintf(expected, sizeof expected, "in a.c:2 < huge+0x%" PRIx64 "/0x%" PRIx64 " a.c:9",
			        middle + 11 - start, size);
			assert_answer(m, middle + 11, expected);
			snprintf(expected, sizeof expected, "huge+0x%" PRIx64 "/0x%" PRIx64 " a.c:2", size - 2, size);
			assert_answer(m, last - 1, expected);
			snprintf(expected, sizeof expected, "huge+0x%" PRIx64 "/0x%" PRIx64 " a.c:3", size - 1, size);
			assert_answer(m, last, expected);
			if (last != UINT64_MAX)
				assert_answer(m, last + 1, "-");
			offmap_free(m);
			text_add(&text, "PUBLIC 10 0 late\n");
		}
		buffer_release(&text);
	}
}

/* ---- what is held while a map is built ---- */

/* In the order of addresses, but for one PUBLIC at the end. */
static void make_late_public(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\n");
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC %x 10 0 function%u\n%x 8 %u 0\n", 0x1000 + 16 * i, i, 0x1000 + 16 * i, i % 1000);
	text_add(text, "PUBLIC 10 0 late\n");
}

static void make_backwards(struct buffer *text, unsigned n)
{
	text_add(text, "FILE 0 a.c\n");
	for (unsigned i = n; i-- > 0;)
		text_add(text, "FUNC %x 10 0 function%u\n%x 8 %u 0\n", 0x1000 + 16 * i, i, 0x1000 + 16 * i, i % 1000);
}

static void make_inlines(struct buffer *text, unsigned n)
{
	text_add(text, "INLINE_ORIGIN 0 o\nFUNC 1000 %x 0 f\n", 2 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "INLINE 0 1 0 0 %x 1\n", 0x1000 + 2 * i);
}

static void make_lines(struct buffer *text, unsigned n)
{
	text_add(text, "FUNC 1000 %x 0 f\n", 2 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(text, "%x 1 %u 0\n", 0x1000 + 2 * i, i % 1000);
}

static void make_names(struct buffer *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FILE %u file%u.c\nINLINE_ORIGIN %u origin%u\n", i, i, i, i);
	text_add(text, "FUNC 1000 10 0 f\n");
}

static void make_empty_everywhere(struct buffer *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		text_add(text, "FUNC %x 0 0 f\n", 0x1000 + i);
}

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

static void make_pages(struct symmap *m, enum page_kind kind, uint32_t count)
{
	struct symmap_maker maker;
	assert_true(symmap_take(m, true, &maker));
	for (uint32_t i = 0; i < count; i++) {
		struct page *p = symmap_make(&maker, kind, i);
		assert_non_null(p);
		symmap_charge(m, &maker);
		page_unref(p);
	}
	symmap_give(m, &maker);
}

/* Makes all pages of a text; what was charged and what was held at most. */
static enum err build_within(struct str text, uint64_t memory_max, struct account *a, uint64_t *held)
{
	const struct offmap_options options = {.memory_max = memory_max, .charge = charge, .charge_arg = a};
	atomic_uint idle_makers = 0;
	struct error e;
	enum err err = ERR_OK;
	size_t at = 0;
	*a = (struct account){0};
	alloc_watch();
	struct symmap *m = symmap_new(&options, &idle_makers, str_from(""));
	assert_non_null(m);
	for (size_t n; at < text.len && !err; at += n) {
		n = text.len - at < 1 << 16 ? text.len - at : 1 << 16;
		err = symmap_feed(m, (const uint8_t *)text.data + at, n, &e);
	}
	if (!err)
		err = symmap_finish(m, &e);
	if (!err) {
		struct offmap *map = symmap_map(m);
		assert_non_null(map);
		make_pages(m, PAGE_CODE, map->code_count);
		make_pages(m, PAGE_STRINGS, map->string_count);
		offmap_free(map);
	}
	*held = alloc_watched().peak;
	symmap_unref(m);
	assert_int_equal(a->now, 0);
	return err;
}

/* What is charged is what is held, within a factor; and with a bound no more than that is held. */
static void check_memory_within(const char *what, make_fn *make, unsigned n, uint64_t max)
{
	enum { BESIDE = 4 << 20 };
	struct buffer text = text_new();
	struct account a;
	uint64_t held;
	text_add(&text, "MODULE Linux x86_64 0 limits.so\n");
	make(&text, n);
	assert_int_equal(build_within(text_str(&text), 0, &a, &held), ERR_OK);
	print_message("%s: %zu bytes, held %" PRIu64 ", charged %" PRId64, what, text.len, held, a.most);
	assert_true(held > 2 * max);
	assert_true(2 * (uint64_t)a.most + BESIDE >= held);
	assert_true((uint64_t)a.most <= 2 * held);
	assert_int_equal(build_within(text_str(&text), max, &a, &held), ERR_TOO_LARGE);
	print_message("; bounded by %" PRIu64 ": held %" PRIu64 "\n", max, held);
	assert_true(held <= 2 * max + BESIDE);
	buffer_release(&text);
}

static void check_memory(const char *what, make_fn *make, unsigned n)
{
	check_memory_within(what, make, rounds(n) / slowness(), rounds(4 << 20) / slowness());
}

static void test_memory_of_a_map_that_is_built(void **state)
{
	(void)state;
	check_memory("PUBLIC behind FUNCs", make_late_public, 300000);
	check_memory("backwards", make_backwards, 300000);
	check_memory("nested", make_nested, 100000);
	check_memory("nested backwards", make_nested_backwards, 100000);
	check_memory("INLINEs of one function", make_inlines, 200000);
	check_memory("lines of one function", make_lines, 800000);
	check_memory("names", make_names, 200000);
	check_memory("empty FUNCs", make_empty_everywhere, 2000000);
	check_memory_within("long names", make_long_names, 24, 8 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_node_cap),
	        cmocka_unit_test(test_many_nodes),
	        cmocka_unit_test(test_million_empty_funcs),
	        cmocka_unit_test(test_equal_funcs),
	        cmocka_unit_test(test_nested_funcs),
	        cmocka_unit_test(test_adjacent_funcs),
	        cmocka_unit_test(test_cut_by_others),
	        cmocka_unit_test(test_deep_chains_cut_by_others),
	        cmocka_unit_test(test_far_publics),
	        cmocka_unit_test(test_lines_under_a_chain),
	        cmocka_unit_test(test_overlapping),
	        cmocka_unit_test(test_long_names),
	        cmocka_unit_test(test_sparse_ids),
	        cmocka_unit_test(test_greatest_ids),
	        cmocka_unit_test(test_huge_funcs),
	        cmocka_unit_test(test_memory_of_a_map_that_is_built),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
