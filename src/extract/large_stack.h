/* SPDX-License-Identifier: Apache-2.0 */
/* Threads with a large stack: demanglers recurse once for some bytes of a name (DEMANGLE_INPUT_MAX). */
#ifndef EXTRACT_LARGE_STACK_H
#define EXTRACT_LARGE_STACK_H

#include <pthread.h>
#include <stdbool.h>

enum { LARGE_STACK = 64 << 20 }; /* bytes */

/* As pthread_create(3). False: this host has no thread or no memory for it. */
bool large_stack_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
