/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory request_read takes, and what it does without. Its lists are what it gets by realloc, which the linker
 * sends here. */
#include <config.h>

#include "json/request.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "base/account.h"

enum { LISTS_MAX = 64 };

static bool counting;         /* a request is being read */
static size_t calls, fail_at; /* fail_at: the number of the call that gets nothing; 0: none */
static size_t held, peak;     /* bytes in lists */
static void *lists[LISTS_MAX];

/* Returns whether p is a list, which it forgets. */
static bool forget(void *p)
{
	for (unsigned i = 0; p && i < LISTS_MAX; i++)
		if (lists[i] == p) {
			lists[i] = NULL;
			held -= malloc_usable_size(p);
			return true;
		}
	return false;
}

static void note(void *p)
{
	unsigned i = 0;
	while (i < LISTS_MAX && lists[i])
		i++;
	assert_in_range(i, 0, LISTS_MAX - 1);
	lists[i] = p;
	held += malloc_usable_size(p);
	if (held > peak)
		peak = held;
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
	if (!counting)
		return __real_realloc(p, n);
	if (++calls == fail_at)
		return NULL;
	forget(p);
	p = __real_realloc(p, n);
	assert_non_null(p);
	note(p);
	return p;
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	forget(p);
	__real_free(p);
}

static const struct request_limits limits = {1000, 1000000, 10000, 4000000};

static enum err read_counted(struct request *r, struct str body, struct arena *arena, struct error *e)
{
	counting = true;
	enum err err = request_read(r, body, REQUEST_V5, &limits, NULL, arena, e);
	counting = false;
	return err;
}

struct body {
	char *data;
	size_t len, cap;
};

static void add(struct body *b, const char *text, size_t times)
{
	size_t n = strlen(text);
	if (b->cap - b->len < n * times) {
		b->cap = 2 * b->cap + n * times;
		b->data = realloc(b->data, b->cap);
		assert_non_null(b->data);
	}
	for (; times > 0; times--, b->len += n)
		memcpy(b->data + b->len, text, n);
}

/* Reads the body and drops it. The arena may have taken `arena_share` times its length, the lists `list_share` times.
 */
static enum err read_measured(struct body *b, size_t arena_share, size_t list_share)
{
	struct arena arena;
	struct request r;
	struct error e;
	arena_init(&arena, SIZE_MAX);
	peak = held;
	enum err err = read_counted(&r, (struct str){b->data, b->len}, &arena, &e);
	if (peak > list_share * b->len || arena.used > arena_share * b->len)
		fail_msg("%zu bytes: lists %zu, arena %zu", b->len, peak, arena.used);
	assert_int_equal(held, 0);
	arena_release(&arena);
	free(b->data);
	*b = (struct body){0};
	return err;
}

static void test_frames(void **state)
{
	struct body b = {0};
	(void)state;
	add(&b, "{\"memoryMap\":[],\"stacks\":[[[-1,0]", 1);
	add(&b, ",[-1,0]", 999999);
	add(&b, "]]}", 1);
	assert_int_equal(read_measured(&b, 3, 5), ERR_OK);
	add(&b, "{\"memoryMap\":[],\"stacks\":[[[-1,\"\"]", 1);
	add(&b, ",[-1,\"\"]", 999999);
	add(&b, "]]}", 1);
	assert_int_equal(read_measured(&b, 5, 10), ERR_OK);
}

static void test_empty_stacks(void **state)
{
	struct body b = {0};
	(void)state;
	add(&b, "{\"memoryMap\":[],\"stacks\":[[]", 1);
	add(&b, ",[]", 3000000);
	add(&b, "]}", 1);
	assert_int_equal(read_measured(&b, 6, 3), ERR_OK);
}

static void test_many_jobs_and_modules(void **state)
{
	struct body b = {0};
	(void)state;
	add(&b, "{\"jobs\":[{\"stacks\":[],\"memoryMap\":[]}", 1);
	add(&b, ",{\"stacks\":[],\"memoryMap\":[]}", 999);
	add(&b, "]}", 1);
	assert_int_equal(read_measured(&b, 2, 2), ERR_OK);
	add(&b, "{\"stacks\":[],\"memoryMap\":[[\"\\n\",\"\"]", 1);
	add(&b, ",[\"\\n\",\"\"]", 9999);
	add(&b, "]}", 1);
	/* a module is ten bytes here and five texts of 16 bytes in memory: as sent, as read, and a build id */
	assert_int_equal(read_measured(&b, 9, 6), ERR_OK);
}

