/* SPDX-License-Identifier: Apache-2.0 */
/* Arena, buffer, UTF-8 and JSON escaping, log. */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/block_pool.h"
#include "base/buffer.h"
#include "base/cgroup.h"
#include "base/hash.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map64.h"
#include "base/metrics.h"
#include "base/process.h"
#include "base/search.h"
#include "base/utf8.h"
#include "seed.h"

/* --- arena --- */

static void arena_pieces_are_aligned_and_apart(void **state)
{
	struct arena a;
	unsigned char *pieces[400];
	size_t sizes[400];
	(void)state;
	arena_init(&a, 64 << 20);
	for (unsigned i = 0; i < 400; i++) {
		/* Small ones, a large one now and then, and none at all. */
		sizes[i] = i % 50 == 49 ? 100000 : i * 7 % 300;
		pieces[i] = arena_alloc(&a, sizes[i]);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % 16, 0);
		memset(pieces[i], (int)i, sizes[i]);
	}
	for (unsigned i = 0; i < 400; i++)
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(pieces[i][k], i & 0xff);
	arena_release(&a);
	assert_int_equal(a.used, 0);
}

static void arena_keeps_to_its_cap(void **state)
{
	struct arena a;
	(void)state;
	arena_init(&a, 1000);
	assert_null(arena_alloc(&a, 1001));
	assert_non_null(arena_alloc(&a, 900));
	assert_null(arena_alloc(&a, 101));
	assert_non_null(arena_alloc(&a, 64));
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_calloc(&a, SIZE_MAX / 2, 3));
	arena_reset(&a);
	assert_non_null(arena_alloc(&a, 900));
	arena_release(&a);
	arena_init(&a, 1024);
	assert_non_null(arena_alloc(&a, 1024));
	assert_null(arena_alloc(&a, 1));
	arena_release(&a);
	arena_init(&a, SIZE_MAX);
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 20));
	arena_release(&a);
}

static void arena_calloc_clears_used_memory(void **state)
{
	struct arena a;
	(void)state;
	arena_init(&a, 1 << 20);
	memset(arena_alloc(&a, 5000), 0xff, 5000);
	arena_reset(&a);
	unsigned char *p = arena_calloc(&a, 50, 100);
	assert_non_null(p);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(p[i], 0);
	arena_release(&a);
}

static void arena_reset_keeps_one_usual_block(void **state)
{
	struct arena a;
	(void)state;
	arena_init(&a, 64 << 20);
	for (unsigned i = 0; i < 100; i++)
		assert_non_null(arena_alloc(&a, 8000));
	assert_non_null(arena_alloc(&a, 10 << 20));
	arena_reset(&a);
	assert_non_null(a.head);
	struct arena_block *kept = a.head;
	assert_non_null(arena_alloc(&a, 8000));
	assert_ptr_equal(a.head, kept);
	arena_release(&a);
	assert_null(a.head);
}

/* --- blocks that are kept --- */

enum { PIECE = 8000 };

static void fill(struct arena *a, size_t bytes)
{
	for (size_t i = 0; i < bytes / PIECE; i++)
		memset(arena_alloc(a, PIECE), 0xff, PIECE);
}

static void a_large_arena_takes_blocks_of_the_pool(void **state)
{
	struct block_pool *pool = block_pool_new(BLOCK_SIZE);
	struct arena a;
	(void)state;
	arena_take_blocks(pool);
	arena_init(&a, 64 << 20);
	fill(&a, 1 << 20);
	assert_int_equal(block_pool_used(pool), 0); /* nobody charges it */
	arena_reset(&a);
	arena_charge(&a, ACCOUNT_REPLIES, UINT64_MAX);
	fill(&a, BLOCK_SIZE / 2);
	assert_int_equal(block_pool_used(pool), 0);
	fill(&a, 1 << 20);
	assert_true(block_pool_used(pool) >= 1 << 20);
	assert_true(account_used_for(ACCOUNT_REPLIES) >= a.used);
	arena_take_blocks(NULL); /* the blocks go back all the same */
	arena_reset(&a);
	assert_int_equal(block_pool_used(pool), 0);
	assert_int_equal(account_used_for(ACCOUNT_REPLIES), 0);
	fill(&a, 1 << 20);
	assert_int_equal(block_pool_used(pool), 0);
	arena_release(&a);
	assert_int_equal(account_used_for(ACCOUNT_REPLIES), 0);
	block_pool_free(pool);
}

static bool is_mapped(void *block)
{
	unsigned char pages[BLOCK_SIZE / 4096];
	return mincore(block, BLOCK_SIZE, pages) == 0;
}

static void a_pool_keeps_blocks_until_it_drops_them(void **state)
{
	struct block_pool *pool = block_pool_new(BLOCK_SIZE);
	uint8_t *block = block_get(pool), *used = block_get(pool);
	(void)state;
	block_put(pool, block);
	assert_true(is_mapped(block));
	block_pool_trim(pool, false); /* not while another one is used */
	assert_ptr_equal(block_get(pool), block);
	block_put(pool, block);
	block_pool_trim(pool, true);
	assert_false(is_mapped(block));
	assert_true(is_mapped(used));
	block_put(pool, used);
	block_pool_trim(pool, false); /* it was used since the last time */
	assert_true(is_mapped(used));
	block_pool_trim(pool, false);
	assert_false(is_mapped(used));
	block_pool_free(pool);
}

