/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif

#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(low, high) 0u
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif

/* Of address space; memory is what is touched of it. As much as the libraries that handlers call may want. */
enum { STACK = 1 << 20 };

struct fiber {
	ucontext_t own, caller;
	void (*fn)(void *arg);
	void *arg;
	bool ended;
	uint8_t *stack;    /* its lowest page is a guard */
	unsigned valgrind; /* what valgrind calls it */
	/* What the sanitizers are told of a switch. */
	void *fake_own, *fake_caller, *track_own, *track_caller;
	const void *caller_stack;
	size_t caller_size;
};

/* ---- the sanitizers: each has two halves, before and behind a switch ---- */

static void leaving_caller(struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(&f->fake_caller, f->stack, STACK);
#endif
#ifdef FIBER_TSAN
	f->track_caller = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(f->track_own, 0);
#endif
	(void)f;
}

static void back_in_caller(struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(f->fake_caller, NULL, NULL);
#endif
	(void)f;
}

static void leaving_fiber(struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(&f->fake_own, f->caller_stack, f->caller_size);
#endif
#ifdef FIBER_TSAN
	__tsan_switch_to_fiber(f->track_caller, 0);
#endif
	(void)f;
}

static void back_in_fiber(struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(f->fake_own, &f->caller_stack, &f->caller_size);
#endif
	(void)f;
}

static bool track(struct fiber *f)
{
#ifdef FIBER_TSAN
	f->track_own = __tsan_create_fiber(0);
	return f->track_own != NULL;
#else
	(void)f;
	return true;
#endif
}

static void untrack(struct fiber *f)
{
#ifdef FIBER_TSAN
	if (f->track_own)
		__tsan_destroy_fiber(f->track_own);
#endif
	(void)f;
}

/* ---- switching ---- */

void fiber_pause(struct fiber *f)
{
	leaving_fiber(f);
	swapcontext(&f->own, &f->caller);
	back_in_fiber(f);
}

/* The pointer comes in halves, since the arguments of a context are ints. */
static void work(unsigned high, unsigned low)
{
	struct fiber *f = (struct fiber *)((uintptr_t)high << 16 << 16 | low);
	back_in_fiber(f);
	for (;;) {
		f->fn(f->arg);
		f->ended = true;
		fiber_pause(f);
	}
}

bool fiber_resume(struct fiber *f)
{
	leaving_caller(f);
	swapcontext(&f->caller, &f->own);
	back_in_caller(f);
	return f->ended;
}

bool fiber_run(struct fiber *f, void (*fn)(void *arg), void *arg)
{
	f->fn = fn;
	f->arg = arg;
	f->ended = false;
	return fiber_resume(f);
}

static bool prepare(struct fiber *f)
{
	void *stack = mmap(
	        NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	f->stack = stack == MAP_FAILED ? NULL : stack;
	if (!f->stack || mprotect(f->stack, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE) || getcontext(&f->own))
		return false;
	f->valgrind = VALGRIND_STACK_REGISTER(f->stack, f->stack + STACK);
	f->own.uc_stack.ss_sp = f->stack;
	f->own.uc_stack.ss_size = STACK;
	f->own.uc_link = NULL; /* work never returns */
	makecontext(&f->own, (void (*)(void))work, 2, (unsigned)((uintptr_t)f >> 16 >> 16), (unsigned)(uintptr_t)f);
	return track(f);
}

struct fiber *fiber_new(void)
{
	struct fiber *f = calloc(1, sizeof *f);
	if (!f || prepare(f))
		return f;
	fiber_free(f);
	return NULL;
}

void fiber_free(struct fiber *f)
{
	if (!f)
		return;
	untrack(f);
	if (f->stack) {
		VALGRIND_STACK_DEREGISTER(f->valgrind);
		munmap(f->stack, STACK);
	}
	free(f);
}