/* Whether it can be read while the account has so much left. *used: what the arena then has. */
static bool fits(const struct body *b, uint64_t room, uint64_t *used)
{
	struct arena arena;
	struct request r;
	struct error e;
	account_start(UINT64_C(1) << 32);
	const int64_t others = (int64_t)(account_left() - room);
	account_add(ACCOUNT_PAGES, others);
	arena_init(&arena, SIZE_MAX);
	arena_charge(&arena, ACCOUNT_BODIES, 0);
	enum err err = read_counted(&r, (struct str){b->data, b->len}, &arena, &e);
	*used = arena.used;
	arena_release(&arena);
	assert_int_equal(account_used_for(ACCOUNT_BODIES), 0);
	account_add(ACCOUNT_PAGES, -others);
	account_start(0);
	return !err;
}

/* Large lists are charged beside the arena, into which they are copied. */
static void test_large_lists_are_charged(void **state)
{
	struct body b = {0};
	uint64_t least = 0, most = 256 << 20, used;
	(void)state;
	add(&b, "{\"memoryMap\":[],\"stacks\":[[]", 1);
	add(&b, ",[]", 1000000);
	add(&b, "]}", 1);
	while (most - least > 4096) {
		uint64_t room = (least + most) / 2;
		*(fits(&b, room, &used) ? &most : &least) = room;
	}
	peak = held;
	assert_true(fits(&b, most, &used));
	assert_in_range(most, peak - (64 << 10), peak + used + (1 << 20));
	free(b.data);
}

/* Refused in the end, after a long way. */
static void test_late_refusals(void **state)
{
	struct body b = {0};
	(void)state;
	add(&b, "{\"memoryMap\":[],\"stacks\":[", 1);
	add(&b, "[],", 3000000);
	add(&b, "5]}", 1);
	assert_int_equal(read_measured(&b, 0, 3), ERR_BAD_REQUEST);
	add(&b, "{\"jobs\":[{\"memoryMap\":[],\"stacks\":[", 1);
	add(&b, "[],", 1000000);
	add(&b, "[[0,1]]]}]}", 1);
	assert_int_equal(read_measured(&b, 0, 3), ERR_BAD_REQUEST);
	add(&b, "{\"memoryMap\":[],\"stacks\":[[[-1,0]", 1);
	add(&b, ",[-1,0]", 1000000);
	add(&b, "]]}", 1);
	assert_int_equal(read_measured(&b, 0, 5), ERR_BAD_REQUEST);
	add(&b, "[", 5000000);
	assert_int_equal(read_measured(&b, 0, 0), ERR_BAD_REQUEST);
}

/* Fills every list beyond its first room. */
static struct body full_body(void)
{
	struct body b = {0};
	add(&b, "{\"jobs\":[", 1);
	for (unsigned i = 0; i < 40; i++) {
		add(&b, i ? ",{\"memoryMap\":[" : "{\"memoryMap\":[", 1);
		add(&b, "[\"\\u00e9\",\"\\t\"],", 40);
		add(&b, "[\"a\",\"b\"]],\"stacks\":[", 1);
		add(&b, "[[0,1],[1,\"x\"]],", 40);
		add(&b, "[]]}", 1);
	}
	add(&b, "]}", 1);
	return b;
}

static enum err read_once(const struct body *b, size_t arena_max, size_t *used)
{
	struct arena arena;
	struct request r;
	struct error e;
	arena_init(&arena, arena_max);
	enum err err = read_counted(&r, (struct str){b->data, b->len}, &arena, &e);
	assert_int_equal(held, 0);
	if (err) {
		assert_int_equal(e.code, err);
		assert_true(e.text[0] && r.jobs == NULL && r.job_count == 0 && r.frame_count == 0);
	}
	*used = arena.used;
	arena_release(&arena);
	return err;
}