/* --- buffer --- */

static void buffer_grows_to_its_cap_and_fails_for_good(void **state)
{
	struct buffer b;
	(void)state;
	buffer_init(&b, 1000);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(buffer_append(&b, "x", 1));
	assert_int_equal(b.len, 1000);
	assert_false(b.failed);
	assert_true(buffer_append(&b, NULL, 0));
	assert_false(buffer_append(&b, "y", 1));
	assert_true(b.failed);
	assert_false(buffer_append(&b, "", 0));
	assert_false(buffer_printf(&b, "z"));
	assert_false(buffer_append_json(&b, str_from("z")));
	assert_int_equal(b.len, 1000);
	buffer_reset(&b);
	assert_true(buffer_append_str(&b, str_from("again")));
	assert_int_equal(b.len, 5);
	buffer_release(&b);
	assert_null(b.data);
	assert_int_equal(b.max, 1000);
}

static void buffer_reserve_refuses_overflow(void **state)
{
	struct buffer b;
	(void)state;
	buffer_init(&b, SIZE_MAX);
	assert_true(buffer_append(&b, "abc", 3));
	assert_false(buffer_reserve(&b, SIZE_MAX));
	assert_true(b.failed);
	buffer_reset(&b);
	assert_true(buffer_append(&b, "abc", 3));
	assert_false(buffer_reserve(&b, SIZE_MAX - 3));
	buffer_release(&b);
}

static void buffer_printf_fills_to_the_last_byte(void **state)
{
	(void)state;
	for (size_t max = 0; max < 300; max++) {
		struct buffer b;
		buffer_init(&b, max);
		while (buffer_printf(&b, "%s", "sevenby"))
			assert_true(b.len <= max);
		assert_int_equal(b.len, max / 7 * 7);
		buffer_reset(&b);
		assert_true(buffer_printf(&b, "%*s", (int)max, ""));
		assert_int_equal(b.len, max);
		assert_true(buffer_printf(&b, "%s", ""));
		assert_false(buffer_printf(&b, "1"));
		buffer_release(&b);
	}
}

static void buffer_json_fits_exactly(void **state)
{
	static const char text[] = "a\"b\\c\n\x01\xff\xc3\xa9";
	static const char expected[] = "\"a\\\"b\\\\c\\n\\u0001\xef\xbf\xbd\xc3\xa9\"";
	struct buffer b;
	(void)state;
	buffer_init(&b, sizeof expected - 1);
	assert_true(buffer_append_json(&b, (struct str){text, sizeof text - 1}));
	assert_int_equal(b.len, sizeof expected - 1);
	assert_memory_equal(b.data, expected, b.len);
	buffer_release(&b);
	buffer_init(&b, sizeof expected - 2);
	assert_false(buffer_append_json(&b, (struct str){text, sizeof text - 1}));
	assert_int_equal(b.len, 0);
	buffer_release(&b);
	buffer_init(&b, 2);
	assert_true(buffer_append_json(&b, (struct str){NULL, 0}));
	assert_memory_equal(b.data, "\"\"", 2);
	buffer_release(&b);
}

/* --- UTF-8 --- */

