/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small inputs that are made to cost much, beside those of test_offmap_limits, test_symbfile_map_limits and
 * test_request_memory: at twice the size each takes at most 2.2 times the work, allocations and bytes, and what it
 * gives is right. Nothing depends on the times that are printed.
 */
#include <config.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "base/clock.h"
#include "base/gzip.h"
#include "cache/outcomes.h"
#include "cache/page_cache.h"
#include "json/request.h"
#include "objects/bucket_backend.h"
#include "objects/store.h"
#include "offmap_tools.h"
#include "seed.h"
#include "records/pages.h"
#include "sym/reader.h"
#include "uploads/layout.h"
#include "uploads/sets.h"
#include "work.h"

enum { CONSTANT_BYTES = 256 << 10, CONSTANT_CALLS = 64 };

/* One bomb of a size, made before what is measured. */
struct bomb {
	struct buffer input;
	uint64_t text_bytes; /* out: what it means, where that is more than the input */
	uint32_t pages;      /* out: code pages */
	enum err err;        /* out */
};

/* Of what the server has stored. */
static struct store_client *client;

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct alloc_use measure(
        const char *name, void (*make)(struct buffer *, unsigned), unsigned n, bool (*run)(void *arg), struct bomb *b)
{
	*b = (struct bomb){.input = text_new()};
	make(&b->input, n);
	double start = cpu_seconds();
	struct alloc_use use = count_allocations(run, b);
	print_message("%s: %zu bytes in, work %zu, %zu allocations, %zu bytes, %.0f ms\n", name, b->input.len, use.work,
	        use.calls, use.peak, (cpu_seconds() - start) * 1000);
	buffer_release(&b->input);
	return use;
}

/* Rounds of n, and of twice that; the larger one's outcome is in *b. */
static struct alloc_use measure_both(
        const char *name, void (*make)(struct buffer *, unsigned), unsigned n, bool (*run)(void *arg), struct bomb *b)
{
	struct alloc_use one = measure(name, make, rounds(n), run, b), two = measure(name, make, 2 * rounds(n), run, b);
	assert_true(work_is_linear(one.work, two.work));
	assert_true(10 * two.calls <= 22 * one.calls + CONSTANT_CALLS);
	assert_true(10 * two.peak <= 22 * one.peak + CONSTANT_BYTES);
	return two;
}

/* ---- gzip ---- */

enum { SINK_SIZE = 256 << 10 };

static uint8_t sink_bytes[SINK_SIZE];

static uint8_t *sink_space(void *arg, size_t *room)
{
	(void)arg;
	*room = SINK_SIZE;
	return sink_bytes;
}

static bool sink_commit(void *arg, size_t n)
{
	((struct bomb *)arg)->text_bytes += n;
	return true;
}

/* n MiB of zeros, and those a second time. */
static void make_gzip(struct buffer *out, unsigned n)
{
	uint8_t *zeros = calloc(n, 1 << 20), *packed;
	size_t size = (size_t)n << 20;
	size_t len;
	assert_non_null(zeros);
	assert_int_equal(gzip_compress(zeros, size, &packed, &len), ERR_OK);
	assert_true(len * 200 < size);
	assert_true(buffer_append(out, packed, len));
	free(packed);
	free(zeros);
}

static void make_gzip_twice(struct buffer *out, unsigned n)
{
	struct buffer once = text_new();
	uint8_t *packed;
	size_t len;
	make_gzip(&once, n);
	assert_int_equal(gzip_compress(once.data, once.len, &packed, &len), ERR_OK);
	assert_true(len * 1000 < (size_t)n << 20);
	assert_true(buffer_append(out, packed, len));
	free(packed);
	buffer_release(&once);
}

static bool inflate_object(void *arg)
{
	struct bomb *b = arg;
	struct bucket_sink sink = {.space = sink_space, .commit = sink_commit, .arg = b};
	struct bucket_body body = {0};
	b->text_bytes = 0;
	bucket_body_start(&body, &sink, UINT64_C(1) << 40);
	enum bucket_outcome outcome = bucket_body_add(&body, b->input.data, b->input.len);
	if (!outcome)
		outcome = bucket_body_end(&body);
	bucket_body_release(&body);
	return !outcome;
}

