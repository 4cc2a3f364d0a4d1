/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fiber: work with a stack of its own, which may pause anywhere and go on later, on whichever thread calls for it.
 *
 * What pauses holds no lock, and nothing that belongs to its thread: not errno, nor a variable that is _Thread_local.
 * The compiler may remember where errno was, so a function that pauses leaves errno to functions that do not.
 */
#ifndef FRONT_FIBER_H
#define FRONT_FIBER_H

#include <stdbool.h>

struct fiber;

/* NULL if out of memory. It can be used for one piece of work after another. */
struct fiber *fiber_new(void);
/* It must not be paused. NULL is fine. */
void fiber_free(struct fiber *f);

/* Runs fn(arg) on the fiber. True: it has returned; false: it has paused. */
bool fiber_run(struct fiber *f, void (*fn)(void *arg), void *arg);
/* Goes on behind the pause; the same. */
bool fiber_resume(struct fiber *f);
/* Called on the fiber: returns from fiber_run or fiber_resume, until somebody resumes it. */
void fiber_pause(struct fiber *f);

#endif
