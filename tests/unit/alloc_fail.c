/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "alloc_fail.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "work.h"

enum { BLOCKS = 1 << 20, CALLS_MAX = 20000 };

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___asprintf_chk(char **out, int flag, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Blocks that are held, in a hash table; 1 in place of one that was given back. */
static uintptr_t blocks[BLOCKS];
static uint32_t used[BLOCKS]; /* the places of it that are not 0: few, mostly, and it is cleared for each attempt */
static size_t used_count;
static size_t held, bytes, peak, calls, failed;
static size_t work_before;
static size_t fail_from, fail_to; /* numbers of the calls that get nothing */
static _Thread_local bool armed;

static size_t place(const void *p)
{
	return (size_t)(((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 44) % BLOCKS;
}

static void *remember(void *p)
{
	size_t at = place(p);
	if (!p || !armed)
		return p;
	while (blocks[at] > 1)
		at = (at + 1) % BLOCKS;
	if (!blocks[at])
		used[used_count++] = (uint32_t)at;
	blocks[at] = (uintptr_t)p;
	held++;
	bytes += malloc_usable_size(p);
	peak = bytes > peak ? bytes : peak;
	return p;
}

/* Not of blocks that the libraries have allocated. */
static void forget(const void *p, size_t size)
{
	for (size_t at = place(p); armed && p && blocks[at]; at = (at + 1) % BLOCKS)
		if (blocks[at] == (uintptr_t)p) {
			blocks[at] = 1;
			held--;
			bytes -= size;
			return;
		}
}

static bool fails(void)
{
	if (!armed)
		return false;
	calls++;
	bool now = calls >= fail_from && calls <= fail_to;
	failed += now;
	return now;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : remember(__real_malloc(n));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : remember(__real_calloc(count, size));
}

void *__wrap_realloc(void *p, size_t n)
{
	if (fails())
		return NULL;
	size_t size = p ? malloc_usable_size(p) : 0;
	forget(p, size);
	work_add_bytes(size);
	return remember(__real_realloc(p, n));
}

void __wrap_free(void *p)
{
	forget(p, p ? malloc_usable_size(p) : 0);
	__real_free(p);
}

char *__wrap_strndup(const char *text, size_t n)
{
	n = strnlen(text, n);
	char *copy = __wrap_malloc(n + 1);
	if (copy) {
		memcpy(copy, text, n);
		copy[n] = 0;
	}
	return copy;
}

char *__wrap_strdup(const char *text)
{
	return __wrap_strndup(text, SIZE_MAX);
}

/* Without memory nobody may look at *out. */
__attribute__((format(printf, 2, 0))) static int print(char **out, const char *format, va_list args)
{
	va_list again;
	va_copy(again, args);
	const int len = vsnprintf(NULL, 0, format, again);
	va_end(again);
	char *text = __wrap_malloc((size_t)len + 1);
	*out = text ? text : (char *)(uintptr_t)1;
	return text ? vsnprintf(text, (size_t)len + 1, format, args) : -1;
}

int __wrap_asprintf(char **out, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	const int len = print(out, format, args);
	va_end(args);
	return len;
}

int __wrap___asprintf_chk(char **out, int flag, const char *format, ...)
{
	va_list args;
	(void)flag;
	va_start(args, format);
	const int len = print(out, format, args);
	va_end(args);
	return len;
}

void alloc_pause(void)
{
	armed = false;
}

void alloc_go_on(void)
{
	armed = true;
}

static void start(size_t from, size_t to)
{
	while (used_count)
		blocks[used[--used_count]] = 0;
	held = bytes = peak = calls = failed = 0;
	fail_from = from;
	fail_to = to;
	work_before = work_done();
	armed = true;
}

void alloc_watch(void)
{
	start(SIZE_MAX, SIZE_MAX);
}

struct alloc_use alloc_watched(void)
{
	armed = false;
	return (struct alloc_use){calls, peak, work_done() - work_before};
}

size_t alloc_held(void)
{
	return bytes;
}

static bool run(bool (*attempt)(void *arg), void *arg, size_t from, size_t to)
{
	start(from, to);
	bool good = attempt(arg);
	armed = false;
	if (held)
		fail_msg("%zu blocks are not given back when allocation %zu fails", held, from);
	return good;
}

struct alloc_use count_allocations(bool (*attempt)(void *arg), void *arg)
{
	assert_true(run(attempt, arg, SIZE_MAX, SIZE_MAX));
	return (struct alloc_use){calls, peak, work_done() - work_before};
}

size_t fail_each_allocation(bool (*attempt)(void *arg), void *arg)
{
	size_t count = count_allocations(attempt, arg).calls, refused = 0;
	assert_in_range(count, 1, CALLS_MAX);
	for (size_t i = 1; i <= count; i++) {
		refused += !run(attempt, arg, i, i);
		assert_int_equal(failed, 1);
		refused += !run(attempt, arg, i, SIZE_MAX);
		assert_true(failed > 0);
	}
	assert_true(refused > 0);
	assert_true(run(attempt, arg, SIZE_MAX, SIZE_MAX));
	return count;
}
