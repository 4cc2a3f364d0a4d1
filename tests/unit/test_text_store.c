/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a symbol file in memory, raw and compressed: every byte as it came, pages by several threads, what is
 * taken, what is let go, and what is given back. The linker sends allocations through alloc_fail.c, and the calls below
 * here (--wrap).
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
#include <zstd.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/clock.h"
#include "base/process.h"
#include "cache/page_cache.h"
#include "objects/bucket_backend.h"
#include "offmap_tools.h"
#include "seed.h"
#include "symfiles/arrival.h"
#include "sym/symmap.h"
#include "../tools/whole_text.h"

enum { KIB = 1 << 10 };

uint8_t *__real_block_get(struct block_pool *p);
uint8_t *__wrap_block_get(struct block_pool *p);
size_t __real_ZSTD_compressCCtx(ZSTD_CCtx *z, void *to, size_t room, const void *from, size_t len, int level);
size_t __wrap_ZSTD_compressCCtx(ZSTD_CCtx *z, void *to, size_t room, const void *from, size_t len, int level);

/* Blocks that may be had yet, by any thread. */
static atomic_uint blocks_left = UINT32_MAX;

/* Fails where an allocation would. */
uint8_t *__wrap_block_get(struct block_pool *p)
{
	unsigned left = blocks_left;
	while (left && !atomic_compare_exchange_weak(&blocks_left, &left, left - 1))
		continue;
	if (!left)
		return NULL;
	void *probe = malloc(1);
	free(probe);
	return probe ? __real_block_get(p) : NULL;
}

/* Lines, with bytes among them that cannot be compressed. */
static struct buffer make_text(size_t len, uint64_t *seed)
{
	struct buffer t = text_new();
	while (t.len < len) {
		text_add(&t, "%x %x %u 0\n", next_random(seed), next_random(seed) % 64, next_random(seed) % 1000);
		if (next_random(seed) % 5000 == 0)
			for (unsigned n = next_random(seed) % (64 * KIB); n; n--)
				assert_true(buffer_append(&t, &(uint8_t){(uint8_t)next_random(seed)}, 1));
	}
	t.len = len;
	return t;
}

static bool fill(struct text_store *s, const struct buffer *t, size_t chunk)
{
	for (size_t at = 0, n; at < t->len; at += n) {
		uint8_t *to = text_store_space(s, &n);
		if (!to)
			return false;
		n = n < chunk ? n : chunk;
		n = n < t->len - at ? n : t->len - at;
		memcpy(to, t->data + at, n);
		if (!text_store_commit(s, n, true))
			return false;
	}
	return text_store_end(s);
}

struct stored {
	struct block_pool *pool;
	struct text_store_budget budget;
	struct text_store *store;
};

static void store(struct stored *s, const struct buffer *t, size_t chunk, uint64_t limit)
{
	s->pool = block_pool_new(1 << 20);
	assert_non_null(s->pool);
	s->budget = (struct text_store_budget){.limit = limit, .one = limit};
	s->store = text_store_new(s->pool, &s->budget);
	assert_non_null(s->store);
	assert_true(fill(s->store, t, chunk));
}

/* All that was taken is back. */
static void release(struct stored *s)
{
	text_store_free(s->store);
	assert_int_equal(block_pool_used(s->pool), 0);
	assert_int_equal(s->budget.used, 0);
	block_pool_free(s->pool);
}

static void check_read(const struct symtext *text, const struct buffer *t, uint64_t place, size_t len)
{
	uint8_t *room = malloc(len); /* of that size, so that a write behind it is seen */
	assert_non_null(room);
	const uint8_t *got = text->get(text->arg, place, len, room);
	assert_non_null(got);
	assert_memory_equal(got, t->data + place, len);
	free(room);
}

static void check_reads(const struct text_store *s, const struct buffer *t, uint64_t *seed)
{
	struct text_store_reader *r = text_store_reader_new(s);
	assert_non_null(r);
	const struct symtext *text = text_store_reader_text(r);
	for (unsigned i = 0; i < rounds(500); i++) {
		size_t at = next_random(seed) % t->len, len = t->len - at;
		size_t cap = (size_t)1 << next_random(seed) % 21;
		check_read(text, t, at, len < cap ? len : cap);
	}
	for (uint64_t at = 0, n = 3000; at < t->len; at += n) /* one after the other */
		check_read(text, t, at, n < t->len - at ? n : t->len - at);
	assert_in_range(text_store_reader_bytes(r), 1, 2 * BLOCK_SIZE);
	text_store_reader_free(r);
}