/* By the definition: decode, then ask whether the code point may be written so. */
static unsigned plain_sequence(const uint8_t *p, size_t n)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned len = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
	if (len == 1)
		return 1;
	if (len == 0 || n < len)
		return 0;
	uint32_t code = p[0] & (0x7fu >> len);
	for (unsigned i = 1; i < len; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	return code < least[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : len;
}

static void utf8_agrees_with_its_definition(void **state)
{
	static const uint8_t edges[] = {0, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
	uint8_t p[4];
	(void)state;
	for (unsigned first = 0; first < 0x10000; first += slowness() == 1 ? 1 : 7) {
		p[0] = (uint8_t)(first >> 8);
		p[1] = (uint8_t)first;
		for (unsigned i = 0; i < sizeof edges * sizeof edges; i++) {
			p[2] = edges[i / sizeof edges];
			p[3] = edges[i % sizeof edges];
			for (size_t n = 1; n <= 4; n++)
				if (utf8_sequence(p, n) != plain_sequence(p, n))
					fail_msg("%02x %02x %02x %02x, %zu bytes", p[0], p[1], p[2], p[3], n);
		}
	}
}

static size_t plain_escape(uint8_t *out, const uint8_t *p, size_t n)
{
	uint8_t *start = out;
	for (size_t i = 0; i < n;) {
		unsigned len = plain_sequence(p + i, n - i);
		const char *at = p[i] ? strchr("\"\"\\\\\bb\ff\nn\rr\tt", p[i]) : NULL;
		if (!len)
			out += sprintf((char *)out, "\xef\xbf\xbd");
		else if (p[i] < 0x20 && !at)
			out += sprintf((char *)out, "\\u%04x", p[i]);
		else if (p[i] < 0x20)
			out += sprintf((char *)out, "\\%c", at[1]);
		else if (p[i] == '"' || p[i] == '\\')
			out += sprintf((char *)out, "\\%c", p[i]);
		else
			out += sprintf((char *)out, "%.*s", (int)len, (const char *)p + i);
		i += len ? len : 1;
	}
	return (size_t)(out - start);
}

/* In memory of exactly its size, so that a sanitizer sees a byte too far, read or written. */
static void check_escape(const uint8_t *text, size_t n)
{
	uint8_t *in = malloc(n ? n : 1), *expected = malloc(6 * n + 1);
	if (n)
		memcpy(in, text, n);
	size_t len = plain_escape(expected, in, n);
	assert_int_equal(json_escaped_length(in, n), len);
	uint8_t *out = malloc(len ? len : 1);
	assert_int_equal(json_escape(out, in, n), len);
	assert_memory_equal(out, expected, len);
	free(in);
	free(expected);
	free(out);
}

static void escape_handles_each_byte_at_each_place(void **state)
{
	uint8_t text[48];
	(void)state;
	for (unsigned byte = 0; byte < 256; byte++)
		for (size_t at = 0; at < sizeof text; at++) {
			memset(text, 'a', sizeof text);
			text[at] = (uint8_t)byte;
			check_escape(text, sizeof text);
			check_escape(text, at + 1);
		}
	check_escape(text, 0);
}

static void escape_agrees_on_random_text(void **state)
{
	static const uint8_t letters[] =
	        "ab<\x1f\"\\\x7f\x80\xbf\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\xf4\x90\xff\t";
	uint64_t seed = seed_of(88172645463325252);
	uint8_t text[80];
	(void)state;
	for (unsigned round = 0; round < rounds(20000); round++) {
		size_t n = round % sizeof text;
		for (size_t i = 0; i < n; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			/* Every other text is mostly plain. */
			text[i] = round % 2 && seed >> 60 ? 'x' : letters[(seed >> 20) % (sizeof letters - 1)];
		}
		check_escape(text, n);
	}
}

/* --- log --- */

static char folder[] = "/tmp/test-base-XXXXXX";
static char log_path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(log_path, sizeof log_path, "%s/log", folder);
	return 0;
}

static int remove_folder(void **state)
{
	char old[80];
	(void)state;
	log_open(NULL, LOG_LEVEL_INFO, NULL);
	snprintf(old, sizeof old, "%s.old", log_path);
	unlink(log_path);
	unlink(old);
	return rmdir(folder);
}

/* Every line of the file, as JSON; the caller frees it. */
static json_t *read_log(const char *path)
{
	json_t *lines = json_array();
	json_error_t error;
	char line[4096];
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	while (fgets(line, sizeof line, in)) {
		json_t *one = json_loads(line, JSON_REJECT_DUPLICATES, &error);
		if (!one)
			fail_msg("%s: %s", error.text, line);
		json_array_append_new(lines, one);
	}
	fclose(in);
	return lines;
}

static const char *text_of(json_t *lines, size_t i, const char *key)
{
	const char *text = json_string_value(json_object_get(json_array_get(lines, i), key));
	return text ? text : "(none)";
}

static void log_writes_fields(void **state)
{
	struct error e;
	struct log_line l;
	(void)state;
	unlink(log_path);
	assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, &e), ERR_OK);
	log_begin(&l, LOG_LEVEL_WARNING, "request");
	log_str(&l, "path", str_from("/a\"b\n\xff"));
	log_int(&l, "big", INT64_MIN);
	log_seconds(&l, "seconds", 1234567890123);
	log_seconds(&l, "before", -1500000);
	log_seconds(&l, "whole", 5000000000);
	log_end(&l);
	log_event(LOG_LEVEL_DEBUG, "quiet", "not logged");
	log_event(LOG_LEVEL_INFO, "note", "%d of %s", 3, "four");
	json_t *lines = read_log(log_path);
	assert_int_equal(json_array_size(lines), 2);
	json_t *first = json_array_get(lines, 0);
	assert_string_equal(text_of(lines, 0, "level"), "warning");
	assert_string_equal(text_of(lines, 0, "event"), "request");
	assert_string_equal(text_of(lines, 0, "path"), "/a\"b\n\xef\xbf\xbd");
	assert_true(json_integer_value(json_object_get(first, "big")) == INT64_MIN);
	assert_true(json_real_value(json_object_get(first, "seconds")) == 1234.567890);
	assert_true(json_real_value(json_object_get(first, "before")) == -0.0015);
	assert_true(json_real_value(json_object_get(first, "whole")) == 5);
	assert_null(json_object_get(first, "cut"));
	int year, month, day, hour, minute, second, ms, end = 0;
	assert_int_equal(sscanf(text_of(lines, 0, "time"), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour,
	                         &minute, &second, &ms, &end),
	        7);
	assert_int_equal(end, 24);
	assert_string_equal(text_of(lines, 1, "text"), "3 of four");
	json_decref(lines);
}

/* Fills a line with fields up to and beyond its end, in steps of one byte, with characters of one to six bytes once
 * escaped. */