/* Whatever comes out, there is one block of it at a time. */
static void test_gzip(void **state)
{
	struct bomb b;
	(void)state;
	struct alloc_use use = measure_both("gzip", make_gzip, 32, inflate_object, &b);
	assert_int_equal(b.text_bytes, rounds(64) << 20);
	assert_true(use.peak < 1 << 20);
	use = measure_both("gzip in gzip", make_gzip_twice, 32, inflate_object, &b);
	assert_int_equal(b.text_bytes, rounds(64) << 20);
	assert_true(use.peak < 1 << 20);
}

/* ---- symbol files ---- */

static bool parse_sym(void *arg)
{
	struct bomb *b = arg;
	struct error e;
	struct offmap *m = NULL;
	b->err = map_try(text_str(&b->input), 0, &plain_options, &m, &e);
	b->text_bytes = m ? m->raw_bytes : 0;
	b->pages = m ? m->code_count : 0;
	offmap_free(m);
	return !b->err;
}

/* n ranges at depth 0, in one record each, under 200 levels that cover all: 200 n chains. */
static void make_levels(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nINLINE_ORIGIN 0 in\nFUNC 1000 %x 0 f\n", 4 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(t, "INLINE 0 %u 0 0 %x 2\n", i + 1, 0x1000 + 4 * i);
	for (unsigned i = 1; i <= 200; i++)
		text_add(t, "INLINE %u %u 0 0 1000 %x\n", i, i, 4 * n);
	text_add(t, "1000 %x 5 0\n", 4 * n);
}

/* The same with the ranges of all in one record of 200 that lie in each other. */
static void make_ranges(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nINLINE_ORIGIN 0 in\nFUNC 1000 %x 0 f\n", 4 * n);
	for (unsigned level = 0; level < 200; level++) {
		text_add(t, "INLINE %u 1 0 0", level);
		for (unsigned i = level; i < n; i += 200)
			text_add(t, " %x %x", 0x1000 + 4 * i, 4 * (n - i));
		text_add(t, "\n");
	}
}

static void test_levels(void **state)
{
	struct bomb b;
	(void)state;
	/* over the cap of chains both times: lines only */
	measure_both("9,000 ranges under 200 levels", make_levels, 9000, parse_sym, &b);
	assert_in_range(b.pages, 1, 24); /* one for each 20 KiB of 465 KB */
	assert_true(b.text_bytes < 100 * (uint64_t)b.pages);
	measure_both("9,000 ranges in 200 levels", make_ranges, 9000, parse_sym, &b);
}

/* The same; record_bytes: what the records and the spans take. */
static uint64_t record_bytes;

static bool read_sym(void *arg)
{
	struct bomb *b = arg;
	struct error e;
	struct symreader *x = symreader_new(str_from(""), 0);
	struct symspans *s = NULL;
	struct offmap *m = NULL;
	b->err = x ? symreader_feed(x, b->input.data, b->input.len, &e) : ERR_NO_MEMORY;
	if (!b->err)
		b->err = symreader_finish(x, &e);
	if (!b->err)
		s = symspans_new(x->records, false);
	record_bytes = s ? symreader_bytes(x) + symspans_bytes(s) : 0;
	if (s)
		m = sympages_all(x->records, s, str_from(""));
	bool made = m != NULL;
	b->text_bytes = made ? m->raw_bytes : 0;
	symspans_free(s);
	symreader_free(x);
	offmap_free(m);
	return made;
}

/* n functions, each in the one before. */
static void make_nested_functions(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\n");
	for (unsigned i = 0; i < n; i++)
		text_add(t, "FUNC %x %x 0 f\n%x 1 1 0\n%x 1 2 0\n", i, 2 * (n - i), i, 2 * n - i - 1);
}

/* A large function that n small ones interrupt, and another one that lies in it and has as many in it. */
static void make_interrupted(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\n");
	for (unsigned outer = 0; outer < 2; outer++) {
		text_add(t, "FUNC %x %x 0 outer%u\n", outer * 16 * n, (2 - outer) * 16 * n, outer);
		for (unsigned i = 0; i < n; i++)
			text_add(t, "%x 10 %u 0\n", 16 * (outer * n + i), i);
	}
	for (unsigned i = 0; i < 2 * n; i++)
		text_add(t, "FUNC %x 2 0 f\n", 16 * i + 4);
}

/* n functions at one address, each longer than those before and without lines, so that each answers for a byte. */
static void make_one_address(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\n");
	for (unsigned i = 0; i < n; i++)
		text_add(t, "FUNC 0 %x 0 f\n", i + 1);
}

