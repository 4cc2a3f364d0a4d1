/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "front/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sanitizers.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_create_fiber(flags) NULL
#define __tsan_destroy_fiber(fiber) ((void)(fiber))
#define __tsan_get_current_fiber() NULL
#define __tsan_switch_to_fiber(fiber, flags) ((void)(fiber))
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(fake, stack, size) ((void)(fake), (void)(stack), (void)(size))
#define __sanitizer_finish_switch_fiber(fake, stack, size) ((void)(fake), (void)(stack), (void)(size))
#endif

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(low, high) 0u
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif

/* Of address space; memory is what is touched of it. As much as the libraries that handlers call may want. */
enum { STACK = 1 << 20 };

/* One of the two that take turns; besides its context, what the sanitizers want to know. */
struct side {
	ucontext_t context;
	const void *stack;
	size_t size;
	void *fake, *track;
};

struct fiber {
	struct side own, caller;
	void (*fn)(void *arg);
	void *arg;
	bool ended;
	uint8_t *stack;    /* its lowest page is a guard */
	unsigned valgrind; /* what valgrind calls it */
};

static void arrive(struct side *here, struct side *from)
{
	__sanitizer_finish_switch_fiber(here->fake, &from->stack, &from->size);
}

/* Returns when the other side goes back. */
static void cross(struct side *here, struct side *to)
{
	__sanitizer_start_switch_fiber(&here->fake, to->stack, to->size);
	here->track = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(to->track, 0);
	swapcontext(&here->context, &to->context);
	arrive(here, to);
}

void fiber_pause(struct fiber *f)
{
	cross(&f->own, &f->caller);
}

/* The pointer comes in halves, since the arguments of a context are ints. */
static void work(unsigned high, unsigned low)
{
	struct fiber *f = (struct fiber *)((uintptr_t)high << 16 << 16 | low);
	arrive(&f->own, &f->caller);
	for (;;) {
		f->fn(f->arg);
		f->ended = true;
		fiber_pause(f);
	}
}

bool fiber_resume(struct fiber *f)
{
	cross(&f->caller, &f->own);
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
	ucontext_t *own = &f->own.context;
	void *stack = mmap(
	        NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	f->stack = stack == MAP_FAILED ? NULL : stack;
	if (!f->stack || mprotect(f->stack, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE) || getcontext(own))
		return false;
	f->valgrind = VALGRIND_STACK_REGISTER(f->stack, f->stack + STACK);
	f->own.stack = own->uc_stack.ss_sp = f->stack;
	f->own.size = own->uc_stack.ss_size = STACK;
	own->uc_link = NULL; /* work never returns */
	makecontext(own, (void (*)(void))work, 2, (unsigned)((uintptr_t)f >> 16 >> 16), (unsigned)(uintptr_t)f);
	f->own.track = __tsan_create_fiber(0);
	return true;
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
	if (f->own.track)
		__tsan_destroy_fiber(f->own.track);
	if (f->stack) {
		VALGRIND_STACK_DEREGISTER(f->valgrind);
		munmap(f->stack, STACK);
	}
	free(f);
}