static void log_cuts_long_lines_to_valid_ones(void **state)
{
	static const char *const units[] = {"x", "\"", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x01", "\xff"};
	char value[4096];
	struct log_line l;
	(void)state;
	unlink(log_path);
	assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, NULL), ERR_OK);
	for (size_t i = 0; i < sizeof value; i++)
		value[i] = 'y';
	size_t written = 0;
	for (unsigned u = 0; u < sizeof units / sizeof units[0]; u++)
		for (size_t lead = 1880; lead < 2100; lead += slowness() == 1 ? 1 : 3, written++) {
			size_t n = lead, unit = strlen(units[u]);
			memset(value, 'y', lead);
			for (unsigned k = 0; k < 20; k++, n += unit)
				memcpy(value + n, units[u], unit);
			log_begin(&l, LOG_LEVEL_ERROR, "long");
			log_str(&l, "value", (struct str){value, n});
			log_int(&l, "after", 123456789);
			log_str(&l, "more", str_from("text"));
			log_end(&l);
		}
	log_event(LOG_LEVEL_INFO, "long", "%4000d", 1);
	json_t *lines = read_log(log_path);
	assert_int_equal(json_array_size(lines), written + 1);
	for (size_t i = 0; i <= written; i++) {
		json_t *line = json_array_get(lines, i);
		bool whole = json_object_get(line, "after") && strcmp(text_of(lines, i, "more"), "text") == 0;
		assert_true(whole == !json_object_get(line, "cut"));
	}
	json_decref(lines);
}

/* Also a number, which is written whole or not at all, may take the last byte of a line. */
static void log_fills_lines(void **state)
{
	char value[4096];
	struct log_line l;
	(void)state;
	assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, NULL), ERR_OK);
	memset(value, 'y', sizeof value);
	log_begin(&l, LOG_LEVEL_INFO, "long");
	log_str(&l, "value", (struct str){value, sizeof value});
	const unsigned full = l.len;
	unsigned longest = 0;
	for (size_t n = 1880; n < 2100; n++) {
		log_begin(&l, LOG_LEVEL_INFO, "long");
		log_str(&l, "value", (struct str){value, n});
		unsigned before = l.len;
		log_int(&l, "after", 123456789);
		if (l.len > before && l.len > longest)
			longest = l.len;
	}
	assert_int_equal(longest, full);
}

/* The room that a disk still has: the size that files may have. */
static void leave_room(rlim_t size)
{
	struct rlimit limit = {.rlim_max = RLIM_INFINITY};
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A disk that fills up in the middle of a line, and has room again: every line is whole, and those that are not there
 * are counted, in the log too. */
static void log_of_a_full_disk_has_whole_lines(void **state)
{
	(void)state;
	static const unsigned sizes[] = {300, 301, 350, 380, 399, 420};
	signal(SIGXFSZ, SIG_IGN);
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		unsigned long told = 0;
		unlink(log_path);
		assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, NULL), ERR_OK);
		int64_t before = metric_get(M_LOG_LINES_LOST);
		leave_room(sizes[i]);
		for (int n = 0; n < 20; n++)
			log_event(LOG_LEVEL_INFO, "filled", "%d", n);
		leave_room(sizes[i] + 40); /* less than a line */
		log_event(LOG_LEVEL_INFO, "filled", "20");
		leave_room(RLIM_INFINITY);
		for (int n = 21; n < 24; n++)
			log_event(LOG_LEVEL_INFO, "filled", "%d", n);
		json_t *lines = read_log(log_path);
		unsigned long written = 0;
		for (size_t at = 0; at < json_array_size(lines); at++) {
			bool filled = strcmp(text_of(lines, at, "event"), "filled") == 0;
			written += filled;
			if (!filled)
				told += strtoul(text_of(lines, at, "text"), NULL, 10);
		}
		assert_string_equal(text_of(lines, json_array_size(lines) - 1, "text"), "23");
		assert_int_equal(written + told, 24);
		assert_int_equal(metric_get(M_LOG_LINES_LOST) - before, told);
		assert_true(told > 0);
		json_decref(lines);
	}
	assert_int_equal(log_open(NULL, LOG_LEVEL_INFO, NULL), ERR_OK);
}

static void log_refuses_what_it_cannot_do(void **state)
{
	struct error e;
	(void)state;
	assert_int_equal(log_open("/nonexistent/folder/log", LOG_LEVEL_INFO, &e), ERR_CONFIG);
	assert_non_null(strstr(e.text, "/nonexistent/folder/log"));
	assert_int_equal(log_check("/nonexistent/folder/log", &e), ERR_CONFIG);
	assert_string_equal(e.text, "log_file: /nonexistent/folder/: No such file or directory");
	assert_int_equal(log_check("/dev/null/log", &e), ERR_CONFIG);
	assert_string_equal(e.text, "log_file: /dev/null/: Not a directory");
	assert_int_equal(log_check("/tmp", &e), ERR_CONFIG);
	assert_string_equal(e.text, "log_file: /tmp: Is a directory");
	assert_int_equal(log_check("/tmp/no-log", &e), ERR_OK);
	assert_int_equal(log_check("no-log", &e), ERR_OK);
	assert_int_equal(log_check("", &e), ERR_OK);
}

enum { WRITERS = 4, LINES = 1000 };

static void *write_lines(void *arg)
{
	atomic_uint *done = arg;
	for (int i = 0; i < LINES; i++)
		log_event(LOG_LEVEL_INFO, "thread", "line %d", i);
	atomic_fetch_add(done, 1);
	return NULL;
}