/* All records of the file are those of one function, out of order. */
static void make_one_function(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\nFUNC 0 %x 0 f\n", 16 * n);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = (unsigned)((uint64_t)i * 1000003 % n);
		text_add(t, "INLINE 0 1 %u %u %x 8\n%x 10 1 %u\n", i, i, 16 * k, 16 * k, i);
	}
}

/* Lines as short as they can be. */
static void make_short_lines(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\n");
	for (unsigned i = 0; i < n; i++)
		text_add(t, i % 2 ? "FILE %u a\n" : "FUNC %x 1 0\n", i);
}

static void test_index(void **state)
{
	struct bomb b;
	(void)state;
	measure_both("9,000 ranges under 200 levels, indexed", make_levels, 9000, read_sym, &b);
	assert_true(b.text_bytes < 4000); /* in some twenty pages */
	measure_both("9,000 ranges in 200 levels, indexed", make_ranges, 9000, read_sym, &b);
	measure_both("nested functions, indexed", make_nested_functions, 60000, read_sym, &b);
	measure_both("interrupted functions, indexed", make_interrupted, 80000, read_sym, &b);
	measure_both("functions of one address, indexed", make_one_address, 100000, read_sym, &b);
	measure_both("one function, indexed", make_one_function, 100000, read_sym, &b);
	measure_both("short lines, indexed", make_short_lines, 400000, read_sym, &b);
	assert_true(record_bytes < (8 << 20) + 8 * (uint64_t)800000 * 11);
}

static void make_odd_lines(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\nFUNC 0 10 0 f\n");
	for (unsigned i = 0; i < n; i++)
		text_add(t, i % 2 ? "INLINE 0 1 2 3\n" : "10000000000000000 1 1 1\n");
}

/* One line of n numbers: an INLINE record of the form that turns out wrong at its end. */
static void make_long_inline(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE Linux x86_64 0 a\nFUNC 0 10 0 f\n");
	for (unsigned line = 0; line < n / 10000; line++) {
		text_add(t, "INLINE 0 1 2 3");
		for (unsigned i = 0; i < 10000; i++)
			text_add(t, " 0 4");
		text_add(t, " x\n");
	}
}

static void test_damage(void **state)
{
	struct bomb b;
	(void)state;
	measure_both("damaged lines", make_odd_lines, 500000, parse_sym, &b);
	measure_both("INLINE lines that end wrong", make_long_inline, 500000, parse_sym, &b);
	measure_both("damaged lines, indexed", make_odd_lines, 500000, read_sym, &b);
	measure_both("INLINE lines that end wrong, indexed", make_long_inline, 500000, read_sym, &b);
}

/* ---- requests ---- */

static const struct request_limits limits = {1000, 1000000, 10000, 4000000},
                                   no_limits = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
static const struct request_limits *in_force = &limits;

static bool read_body(void *arg)
{
	struct bomb *b = arg;
	struct arena arena;
	struct request r;
	struct error e;
	arena_init(&arena, SIZE_MAX);
	b->err = request_read(&r, text_str(&b->input), REQUEST_V5, in_force, NULL, &arena, &e);
	b->text_bytes = b->err ? 0 : r.module_count + r.frame_count;
	arena_release(&arena);
	return true;
}

static void add_times(struct buffer *t, const char *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_true(buffer_append(t, text, strlen(text)));
}

static void make_modules(struct buffer *t, unsigned n)
{
	text_add(t, "{\"stacks\":[],\"memoryMap\":[[\"a\",\"0\"]");
	for (unsigned i = 1; i < n; i++)
		text_add(t, ",[\"a%u\",\"0\"]", i);
	text_add(t, "]}");
}

/* One module, named n times, a frame in each. */
static void make_one_module(struct buffer *t, unsigned n)
{
	text_add(t, "{\"memoryMap\":[[\"\\u0061\",\"0\"]");
	add_times(t, ",[\"\\u0061\",\"0\"]", n - 1);
	text_add(t, "],\"stacks\":[[[0,1]");
	for (unsigned i = 1; i < n; i++)
		text_add(t, ",[%u,1]", i);
	text_add(t, "]]}");
}

