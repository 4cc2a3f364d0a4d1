/* SPDX-License-Identifier: Apache-2.0 */
/* Threads with a large stack: demanglers recurse once for some bytes of a name (DEMANGLE_INPUT_MAX). */
#ifndef EXTRACT_LARGE_STACK_H
#define EXTRACT_LARGE_STACK_H

#include <pthread.h>
#include <stdbool.h>

enum { LARGE_STACK = 64 << 20 }; /* bytes */

/* As pthread_create(3). False: this host has no thread or no memory for it. */
static inline bool large_stack_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) != 0)
		return false;
	bool ok = pthread_attr_setstacksize(&attr, LARGE_STACK) == 0 && pthread_create(thread, &attr, run, arg) == 0;
	pthread_attr_destroy(&attr);
	return ok;
}

#endif