static size_t lines_of(const char *path)
{
	json_t *lines = read_log(path);
	size_t count = json_array_size(lines);
	json_decref(lines);
	return count;
}

/* As logrotate does it: the file is renamed and opened again while threads write. */
static void reopen_while(void *(*write)(void *), char old[80])
{
	pthread_t threads[WRITERS];
	atomic_uint done = 0;
	snprintf(old, 80, "%s.old", log_path);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write, &done), 0);
	assert_int_equal(rename(log_path, old), 0);
	do
		assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, NULL), ERR_OK);
	while (atomic_load(&done) < WRITERS);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
}

/* No line is lost or mixed. */
static void log_is_reopened_under_load(void **state)
{
	char old[80];
	(void)state;
	unlink(log_path);
	assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, NULL), ERR_OK);
	reopen_while(write_lines, old);
	assert_int_equal(lines_of(old) + lines_of(log_path), WRITERS * LINES);
}

static void *write_requests(void *arg)
{
	atomic_uint *done = arg;
	for (int i = 0; i < LINES; i++) {
		struct log_line l;
		log_begin(&l, LOG_LEVEL_INFO, "request");
		log_int(&l, "number", i);
		log_end_later(&l);
	}
	atomic_fetch_add(done, 1);
	return NULL;
}

static void write_one_later(void)
{
	struct log_line l;
	log_begin(&l, LOG_LEVEL_INFO, "request");
	log_end_later(&l);
}

/* As a debugger and top show it. */
static bool has_thread(const char *name)
{
	char path[300], text[32];
	bool found = false;
	DIR *tasks = opendir("/proc/self/task");
	assert_non_null(tasks);
	for (struct dirent *d; (d = readdir(tasks)) && !found;) {
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
		FILE *in = fopen(path, "r");
		found = in && fgets(text, sizeof text, in) && strncmp(text, name, strlen(name)) == 0;
		if (in)
			fclose(in);
	}
	closedir(tasks);
	return found;
}

/* They come by themselves, before any other line, and at the end; none is lost or mixed. */
static void log_lines_that_wait_for_others(void **state)
{
	char old[80];
	const char *priority;
	(void)state;
	unlink(log_path);
	assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, NULL), ERR_OK);
	write_one_later();
	assert_int_equal(lines_of(log_path), 1); /* nobody gathers them yet */
	log_gather();
	assert_true(has_thread("log\n"));
	write_one_later();
	for (int64_t started = clock_now(); lines_of(log_path) < 2;)
		assert_true(clock_now() - started < 30 * SECOND);
	write_one_later();
	log_event(LOG_LEVEL_INFO, "note", "behind it");
	assert_int_equal(lines_of(log_path), 4);
	write_one_later();
	log_flush();
	assert_int_equal(lines_of(log_path), 5);
	write_one_later();
	assert_true(log_in_crash(&priority) >= 0);
	assert_int_equal(lines_of(log_path), 6);
	reopen_while(write_requests, old);
	write_one_later();
	log_gather_end();
	assert_int_equal(lines_of(old) + lines_of(log_path), WRITERS * LINES + 7);
	write_one_later();
	assert_int_equal(lines_of(old) + lines_of(log_path), WRITERS * LINES + 8);
}

static void log_goes_back_to_standard_error(void **state)
{
	char text[4096] = "";
	int pipes[2], saved = dup(STDERR_FILENO);
	(void)state;
	unlink(log_path);
	assert_int_equal(log_open(log_path, LOG_LEVEL_INFO, NULL), ERR_OK);
	assert_int_equal(pipe(pipes), 0);
	dup2(pipes[1], STDERR_FILENO);
	assert_int_equal(log_open("", LOG_LEVEL_ERROR, NULL), ERR_OK);
	log_event(LOG_LEVEL_WARNING, "quiet", "not logged");
	log_event(LOG_LEVEL_ERROR, "loud", "to standard error");
	close(pipes[1]);
	/* The log's own descriptor holds the pipe open, too; one read gets the one line. */
	ssize_t n = read(pipes[0], text, sizeof text - 1);
	dup2(saved, STDERR_FILENO);
	log_open("", LOG_LEVEL_INFO, NULL);
	close(saved);
	close(pipes[0]);
	assert_true(n > 0);
	assert_non_null(strstr(text, "to standard error"));
	assert_null(strstr(text, "not logged"));
}

/* --- files without a name --- */

static bool all_have_names; /* as in a file system without nameless files */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
	va_list args;
	va_start(args, flags);
	mode_t mode = nameless || flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (!all_have_names || !nameless)
		return __real_open(path, flags, mode);
	errno = EOPNOTSUPP;
	return -1;
}