static void test_modules(void **state)
{
	struct bomb b;
	(void)state;
	measure_both("a million modules, refused", make_modules, 500000, read_body, &b);
	assert_int_equal(b.err, ERR_BAD_REQUEST);
	in_force = &no_limits;
	measure_both("a million modules, taken", make_modules, 500000, read_body, &b);
	assert_int_equal(b.text_bytes, rounds(1000000));
	measure_both("one module 10,000 times", make_one_module, 10000, read_body, &b);
	assert_int_equal(b.text_bytes, rounds(40000));
	in_force = &limits;
}

static void make_nested(struct buffer *t, unsigned n)
{
	text_add(t, "{\"x\":");
	add_times(t, "[{\"a\":", n / 2);
	text_add(t, "0");
	add_times(t, "}]", n / 2);
	text_add(t, ",\"stacks\":[],\"memoryMap\":[]}");
}

static void make_nested_stacks(struct buffer *t, unsigned n)
{
	text_add(t, "{\"memoryMap\":[],\"stacks\":");
	add_times(t, "[", n);
	add_times(t, "]", n);
	text_add(t, "}");
}

static void make_digits(struct buffer *t, unsigned n)
{
	text_add(t, "{\"memoryMap\":[[\"a\",\"0\"]],\"stacks\":[[[0,");
	add_times(t, "9", n);
	text_add(t, "],[0,-0.");
	add_times(t, "9", n);
	text_add(t, "e");
	add_times(t, "9", n);
	text_add(t, "]]],\"version\":");
	add_times(t, "9", n);
	text_add(t, "}");
}

static void test_json(void **state)
{
	struct bomb b;
	(void)state;
	measure_both("JSON 100,000 deep", make_nested, 100000, read_body, &b);
	assert_int_equal(b.err, ERR_BAD_REQUEST);
	measure_both("stacks 100,000 deep", make_nested_stacks, 100000, read_body, &b);
	assert_int_equal(b.err, ERR_BAD_REQUEST);
	measure_both("numbers of a million digits", make_digits, 1000000, read_body, &b);
	assert_int_equal(b.err, ERR_OK);
	assert_int_equal(b.text_bytes, 3);
}

/* The same keys n times. What a later one replaces is read all the same, and leaves nothing behind. */
static const char *member;

static void make_keys(struct buffer *t, unsigned n)
{
	text_add(t, "{");
	add_times(t, member, n);
	text_add(t, "\"memoryMap\":[],\"stacks\":[]}");
}

static void test_keys(void **state)
{
	static const char *const members[] = {
	        "\"stacks\":5,",
	        "\"stacks\":[],",
	        "\"stacks\":[[[-1,\"a\"]],[]],",
	        "\"memoryMap\":[[\"\\n\",\"\"]],",
	        "\"memoryMap\":[[\"\\n\",5]],",
	        "\"jobs\":[{\"memoryMap\":[[\"a\",\"b\"]],\"stacks\":[[[0,\"a\"]]]}],\"jobs\":[],",
	        "\"\":{},",
	};
	struct bomb b;
	(void)state;
	for (unsigned i = 0; i < sizeof members / sizeof *members; i++) {
		unsigned n = strstr(members[i], "jobs") ? 150000 : 500000;
		member = members[i];
		struct alloc_use use = measure_both(member, make_keys, n, read_body, &b);
		assert_true(use.peak <= 2 * rounds(n) * strlen(member));
		assert_int_equal(b.err, ERR_OK);
		assert_int_equal(b.text_bytes, 0);
	}
}

/* ---- symbfiles ---- */

static char uploads_root[] = "/tmp/test-bombs-XXXXXX";

static void in_uploads(const char *what)
{
	char command[3 * STORE_PATH_MAX];
	snprintf(command, sizeof command, "cd %s && %s", uploads_root, what);
	assert_int_equal(system(command), 0);
}

/* A set whose only part was uploaded again and again, with other bytes, and never had a manifest. */
static void make_uploads(struct buffer *t, unsigned n)
{
	char set[STORE_PATH_MAX], path[2 * STORE_PATH_MAX];
	(void)t;
	layout_set(set, &(struct file_id){0}, SYMBFILE_RANGES, "set");
	in_uploads("rm -rf ./*");
	snprintf(path, sizeof path, "mkdir -p %s", set);
	in_uploads(path);
	for (unsigned i = 0; i < n; i++) {
		const struct timespec times[2] = {{.tv_sec = 1 + i}, {.tv_sec = 1 + i}};
		snprintf(path, sizeof path, "%s/%s/0.1.%032x.1.1.0", uploads_root, set, i);
		int fd = open(path, O_CREAT | O_WRONLY, 0600);
		assert_true(fd >= 0 && write(fd, "x", 1) == 1 && futimens(fd, times) == 0);
		close(fd);
	}
}