/* One text may have four raw blocks and all texts six, beside the end of each, which fills none. */
static void test_raw_text_of_one_and_of_all(void **state)
{
	uint64_t seed = seed_of(6);
	struct buffer t = make_text(10 * BLOCK_SIZE + 100, &seed);
	struct block_pool *pool = block_pool_new(0);
	struct text_store_budget budget = {.limit = 6 * BLOCK_SIZE, .one = 4 * BLOCK_SIZE};
	struct text_store *stores[2];
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		stores[i] = text_store_new(pool, &budget);
		assert_non_null(stores[i]);
		assert_true(fill(stores[i], &t, 100000));
		assert_int_equal(budget.used, i ? 5 * BLOCK_SIZE + 2 * 100 : 4 * BLOCK_SIZE + 100);
	}
	for (unsigned i = 0; i < 2; i++) {
		check_reads(stores[i], &t, &seed);
		text_store_free(stores[i]);
	}
	assert_int_equal(budget.used, 0);
	assert_int_equal(block_pool_used(pool), 0);
	block_pool_free(pool);
	buffer_release(&t);
}

static void test_the_text_as_it_came(void **state)
{
	static const size_t lens[] = {
	        1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 3 * BLOCK_SIZE, 10 * BLOCK_SIZE - 7};
	static const uint64_t limits[] = {0, 3 * BLOCK_SIZE, UINT64_MAX};
	uint64_t seed = seed_of(1);
	(void)state;
	for (unsigned l = 0; l < sizeof lens / sizeof *lens; l++)
		for (unsigned k = 0; k < sizeof limits / sizeof *limits; k++) {
			struct buffer t = make_text(lens[l], &seed);
			struct stored s;
			store(&s, &t, k ? 5000 : SIZE_MAX, limits[k]);
			assert_true(s.budget.used <= BLOCK_SIZE || s.budget.used - BLOCK_SIZE <= limits[k]);
			check_reads(s.store, &t, &seed);
			release(&s);
			buffer_release(&t);
		}
}

/* What is said to be taken is what is taken, and compressed text takes less. */
static void test_bytes(void **state)
{
	struct buffer t = text_new();
	uint64_t raw = 0;
	(void)state;
	for (unsigned i = 0; t.len < 40 * BLOCK_SIZE; i++)
		text_add(&t, "FUNC %x 10 0 a_function_with_a_name\n%x 10 1 0\n", 16 * i, 16 * i);
	for (unsigned compressed = 0; compressed < 2; compressed++) {
		struct stored s;
		store(&s, &t, SIZE_MAX, compressed ? 0 : UINT64_MAX);
		uint64_t bytes = text_store_bytes(s.store), blocks = block_pool_used(s.pool);
		assert_in_range(bytes, blocks + t.len % BLOCK_SIZE, blocks + t.len % BLOCK_SIZE + 64 * KIB);
		if (!compressed)
			raw = bytes;
		else
			assert_true(2 * bytes < raw);
		release(&s);
	}
	buffer_release(&t);
}

/* The store's thread, while held, waits with its first slice until a slice is compressed by the test's. */
static atomic_bool held;
static atomic_uint helped; /* slices that the test's thread has compressed */
static _Thread_local bool is_writer;

size_t __wrap_ZSTD_compressCCtx(ZSTD_CCtx *z, void *to, size_t room, const void *from, size_t len, int level)
{
	if (is_writer)
		helped++;
	for (int64_t end = clock_now() + 60 * SECOND; !is_writer && held && !helped;) {
		nanosleep(&(struct timespec){0, MS}, NULL);
		if (clock_now() >= end)
			held = false;
	}
	return __real_ZSTD_compressCCtx(z, to, room, from, len, level);
}

/* Appends blocks. Returns how many were taken. */
static unsigned append(struct text_store *s, struct block_pool *pool, const struct buffer *t)
{
	for (size_t at = 0; at < t->len; at += BLOCK_SIZE) {
		size_t n = t->len - at < BLOCK_SIZE ? t->len - at : BLOCK_SIZE;
		uint8_t *block = block_get(pool);
		if (!block)
			return (unsigned)(at / BLOCK_SIZE);
		memcpy(block, t->data + at, n);
		if (!text_store_append(s, block, n, true))
			return (unsigned)(at / BLOCK_SIZE);
	}
	return (unsigned)(t->len / BLOCK_SIZE);
}