static void test_every_list_allocation_fails(void **state)
{
	struct body b = full_body();
	size_t used, count;
	(void)state;
	calls = fail_at = 0;
	assert_int_equal(read_once(&b, SIZE_MAX, &used), ERR_OK);
	count = calls;
	assert_in_range(count, 10, 1000);
	for (size_t i = 1; i <= count; i++) {
		calls = 0;
		fail_at = i;
		assert_int_equal(read_once(&b, SIZE_MAX, &used), ERR_NO_MEMORY);
		assert_int_equal(calls, i);
	}
	fail_at = 0;
	free(b.data);
}

static void test_every_arena_is_too_small(void **state)
{
	struct body b = full_body();
	size_t needed, used;
	(void)state;
	assert_int_equal(read_once(&b, SIZE_MAX, &needed), ERR_OK);
	for (size_t max = 0; max < needed; max += 97)
		assert_int_equal(read_once(&b, max, &used), ERR_NO_MEMORY);
	assert_int_equal(read_once(&b, needed - 1, &used), ERR_NO_MEMORY);
	assert_int_equal(read_once(&b, needed, &used), ERR_OK);
	free(b.data);
}

static void assert_text(struct str s, const char *text)
{
	assert_true(str_equal(s, str_from(text)));
}

/* What a request says stays when its body is overwritten; the body is kept if much of it would have to be copied. */
static void test_a_request_without_its_body(void **state)
{
	static const char text[] = "{\"memoryMap\":[[\"a.so\",\"AB\"],[\"q\\\"uo\",\"CD\"],[\"\",\"\"]],"
	                           "\"stacks\":[[[0,1.25],[1,16],[-1,\"0x10001\"]]]}";
	char body[sizeof text];
	struct arena arena;
	struct request r;
	struct error e;
	(void)state;
	memcpy(body, text, sizeof text);
	arena_init(&arena, SIZE_MAX);
	const struct str all = {body, sizeof text - 1};
	assert_int_equal(request_read(&r, all, REQUEST_V5, &limits, NULL, &arena, &e), ERR_OK);
	const uint64_t before = arena.used;
	size_t most = 0;
	while (most < sizeof text && !request_leave_body(&r, all, most, &arena))
		most++;
	assert_int_equal(arena.used - before, most); /* the least that is enough is what is copied */
	char *later = arena_alloc(&arena, 1000);     /* nor do the texts lie there */
	assert_non_null(later);
	memset(later, '!', 1000);
	memset(body, '!', sizeof body);
	const struct request_module *m = r.jobs[0].modules;
	assert_text(m[0].name, "a.so");
	assert_text(m[0].name_raw, "a.so");
	assert_text(m[0].id, "AB");
	assert_text(m[0].id_raw, "AB");
	assert_text(m[1].name_raw, "q\\\"uo");
	assert_text(m[1].name, "q\"uo");
	assert_text(m[1].id, "CD");
	assert_int_equal(m[2].name.len + m[2].id.len, 0);
	assert_int_equal(r.jobs[0].text_count, 2);
	assert_text(r.jobs[0].texts[0], "1.25");
	assert_text(r.jobs[0].texts[1], "0x10001");
	arena_release(&arena);
}

/* One of a byte less than 4 GiB is looked at; it is no JSON. */
static void test_the_longest_body(void **state)
{
	const size_t size = (size_t)UINT32_MAX + 1;
	const char *zeros = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct arena arena;
	struct request r;
	(void)state;
	assert_true(zeros != MAP_FAILED);
	arena_init(&arena, SIZE_MAX);
	for (size_t len = size - 1; len <= size; len++) {
		struct error e = {0};
		assert_int_equal(request_read(&r, (struct str){zeros, len}, REQUEST_V5, &limits, NULL, &arena, &e),
		        ERR_BAD_REQUEST);
		assert_int_equal(strstr(e.text, "4 GiB") != NULL, len == size);
	}
	arena_release(&arena);
	munmap((void *)(uintptr_t)zeros, size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_frames),
	        cmocka_unit_test(test_empty_stacks),
	        cmocka_unit_test(test_many_jobs_and_modules),
	        cmocka_unit_test(test_large_lists_are_charged),
	        cmocka_unit_test(test_late_refusals),
	        cmocka_unit_test(test_every_list_allocation_fails),
	        cmocka_unit_test(test_every_arena_is_too_small),
	        cmocka_unit_test(test_the_longest_body),
	        cmocka_unit_test(test_a_request_without_its_body),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