static bool get_sets(void *arg)
{
	struct bomb *b = arg;
	struct symbfile_sets sets;
	b->err = symbfile_sets_get(&sets, client, &(struct file_id){0}, NULL, &(struct error){0});
	b->text_bytes = !b->err && sets.count == 1 && sets.items[0].have_count == 1
	                        ? strtoul(strchr(sets.items[0].have[0].path, '.') + 3, NULL, 16)
	                        : 0;
	symbfile_sets_release(&sets);
	return !b->err;
}

static void test_uploads(void **state)
{
	struct bomb b;
	struct error e;
	char url[100];
	(void)state;
	assert_non_null(mkdtemp(uploads_root));
	snprintf(url, sizeof url, "file://%s", uploads_root);
	const struct config config = {
	        .symbfile_store = url, .bucket_total_timeout = 60 * SECOND, .bucket_max_size = 1 << 30};
	struct symbfile_store *store = symbfile_store_new(&config, &e);
	client = store ? store_client_take(store) : NULL;
	assert_non_null(client);
	measure_both("uploads of a part", make_uploads, 2000, get_sets, &b);
	assert_int_equal(b.text_bytes, 2 * rounds(2000) - 1); /* the latest */
	store_client_give(client);
	symbfile_store_free(store);
	in_uploads("rm -r ./* && rmdir \"$PWD\"");
}

/* What the process knows: as many modules in the cache, and as many that are missing. */
struct known {
	struct page_cache *cache;
	struct outcomes *outcomes;
	unsigned count;
};

static struct module_hash random_hash(uint64_t *seed)
{
	struct module_hash h;
	for (size_t i = 0; i < sizeof h.bytes; i++)
		h.bytes[i] = (uint8_t)next_random(seed);
	return h;
}

static void know(struct known *k, unsigned count)
{
	static const struct config config = {.failures_max = 100000, .missing_ttl = INT64_MAX / 2};
	uint64_t seed = 1;
	*k = (struct known){page_cache_new(UINT32_MAX), outcomes_new(&config), count};
	assert_true(k->cache && k->outcomes);
	for (unsigned i = 0; i < count; i++) {
		const struct module_hash hash = random_hash(&seed);
		struct module *m = module_new(&hash, calloc(1, sizeof(struct offmap)), LIFE_LOADED);
		assert_non_null(m);
		page_cache_add(k->cache, m);
		module_unref(m);
		outcomes_set(k->outcomes, &hash, &hash, &(struct outcome){.class = FAILURE_MISSING});
	}
}

/* The first thousand, which are the oldest. */
static bool look_up(void *arg)
{
	struct known *k = arg;
	uint64_t seed = 1;
	for (unsigned i = 0; i < 1000; i++) {
		const struct module_hash hash = random_hash(&seed);
		struct module *m = page_cache_get(k->cache, &hash);
		if (!m || outcomes_get(k->outcomes, &hash, &hash).class != FAILURE_MISSING)
			return false;
		module_unref(m);
	}
	return true;
}

static void forget(struct known *k)
{
	page_cache_free(k->cache);
	outcomes_free(k->outcomes);
}

/* A request costs the same with a thousand modules in the cache and with a hundred thousand. */
static void test_lookups_do_not_grow_with_the_cache(void **state)
{
	struct known few, many;
	(void)state;
	know(&few, 1000);
	know(&many, 100000);
	size_t one = count_allocations(look_up, &few).work, two = count_allocations(look_up, &many).work;
	print_message("a thousand lookups among %u: work %zu, among %u: %zu\n", few.count, one, many.count, two);
	assert_true(10 * two <= 14 * one);
	forget(&few);
	forget(&many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_gzip),
	        cmocka_unit_test(test_levels),
	        cmocka_unit_test(test_index),
	        cmocka_unit_test(test_damage),
	        cmocka_unit_test(test_modules),
	        cmocka_unit_test(test_json),
	        cmocka_unit_test(test_keys),
	        cmocka_unit_test(test_uploads),
	        cmocka_unit_test(test_lookups_do_not_grow_with_the_cache),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