static void test_a_writer_that_helps(void **state)
{
	enum { BLOCKS = 120 }; /* the thread may be 16 behind */
	uint64_t seed = seed_of(7);
	struct buffer part = make_text(5 * BLOCK_SIZE / 2, &seed), t = text_new();
	(void)state;
	while (t.len <= BLOCKS * BLOCK_SIZE)
		assert_true(buffer_append(&t, part.data, part.len));
	t.len = BLOCKS * BLOCK_SIZE + 7;
	for (unsigned left = 20; left <= 320; left += 150) { /* the last are enough */
		struct block_pool *pool = block_pool_new(0);
		struct text_store_budget budget = {.limit = 0};
		struct text_store *s = text_store_new(pool, &budget);
		assert_non_null(s);
		blocks_left = left;
		helped = 0;
		held = is_writer = true;
		unsigned taken = append(s, pool, &t);
		held = is_writer = false;
		bool good = text_store_end(s);
		blocks_left = UINT32_MAX;
		assert_true(left < 320 ? !good || taken < BLOCKS : good && taken == BLOCKS && helped);
		if (good && taken == BLOCKS)
			check_reads(s, &t, &seed);
		text_store_free(s);
		assert_int_equal(budget.used, 0);
		assert_int_equal(block_pool_used(pool), 0);
		block_pool_free(pool);
	}
	buffer_release(&t);
	buffer_release(&part);
}

/* So few blocks are left to the thread until the text ends. */
static void test_the_end_helps(void **state)
{
	uint64_t seed = seed_of(8);
	struct buffer t = make_text(10 * BLOCK_SIZE + 7, &seed);
	struct block_pool *pool = block_pool_new(0);
	struct text_store_budget budget = {.limit = 0};
	struct text_store *s = text_store_new(pool, &budget);
	(void)state;
	assert_non_null(s);
	helped = 0;
	held = is_writer = true;
	assert_int_equal(append(s, pool, &t), 10);
	assert_int_equal(helped, 0);
	assert_true(text_store_end(s));
	held = is_writer = false;
	assert_int_not_equal(helped, 0);
	check_reads(s, &t, &seed);
	text_store_free(s);
	assert_int_equal(block_pool_used(pool), 0);
	block_pool_free(pool);
	buffer_release(&t);
}

/* ---- pages ---- */

struct maker {
	const struct text_store *store;
	const struct symindex *index;
	const struct symspans *spans;
	struct offmap *map; /* of its own */
};

static void *make_map(void *arg)
{
	struct maker *m = arg;
	struct text_store_reader *r = text_store_reader_new(m->store);
	m->map = r ? sympages_all(m->index, m->spans, text_store_reader_text(r)) : NULL;
	text_store_reader_free(r);
	return NULL;
}