static void check_unnamed(void)
{
	char place[] = "/tmp/test-unnamed-XXXXXX", text[4], too_long[PATH_MAX];
	struct stat st;
	assert_non_null(mkdtemp(place));
	int fd = file_open_unnamed(place);
	assert_int_equal(rmdir(place), 0); /* it is empty */
	assert_true(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(write_all(fd, "abcd", 4));
	assert_int_equal(pread(fd, text, 4, 0), 4);
	assert_memory_equal(text, "abcd", 4);
	close(fd);
	assert_int_equal(file_open_unnamed(place), -1);
	assert_int_equal(errno, ENOENT);
	memset(too_long, 'a', sizeof too_long - 1);
	too_long[sizeof too_long - 1] = 0;
	assert_int_equal(file_open_unnamed(too_long), -1);
	assert_int_equal(errno, ENAMETOOLONG);
}

static void files_without_a_name(void **state)
{
	(void)state;
	check_unnamed();
	all_have_names = true;
	check_unnamed();
	all_have_names = false;
}

/* --- control groups --- */

/* A tree of files below root, "name=text" each; the folders are made. */
static void make_tree(const char *root, const char *const *files)
{
	char command[2000];
	for (; *files; files++) {
		const char *equals = strchr(*files, '=');
		snprintf(command, sizeof command,
		        "mkdir -p \"$(dirname '%s/%.*s')\" && printf '%%b\\n' '%s' >'%s/%.*s'", root,
		        (int)(equals - *files), *files, equals + 1, root, (int)(equals - *files), *files);
		assert_int_equal(system(command), 0);
	}
}

static void memory_is(const char *const *files, uint64_t memory)
{
	char root[] = "/tmp/test-cgroup-XXXXXX", command[100];
	assert_non_null(mkdtemp(root));
	make_tree(root, files);
	assert_int_equal(machine_memory(root), memory);
	snprintf(command, sizeof command, "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

static void limits_are(const char *const *files, uint64_t memory, uint64_t processors)
{
	char root[] = "/tmp/test-cgroup-XXXXXX", command[100];
	assert_non_null(mkdtemp(root));
	make_tree(root, files);
	assert_int_equal(cgroup_memory(root), memory);
	assert_int_equal(cgroup_processors(root), processors);
	unsigned cores = processors == UINT64_MAX ? 1000 : (unsigned)(processors / 1000 + (processors % 1000 > 0));
	assert_int_equal(cgroup_cores(root), cores ? cores : 1);
	snprintf(command, sizeof command, "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define GROUPS "sys/fs/cgroup/"

static void a_process_has_some_memory(void **state)
{
	(void)state;
	uint64_t before = resident_bytes();
	char *more = calloc(1, 64 << 20);
	assert_non_null(more);
	memset(more, 1, 64 << 20);
	assert_true(before > 0 && resident_bytes() > before + (60 << 20));
	free(more);
}

static void limits_of_control_groups(void **state)
{
	(void)state;
	limits_are(FILES("other=x"), UINT64_MAX, UINT64_MAX);
	/* less than a thousandth of a core */
	limits_are(FILES("proc/self/cgroup=0::/a", GROUPS "a/cpu.max=1000 2000000"), UINT64_MAX, 0);
	/* version 2: of a unit, and of the slice above it */
	limits_are(FILES("proc/self/cgroup=0::/system.slice/a.service", GROUPS "system.slice/a.service/memory.max=max",
	                   GROUPS "system.slice/a.service/cpu.max=150000 100000",
	                   GROUPS "system.slice/memory.max=1073741824", GROUPS "system.slice/cpu.max=max 100000"),
	        1073741824, 1500);
	limits_are(FILES("proc/self/cgroup=0::/a", GROUPS "a/memory.max=900", GROUPS "a/memory.high=800",
	                   GROUPS "memory.max=700000", GROUPS "a/cpu.max=50000 200000"),
	        800, 250);
	/* within a container: its own is the root, and the path may be the host's */
	limits_are(
	        FILES("proc/self/cgroup=0::/", GROUPS "memory.max=5000", GROUPS "cpu.max=400000 100000"), 5000, 4000);
	limits_are(FILES("proc/self/cgroup=0::/a", GROUPS "a/memory.max=0"), 0, UINT64_MAX);
	limits_are(FILES("proc/self/cgroup=0::/docker/0123", GROUPS "memory.max=5000", GROUPS "cpu.max=max 100000"),
	        5000, UINT64_MAX);
	/* version 1, beside an empty version 2 */
	limits_are(FILES("proc/self/cgroup=12:cpuset:/x\n4:memory:/a/b\n3:cpu,cpuacct:/a\n0::/",
	                   GROUPS "memory/a/b/memory.limit_in_bytes=9223372036854771712",
	                   GROUPS "memory/a/memory.limit_in_bytes=2000000",
	                   GROUPS "memory/memory.limit_in_bytes=9223372036854771712",
	                   GROUPS "cpu/a/cpu.cfs_quota_us=250000", GROUPS "cpu/a/cpu.cfs_period_us=100000",
	                   GROUPS "cpu/cpu.cfs_quota_us=-1", GROUPS "cpu/cpu.cfs_period_us=100000",
	                   GROUPS "cpuset/x/cpu.cfs_quota_us=1"),
	        2000000, 2500);
	limits_are(FILES("proc/self/cgroup=nonsense\n1:\n::\n0::/a", GROUPS "a/memory.max=", GROUPS "a/cpu.max=1"),
	        UINT64_MAX, UINT64_MAX);
}

static void memory_is_the_least_of_the_machine_and_its_groups(void **state)
{
	(void)state;
	memory_is(FILES("other=x"), 0);
	memory_is(FILES("proc/meminfo=MemTotal:         1000 kB"), 1024000);
	memory_is(FILES("proc/meminfo=MemTotal: lots"), 0);
	memory_is(FILES("proc/meminfo=MemTotal:  1000 kB", "proc/self/cgroup=0::/a", GROUPS "a/memory.max=5000"), 5000);
	memory_is(FILES("proc/meminfo=MemTotal:  1000 kB", "proc/self/cgroup=4:memory:/a",
	                  GROUPS "memory/a/memory.limit_in_bytes=7000",
	                  GROUPS "memory/memory.limit_in_bytes=9223372036854771712"),
	        7000);
	memory_is(FILES("proc/meminfo=MemTotal:  4 kB", "proc/self/cgroup=0::/a", GROUPS "a/memory.max=5000"), 4096);
}

/* --- hashes --- */

/* Names that were chosen to fall into one slot with one seed are spread with another. */
static void chosen_names_are_spread_by_another_seed(void **state)
{
	enum { SLOTS = 64, NAMES = 256 };
	unsigned count[SLOTS] = {0}, chosen = 0, most = 0;
	(void)state;
	for (unsigned i = 0; chosen < NAMES; i++) {
		char name[16];
		snprintf(name, sizeof name, "%u", i);
		if (name_hash_seeded(str_from(name), str_from("id"), 1) % SLOTS)
			continue;
		chosen++;
		unsigned slot = name_hash_seeded(str_from(name), str_from("id"), 2) % SLOTS;
		most = ++count[slot] > most ? count[slot] : most;
	}
	assert_true(most < NAMES / 8);
	assert_true(
	        name_hash_seeded(str_from("a"), str_from("b"), 1) != name_hash_seeded(str_from("b"), str_from("a"), 1));
}

/* The values that the library's plain code gives: they are in keys and values of memcached, whatever the processor has.
 */
static void xxh3_has_the_same_values_everywhere(void **state)
{
	static const struct {
		size_t len;
		uint64_t text, seeded;
	} expected[] = {
	        {0, UINT64_C(0x2d06800538d394c2), UINT64_C(0xfb9fd9becf418a1e)},
	        {1, UINT64_C(0xc44bdff4074eecdb), UINT64_C(0x9e2946db8516e91a)},
	        {16, UINT64_C(0xb1617e57ae143d6e), UINT64_C(0xa2ba8e2a2b8550f7)},
	        {17, UINT64_C(0xbcf9a4f794acc1b2), UINT64_C(0x86e0a7d554932404)},
	        {128, UINT64_C(0x8366bc05438d2f12), UINT64_C(0xb2ccc05a6b78f9ca)},
	        {129, UINT64_C(0x1f2779113b88675b), UINT64_C(0x591a9767b049a209)},
	        {240, UINT64_C(0xda6c6505865dda4d), UINT64_C(0x70b9af915b4765c7)},
	        {241, UINT64_C(0xf56317f96d46b5b0), UINT64_C(0xc28f84586bf78eec)},
	        {1024, UINT64_C(0xfe3cd84c9e97a5ad), UINT64_C(0x4052e3ce50a5e791)},
	        {1025, UINT64_C(0x881819e841095f20), UINT64_C(0xbff87b3db7e3dd8a)},
	        {100000, UINT64_C(0xde7b34649650c701), UINT64_C(0x8963c44f42cdbb70)},
	};
	static uint8_t data[100000];
	(void)state;
	for (unsigned i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * i >> 3);
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		assert_int_equal(checksum(data, 3, data, expected[i].len), expected[i].seeded);
		for (size_t piece = 1; piece <= sizeof data; piece = 3 * piece + 1) {
			struct text_hash *h = text_hash_new();
			assert_non_null(h);
			for (size_t at = 0; at < expected[i].len; at += piece)
				text_hash_add(
				        h, data + at, expected[i].len - at < piece ? expected[i].len - at : piece);
			assert_int_equal(text_hash_value(h), expected[i].text);
			text_hash_free(h);
		}
	}
}

static void table_of_numbers(void **state)
{
	(void)state;
	struct map64 m = {0};
	assert_int_equal(map64_get(&m, 1), 0);
	for (uint64_t i = 0; i < 10000; i++)
		assert_true(map64_put(&m, i * 4096, i + 1));
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(map64_get(&m, i * 4096), i + 1);
	assert_int_equal(map64_get(&m, 1), 0);
	map64_reset(&m);
	assert_int_equal(map64_get(&m, 4096), 0);
	assert_true(map64_put(&m, 4096, 7));
	assert_int_equal(map64_get(&m, 4096), 7);
	map64_release(&m);
}

/* ---- arrays, searches, strings ---- */

static void arrays_grow_and_keep_what_is_in_them(void **state)
{
	(void)state;
	uint32_t *items = NULL, cap = 0, moves = 0;
	for (uint32_t i = 0; i < 300000; i++) {
		uint32_t before = cap;
		assert_true(array_reserve(&items, &cap, i + 1, sizeof *items));
		assert_true(cap > i);
		moves += cap != before;
		items[i] = i * 7;
	}
	assert_in_range(moves, 10, 40);
	for (uint32_t i = 0; i < 300000; i++)
		assert_int_equal(items[i], i * 7);
	uint32_t *same = items, room = cap;
	assert_false(array_reserve(&items, &cap, (size_t)UINT32_MAX + 1, sizeof *items));
	assert_false(array_reserve(&items, &cap, SIZE_MAX, sizeof *items));
	assert_ptr_equal(items, same);
	assert_int_equal(cap, room);
	free(items);
}

static void searches_find_the_place(void **state)
{
	(void)state;
	struct item {
		uint32_t other;
		uint64_t at;
	} items[40];
	for (size_t n = 0; n <= 40; n++) {
		for (size_t i = 0; i < n; i++) /* 10, 10, 10, 13, 13, 13, … */
			items[i] = (struct item){UINT32_MAX, 10 + i / 3 * 3};
		for (uint64_t key = 0; key < 70; key++) {
			size_t want = 0;
			while (want < n && items[want].at <= key)
				want++;
			assert_int_equal(search_up_to(items, n, sizeof *items, offsetof(struct item, at), key), want);
		}
		assert_int_equal(search_up_to(items, n, sizeof *items, offsetof(struct item, at), UINT64_MAX), n);
	}
	assert_int_equal(search_up_to(NULL, 0, sizeof *items, offsetof(struct item, at), 1), 0);
}

static void errors_have_a_status(void **state)
{
	static const int statuses[] = {[ERR_NO_MEMORY] = 503,
	        [ERR_BAD_REQUEST] = 400,
	        [ERR_UNAUTHORIZED] = 401,
	        [ERR_FORBIDDEN] = 403,
	        [ERR_NOT_FOUND] = 404,
	        [ERR_BAD_METHOD] = 405,
	        [ERR_TOO_LARGE] = 413,
	        [ERR_INTERNAL] = 500,
	        [ERR_GONE] = 499,
	        [ERR_UNAVAILABLE] = 503,
	        [ERR_BUSY] = 503,
	        [ERR_CORRUPT] = 500};
	(void)state;
	for (unsigned i = ERR_OK + 1; i < sizeof statuses / sizeof statuses[0]; i++)
		assert_int_equal(error_http_status(i), statuses[i]);
}

static void strings_are_cut_and_trimmed(void **state)
{
	(void)state;
	struct str rest = str_from("a::b");
	static const char *const parts[] = {"a", "", "b", ""};
	for (unsigned i = 0; i < 4; i++)
		assert_true(str_equal(str_cut(&rest, ':'), str_from(parts[i])));
	assert_int_equal(rest.len, 0);
	rest = str_from("x:");
	assert_true(str_equal(str_cut(&rest, ':'), str_from("x")));
	assert_int_equal(rest.len, 0);
	assert_true(str_equal(str_first(str_from("abc"), 2), str_from("ab")));
	assert_true(str_equal(str_first(str_from("abc"), 3), str_from("abc")));
	char text[] = " \t a b\r\n", blank[] = " \n", none[] = "";
	assert_string_equal(trimmed_line(text), "a b");
	assert_string_equal(trimmed_line(blank), "");
	assert_string_equal(trimmed_line(none), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(arrays_grow_and_keep_what_is_in_them),
	        cmocka_unit_test(searches_find_the_place),
	        cmocka_unit_test(errors_have_a_status),
	        cmocka_unit_test(strings_are_cut_and_trimmed),
	        cmocka_unit_test(table_of_numbers),
	        cmocka_unit_test(files_without_a_name),
	        cmocka_unit_test(limits_of_control_groups),
	        cmocka_unit_test(a_process_has_some_memory),
	        cmocka_unit_test(memory_is_the_least_of_the_machine_and_its_groups),
	        cmocka_unit_test(arena_pieces_are_aligned_and_apart),
	        cmocka_unit_test(arena_keeps_to_its_cap),
	        cmocka_unit_test(arena_calloc_clears_used_memory),
	        cmocka_unit_test(arena_reset_keeps_one_usual_block),
	        cmocka_unit_test(a_large_arena_takes_blocks_of_the_pool),
	        cmocka_unit_test(a_pool_keeps_blocks_until_it_drops_them),
	        cmocka_unit_test(buffer_grows_to_its_cap_and_fails_for_good),
	        cmocka_unit_test(buffer_reserve_refuses_overflow),
	        cmocka_unit_test(buffer_printf_fills_to_the_last_byte),
	        cmocka_unit_test(buffer_json_fits_exactly),
	        cmocka_unit_test(utf8_agrees_with_its_definition),
	        cmocka_unit_test(escape_handles_each_byte_at_each_place),
	        cmocka_unit_test(escape_agrees_on_random_text),
	        cmocka_unit_test(log_writes_fields),
	        cmocka_unit_test(log_cuts_long_lines_to_valid_ones),
	        cmocka_unit_test(log_fills_lines),
	        cmocka_unit_test(log_of_a_full_disk_has_whole_lines),
	        cmocka_unit_test(log_refuses_what_it_cannot_do),
	        cmocka_unit_test(log_is_reopened_under_load),
	        cmocka_unit_test(log_lines_that_wait_for_others),
	        cmocka_unit_test(log_goes_back_to_standard_error),
	        cmocka_unit_test(chosen_names_are_spread_by_another_seed),
	        cmocka_unit_test(xxh3_has_the_same_values_everywhere),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
