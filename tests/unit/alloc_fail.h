/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that fail one after the other, and blocks that were not given back. For programs whose linker sends
 * malloc, calloc, realloc and free here (--wrap), and as it likes strdup, strndup and asprintf. */
#ifndef TESTS_ALLOC_FAIL_H
#define TESTS_ALLOC_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* Runs `attempt` with the first allocation failing, then with the second, and so on until none fails; and all once
 * more, where those behind the one that fails do so, too. Only the calling thread's allocations count. attempt returns
 * whether it had what it wanted, and checks that itself; it must have given back what it allocated, and succeed when
 * nothing fails. Returns the number of allocations. */
size_t fail_each_allocation(bool (*attempt)(void *arg), void *arg);
/* Allocations of one successful attempt, the bytes that it held at most, and its work (work.h). */
struct alloc_use {
	size_t calls, peak, work;
};
struct alloc_use count_allocations(bool (*attempt)(void *arg), void *arg);
/* The same of what is done between these two, which may keep blocks. */
void alloc_watch(void);
struct alloc_use alloc_watched(void);
/* The bytes that are held now, of what was allocated since alloc_watch. */
size_t alloc_held(void);
/* Between these two nothing fails and nothing is counted: for what an attempt does to check its result. */
void alloc_pause(void);
void alloc_go_on(void);

#endif