/* Threads that read one store at the same time make the pages that a text in one piece gives. */
static void test_pages_by_threads(void **state)
{
	enum { THREADS = 4 };
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nINLINE_ORIGIN 0 %0100u\n", 1);
	for (unsigned i = 0; t.len < 6 * BLOCK_SIZE; i++) { /* in no order */
		unsigned at = i * 7919u % 65536 * 0x100;
		text_add(&t, "FUNC %x 100 0 function%u\nINLINE 0 %u 0 0 %x 8\n", at, i, i, at);
		for (unsigned k = 0; k < 16; k++)
			text_add(&t, "%x 10 %u 0\n", at + 16 * k, i + k);
	}
	struct symindex *x = symindex_new((struct str){"", 0});
	assert_non_null(x);
	assert_int_equal(symindex_feed(x, t.data, t.len, NULL), ERR_OK);
	assert_int_equal(symindex_finish(x, NULL), ERR_OK);
	struct symtext whole = whole_text(t.data);
	struct symspans *spans = symspans_new(x, &whole, false, 0, NULL, NULL, NULL);
	assert_non_null(spans);
	struct offmap *want = sympages_all(x, spans, &whole);
	assert_non_null(want);
	for (uint64_t limit = 0; limit <= 3 * BLOCK_SIZE; limit += 3 * BLOCK_SIZE) {
		struct stored s;
		struct maker makers[THREADS];
		pthread_t threads[THREADS];
		store(&s, &t, SIZE_MAX, limit);
		for (unsigned i = 0; i < THREADS; i++) {
			makers[i] = (struct maker){s.store, x, spans, NULL};
			assert_int_equal(pthread_create(&threads[i], NULL, make_map, &makers[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++) {
			pthread_join(threads[i], NULL);
			assert_non_null(makers[i].map);
			assert_same_maps(want, makers[i].map);
			offmap_free(makers[i].map);
		}
		release(&s);
	}
	offmap_free(want);
	symspans_free(spans);
	symindex_free(x);
	buffer_release(&t);
}

/* ---- text that goes ---- */

enum { RUNS = 3, FUNCS = 5000, PLACES = RUNS * FUNCS };

/* RUNS runs of functions in turn, each ascending, but each begins elsewhere among the addresses; with names for
 * string pages, one large function, and text that no page needs. */
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
	for (size_t end = t.len + 4 * BLOCK_SIZE; t.len < end;)
		text_add(&t, "STACK CFI 100 .cfa: $rsp 8 +\n");
	return t;
}

/* A module without pages whose text is attached, as a load leaves it. */
struct loaded {
	struct block_pool *pool;
	struct text_store_budget budget;
	struct symmap *text;
	struct page_cache *cache;
	struct module *module;
	const struct offmap *want;
	uint64_t seed;
};

static void load(struct loaded *l, const struct buffer *t, uint64_t limit, uint64_t memory_max)
{
	struct module_hash hash = {0};
	struct offmap_options options = plain_options;
	options.memory_max = memory_max;
	*l = (struct loaded){.pool = block_pool_new(0),
	        .budget = {.limit = limit, .one = limit},
	        .cache = page_cache_new(UINT32_MAX)};
	l->text = symmap_new(&options, l->pool, &l->budget, str_from(""));
	assert_non_null(l->text);
	assert_int_equal(symmap_feed(l->text, t->data, t->len, NULL), ERR_OK);
	assert_int_equal(symmap_finish(l->text, NULL), ERR_OK);
	l->module = module_new(&hash, symmap_map(l->text));
	assert_non_null(l->module);
	symmap_ref(l->text);
	l->module->text = l->text;
}

/* free() what it points to. */
static struct iovec gzip_of(const struct buffer *t)
{
	uint8_t *gz;
	size_t len;
	assert_int_equal(gzip_compress(t->data, t->len, &gz, &len), ERR_OK);
	return (struct iovec){gz, len};
}

/* The same of a file that comes as gzip; readers: how many second threads other arrivals have. False if out of memory.
 */
static bool load_gzip(struct loaded *l, struct iovec gz, uint64_t limit, atomic_uint readers)
{
	struct module_hash hash = {0};
	struct arrival in;
	*l = (struct loaded){.pool = block_pool_new(0), .budget = {.limit = limit, .one = limit}};
	struct bucket_body body = {0};
	l->text = l->pool ? symmap_new(&plain_options, l->pool, &l->budget, str_from("")) : NULL;
	struct offmap *map = NULL;
	if (l->text) {
		arrival_begin(&in, l->text, l->pool, &readers);
		struct bucket_sink sink = arrival_sink(&in);
		bucket_body_start(&body, &sink, UINT64_MAX);
		enum bucket_outcome outcome = BUCKET_OK;
		for (size_t at = 0, n = 100003; at < gz.iov_len && outcome == BUCKET_OK; at += n)
			outcome = bucket_body_add(
			        &body, (uint8_t *)gz.iov_base + at, n < gz.iov_len - at ? n : gz.iov_len - at);
		map = arrival_finish(&in, outcome == BUCKET_OK && bucket_body_end(&body) == BUCKET_OK);
	}
	bucket_body_release(&body);
	l->cache = map ? page_cache_new(UINT32_MAX) : NULL;
	l->module = l->cache ? module_new(&hash, map) : NULL;
	if (!l->module && !l->cache)
		offmap_free(map);
	if (!l->module)
		return false;
	symmap_ref(l->text);
	l->module->text = l->text;
	return true;
}

static void unload(struct loaded *l)
{
	symmap_unref(l->text);
	module_unref(l->module);
	assert_int_equal(block_pool_used(l->pool), 0);
	assert_int_equal(l->budget.used, 0);
	assert_int_equal(l->budget.idle_makers, 0);
	page_cache_free(l->cache);
	block_pool_free(l->pool);
}

/* Makes a page, puts it into the cache, and lets its text go. */
static void finish_page(struct loaded *l, struct symmap_maker *maker, enum page_kind kind, uint32_t number)
{
	struct page *p = symmap_make(maker, kind, number, NULL);
	assert_non_null(p);
	module_put_page(l->cache, l->module, number, p);
	page_unref(p);
	symmap_made(l->text, kind, number);
}

/* All of them. `half`: what is in use when half of the code pages are made. */
static void finish_pages(struct loaded *l, uint64_t *half)
{
	struct symmap_maker maker;
	assert_true(symmap_take(l->text, true, &maker));
	for (uint32_t i = 0; i < l->want->string_count; i++)
		finish_page(l, &maker, PAGE_STRINGS, i);
	for (uint32_t i = 0; i < l->want->code_count; i++) {
		finish_page(l, &maker, PAGE_CODE, symmap_order(l->text)[i]);
		if (i == l->want->code_count / 2)
			*half = block_pool_used(l->pool);
	}
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

/* Whether the file is in order or not, text goes as pages are made, and all the while every page can be had. */
static void test_text_goes_while_pages_are_made(void **state)
{
	enum { THREADS = 3 };
	struct buffer t = make_runs();
	struct offmap *want = map_build(text_str(&t), &plain_options);
	(void)state;
	for (unsigned packed = 0; packed < 2; packed++)
		for (unsigned asked = is_watched_for_races(); asked < 2; asked++) {
			struct loaded l;
			pthread_t threads[THREADS];
			load(&l, &t, packed ? 0 : UINT64_MAX, 0);
			l.want = want;
			uint64_t before = block_pool_used(l.pool), half = before;
			l.seed = seed_of(5);
			for (unsigned i = 0; i < THREADS && asked; i++)
				assert_int_equal(pthread_create(&threads[i], NULL, ask_for_pages, &l), 0);
			finish_pages(&l, &half);
			for (unsigned i = 0; i < THREADS && asked; i++)
				pthread_join(threads[i], NULL);
			uint64_t after = block_pool_used(l.pool);
			print_message("%s: %" PRIu64 " KiB, half of the pages %" PRIu64 ", all %" PRIu64 "\n",
			        packed ? "compressed" : "raw", before / KIB, half / KIB, after / KIB);
			/* the large function's text stays, and what readers have open */
			assert_true(asked || half < before * (packed ? 9 : 6) / 10);
			assert_true(asked || after < before / 2);
			assert_same_pages(l.want, l.module->map);
			unload(&l);
		}
	offmap_free(want);
	buffer_release(&t);
}

/* Functions in the order of their addresses, or in none. */
static struct buffer make_functions(unsigned count, bool in_order)
{
	struct buffer t = text_new();
	text_add(&t, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nINLINE_ORIGIN 0 %0100u\n", 1);
	for (unsigned i = 0; i < count; i++) {
		unsigned at = (in_order ? i : i * 7919u % count) * 0x100;
		text_add(&t, "FUNC %x 100 0 function%u\nINLINE 0 %u 0 0 %x 8\n", at, i, i, at);
		for (unsigned k = 0; k < 8; k++)
			text_add(&t, "%x 20 %u 0\n", at + 32 * k, i * i + k);
	}
	return t;
}

/* What came as gzip is kept so but for its start, unless pages would inflate it too often. */
static void test_text_that_came_as_gzip(void **state)
{
	static const uint64_t limits[] = {0, 5 * BLOCK_SIZE, UINT64_MAX};
	(void)state;
	for (unsigned in_order = 0; in_order < 2; in_order++) {
		/* where a sanitizer watches, half as many: still more than is kept raw */
		struct buffer t = make_functions(1 << (slowness() > 1 ? 15 : 16), in_order);
		struct iovec gz = gzip_of(&t);
		struct offmap *want = map_build(text_str(&t), &plain_options);
		for (unsigned i = 0; i < (is_watched_for_races() ? 1 : sizeof limits / sizeof *limits); i++) {
			struct loaded l;
			uint64_t half, most = in_order ? 4 << 20 : t.len, raw = limits[i] < most ? limits[i] : most;
			assert_true(load_gzip(&l, gz, limits[i], 0));
			l.want = want;
			assert_int_equal(
			        packed_text_has(symmap_packed(l.text), (4 << 20) / PACKED_STRETCH + 1), in_order);
			assert_int_equal(packed_text_has(symmap_packed(l.text), 0), in_order && !raw);
			uint64_t used = block_pool_used(l.pool);
			print_message("%zu KiB of text: %" PRIu64 "\n", t.len / KIB, used / KIB);
			assert_true(
			        used < raw + 7 * BLOCK_SIZE + (raw < t.len ? t.len * (in_order ? 30 : 50) / 100 : 0));
			finish_pages(&l, &half);
			assert_same_pages(want, l.module->map);
			unload(&l);
		}
		offmap_free(want);
		free(gz.iov_base);
		buffer_release(&t);
	}
}

static void add_stack_records(struct buffer *t, size_t len)
{
	for (size_t end = t->len + len; t->len < end;)
		text_add(t, "STACK CFI %zx .cfa: $rsp %zu + .ra: .cfa -8 + ^\n", t->len, t->len % 1000);
}

/* Functions with more text than a page reads, up to 2 MiB, are cut at the same places however the text arrives. */
static void test_large_functions_are_cut_alike(void **state)
{
	static const uint64_t limits[] = {0, 9 * BLOCK_SIZE, UINT64_MAX};
	uint64_t seed = seed_of(11), addr = 0, half;
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
			add_stack_records(&t, next_random(&seed) % BLOCK_SIZE);
	}
	struct offmap *want = map_build(text_str(&t), &plain_options);
	struct iovec gz = gzip_of(&t);
	for (unsigned gzip = 0; gzip < 2; gzip++)
		for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
			struct loaded l;
			if (gzip)
				assert_true(load_gzip(&l, gz, limits[i], 0));
			else
				load(&l, &t, limits[i], 0);
			l.want = want;
			finish_pages(&l, &half);
			assert_same_pages(want, l.module->map);
			unload(&l);
		}
	offmap_free(want);
	free(gz.iov_base);
	buffer_release(&t);
}

/* Of two functions at one place only one is in a page; the text of the other goes first. */
static void test_text_that_no_page_needs_goes_at_once(void **state)
{
	struct buffer t = text_new();
	struct loaded l;
	struct symmap_maker maker;
	(void)state;
	text_add(&t, "MODULE Linux x86_64 0 a\n");
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 1; i <= 400; i++) {
			text_add(&t, "FUNC %x 1000 0 function%u\n", i * 0x1000, i);
			for (unsigned j = 0; j < 512; j++)
				text_add(&t, "%x 8 %u 0\n", i * 0x1000 + 8 * j, j);
		}
	load(&l, &t, UINT64_MAX, 0);
	uint64_t before = block_pool_used(l.pool);
	assert_true(symmap_take(l.text, true, &maker));
	finish_page(&l, &maker, PAGE_CODE, symmap_order(l.text)[0]);
	assert_true(block_pool_used(l.pool) < before * 6 / 10);
	symmap_give(l.text, &maker);
	unload(&l);
	buffer_release(&t);
}

/* ---- text that is not kept ---- */

/* Symbols, definitions and runs of STACK records in any order; a function may go on behind such records. */
static struct buffer make_mixed(uint64_t *seed)
{
	struct buffer t = text_new();
	text_add(&t, "MODULE Linux x86_64 0 a\nFUNC 0 1 0 first\n");
	for (unsigned i = 1; i < 40; i++) {
		uint64_t kind = next_random(seed) % 5;
		if (kind == 0)
			text_add(&t, "FUNC %x 1000 0 function%u\n", i * 0x1000, i);
		if (kind == 1)
			text_add(&t, "PUBLIC %x 0 %0*u\n", i * 0x1000, next_random(seed) % 2 ? 300 : 8, i);
		if (kind == 2)
			text_add(&t, "INLINE_ORIGIN %u %0100u\n", i, i);
		if (kind == 3) /* ends where a block does, or near */
			add_stack_records(&t, next_random(seed) % 3 * BLOCK_SIZE - t.len % BLOCK_SIZE -
			                              next_random(seed) % 80 + BLOCK_SIZE);
		for (unsigned k = 0; kind == 4 && k < 64; k++)
			text_add(&t, "%x 8 %u 0\n", i * 0x1000 + 8 * k, i + k);
	}
	add_stack_records(&t, 5 * BLOCK_SIZE);
	return t;
}

/* In blocks, or in pieces of any length. */
static void arrive(struct symmap *m, struct block_pool *pool, const struct buffer *t, bool in_blocks, uint64_t *seed)
{
	for (size_t at = 0, n; at < t->len; at += n) {
		size_t most = in_blocks ? BLOCK_SIZE : 1 + next_random(seed) % (64 * KIB);
		n = t->len - at < most ? t->len - at : most;
		if (!in_blocks) {
			assert_int_equal(symmap_feed(m, t->data + at, n, NULL), ERR_OK);
			continue;
		}
		uint8_t *block = block_get(pool);
		assert_non_null(block);
		memcpy(block, t->data + at, n);
		assert_int_equal(symmap_append(m, block, n, NULL), ERR_OK);
	}
	assert_int_equal(symmap_finish(m, NULL), ERR_OK);
}

static void test_pages_without_text_that_none_needs(void **state)
{
	uint64_t seed = seed_of(9);
	(void)state;
	for (unsigned i = 0; i < (is_watched_for_races() ? 8 : rounds(100)); i++) {
		struct buffer t = make_mixed(&seed);
		struct block_pool *pool = block_pool_new(0);
		uint64_t limit = i % 4 < 2 ? UINT64_MAX : 2 * BLOCK_SIZE;
		struct text_store_budget budget = {.limit = limit, .one = limit};
		struct symmap *m = symmap_new(&plain_options, pool, &budget, str_from(""));
		assert_non_null(m);
		arrive(m, pool, &t, i % 2, &seed);
		struct offmap *want = map_build(text_str(&t), &plain_options), *map = symmap_all(m);
		assert_non_null(map);
		assert_same_maps(want, map);
		offmap_free(want);
		offmap_free(map);
		symmap_unref(m);
		assert_int_equal(block_pool_used(pool), 0);
		assert_int_equal(budget.used, 0);
		block_pool_free(pool);
		buffer_release(&t);
	}
}

static void test_stack_records_take_no_memory(void **state)
{
	uint64_t seed = seed_of(10);
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE Linux x86_64 0 a\nFUNC 0 100 0 f\n0 10 1 0\nPUBLIC 1000 0 p\n");
	add_stack_records(&t, 20 * BLOCK_SIZE);
	for (unsigned in_blocks = 0; in_blocks < 2; in_blocks++) {
		struct block_pool *pool = block_pool_new(0);
		struct text_store_budget budget = {.limit = UINT64_MAX, .one = UINT64_MAX};
		struct symmap *m = symmap_new(&plain_options, pool, &budget, str_from(""));
		assert_non_null(m);
		arrive(m, pool, &t, in_blocks, &seed);
		assert_int_equal(
		        block_pool_used(pool), BLOCK_SIZE); /* the first; the last, which is not full, is none */
		symmap_unref(m);
		block_pool_free(pool);
	}
	buffer_release(&t);
}

static void count_charge(void *arg, int64_t bytes)
{
	*(int64_t *)arg += bytes;
}

/* Of 1.2 KB, as most of a process's modules: it took a block of 256 KiB, so that the modules of a few processes filled
 * the memory. */
static void test_a_small_text_takes_little(void **state)
{
	uint64_t seed = seed_of(11);
	(void)state;
	for (unsigned in_blocks = 0; in_blocks < 2; in_blocks++) {
		struct buffer t = text_new();
		struct block_pool *pool = block_pool_new(0);
		struct text_store_budget budget = {.limit = UINT64_MAX, .one = UINT64_MAX};
		struct offmap_options options = plain_options;
		int64_t charged = 0;
		options.charge = count_charge;
		options.charge_arg = &charged;
		struct symmap *m = symmap_new(&options, pool, &budget, str_from(""));
		assert_non_null(m);
		text_add(&t, "MODULE Linux x86_64 0 a\n");
		for (unsigned i = 1; t.len < 1200; i++)
			text_add(&t, "FUNC %x 10 0 a_function\n%x 10 1 0\n", 16 * i, 16 * i);
		arrive(m, pool, &t, in_blocks, &seed);
		assert_int_equal(block_pool_used(pool), 0);
		assert_in_range(charged, t.len, 8 * KIB);
		assert_int_equal(budget.used, t.len);
		struct symmap_maker maker;
		assert_true(symmap_take(m, false, &maker)); /* it can be read */
		struct page *p = symmap_make(&maker, PAGE_CODE, 0, NULL);
		assert_non_null(p);
		page_unref(p);
		symmap_give(m, &maker);
		symmap_unref(m);
		assert_int_equal(charged, 0);
		assert_int_equal(budget.used, 0);
		block_pool_free(pool);
		buffer_release(&t);
	}
}

static void test_idle_makers_are_few(void **state)
{
	enum { MAKERS = 12 };
	struct buffer t = make_runs();
	struct loaded l;
	struct symmap_maker makers[MAKERS];
	unsigned cores = cores_count();
	(void)state;
	load(&l, &t, UINT64_MAX, 0);
	for (unsigned i = 0; i < MAKERS; i++)
		assert_true(symmap_take(l.text, true, &makers[i]));
	assert_int_equal(l.budget.idle_makers, 0);
	for (unsigned i = 0; i < MAKERS; i++)
		symmap_give(l.text, &makers[i]);
	assert_int_equal(l.budget.idle_makers, cores < MAKERS ? cores : MAKERS);
	assert_true(symmap_take(l.text, true, &makers[0]));
	assert_int_equal(l.budget.idle_makers, (cores < MAKERS ? cores : MAKERS) - 1);
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
	load(&l, &t, UINT64_MAX, 0);
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
	struct offmap *want = map_build(text_str(&t), &plain_options);
	struct loaded l;
	struct late late = {.loaded = &l};
	struct symmap_maker maker;
	pthread_t thread;
	cpu_set_t all;
	(void)state;
	use_one_core(&all);
	load(&l, &t, UINT64_MAX, 0);
	assert_true(symmap_take(l.text, false, &maker));
	assert_int_equal(pthread_create(&thread, NULL, ask_late, &late), 0);
	while (!late.thread || !sleeps(late.thread)) /* it waits for the maker */
		nanosleep(&(struct timespec){0, MS}, NULL);
	for (uint32_t i = 0; i < want->string_count; i++)
		symmap_made(l.text, PAGE_STRINGS, i);
	for (uint32_t i = 0; i < want->code_count; i++)
		symmap_made(l.text, PAGE_CODE, i);
	module_drop_text(l.module);
	symmap_give(l.text, &maker);
	pthread_join(thread, NULL);
	assert_int_equal(late.err, ERR_OK);
	page_unref(late.page);
	unload(&l);
	offmap_free(want);
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
		struct page *p = symmap_make(&maker, PAGE_CODE, 0, NULL);
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
		load(&l, &t, UINT64_MAX, one ? 40 << 20 : 0);
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

/* Of a text that is stored again and again. In the plain run more than the 16 that the thread may be behind; a
 * sanitizer sees the writer help in test_a_writer_that_helps. */
static size_t many_blocks(void)
{
	return slowness() > 1 ? 8 : 20;
}

struct attempt {
	struct buffer text;
	struct iovec gz; /* the same */
	uint64_t limit;
};

static bool read_all(const struct text_store *s, const struct buffer *t)
{
	struct text_store_reader *r = text_store_reader_new(s);
	bool ok = r != NULL;
	for (uint64_t at = 0; ok && at < t->len; at += 100) {
		uint8_t room[100];
		size_t len = t->len - at < 100 ? t->len - at : 100;
		const struct symtext *text = text_store_reader_text(r);
		const uint8_t *got = text->get(text->arg, at, len, room);
		ok = got != NULL;
		assert_true(!ok || memcmp(got, t->data + at, len) == 0);
	}
	text_store_reader_free(r);
	return ok;
}

static bool try_all(void *arg)
{
	struct attempt *a = arg;
	struct stored s = {.pool = block_pool_new(0), .budget = {.limit = a->limit, .one = a->limit}};
	s.store = s.pool ? text_store_new(s.pool, &s.budget) : NULL;
	bool ok = s.store && fill(s.store, &a->text, SIZE_MAX) && read_all(s.store, &a->text);
	text_store_free(s.store);
	if (s.pool)
		assert_int_equal(block_pool_used(s.pool), 0);
	assert_int_equal(s.budget.used, 0);
	block_pool_free(s.pool);
	return ok;
}

static bool try_gzip(void *arg)
{
	const struct attempt *a = arg;
	struct loaded l;
	struct symmap_maker maker = {0};
	bool ok = load_gzip(&l, a->gz, a->limit, UINT_MAX / 2) && symmap_take(l.text, true, &maker);
	for (uint32_t i = 0; ok && i < l.module->map->code_count; i += 10) {
		struct page *p = symmap_make(&maker, PAGE_CODE, i, NULL);
		ok = p != NULL;
		page_unref(p);
	}
	if (maker.pages)
		symmap_give(l.text, &maker);
	if (l.pool)
		unload(&l);
	return ok;
}

static void test_no_memory_for_gzip(void **state)
{
	(void)state;
	if (is_watched_for_races())
		skip();
	for (unsigned in_order = 0; in_order < 2; in_order++) {
		struct attempt a = {.text = make_functions(10 << 10, in_order)};
		a.gz = gzip_of(&a.text);
		assert_in_range(fail_each_allocation(try_gzip, &a), 30, 400);
		free(a.gz.iov_base);
		buffer_release(&a.text);
	}
}

static void test_no_memory(void **state)
{
	uint64_t seed = seed_of(3);
	struct attempt a = {.text = make_text(many_blocks() * BLOCK_SIZE + 17, &seed)};
	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		a.limit = k * many_blocks() / 2 * BLOCK_SIZE;
		assert_in_range(fail_each_allocation(try_all, &a), many_blocks(), 200);
	}
	buffer_release(&a.text);
}

/* The thread that compresses may find no block either. */
static void test_no_block(void **state)
{
	uint64_t seed = seed_of(4);
	struct attempt a = {.text = make_text(many_blocks() * BLOCK_SIZE + 17, &seed)};
	unsigned n = 0;
	(void)state;
	for (bool done = false; !done; n++) {
		blocks_left = n;
		done = try_all(&a);
	}
	blocks_left = UINT32_MAX;
	assert_in_range(n, 3, 40);
	buffer_release(&a.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_the_text_as_it_came),
	        cmocka_unit_test(test_raw_text_of_one_and_of_all),
	        cmocka_unit_test(test_text_that_no_page_needs_goes_at_once),
	        cmocka_unit_test(test_pages_without_text_that_none_needs),
	        cmocka_unit_test(test_stack_records_take_no_memory),
	        cmocka_unit_test(test_a_small_text_takes_little),
	        cmocka_unit_test(test_idle_makers_are_few),
	        cmocka_unit_test(test_nobody_waits_for_a_load_that_is_finished),
	        cmocka_unit_test(test_a_page_that_waited_until_the_text_was_gone),
	        cmocka_unit_test(test_makers_wait_for_memory),
	        cmocka_unit_test(test_bytes),
	        cmocka_unit_test(test_a_writer_that_helps),
	        cmocka_unit_test(test_the_end_helps),
	        cmocka_unit_test(test_pages_by_threads),
	        cmocka_unit_test(test_text_goes_while_pages_are_made),
	        cmocka_unit_test(test_text_that_came_as_gzip),
	        cmocka_unit_test(test_large_functions_are_cut_alike),
	        cmocka_unit_test(test_no_memory),
	        cmocka_unit_test(test_no_memory_for_gzip),
	        cmocka_unit_test(test_no_block),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
