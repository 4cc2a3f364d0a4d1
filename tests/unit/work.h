/* SPDX-License-Identifier: Apache-2.0 */
/* Work: how many edges between the basic blocks of libcounted.a the calling thread has gone along, and one more for
 * each 64 bytes that the C library was given to copy, set or search. For programs with that library whose linker sends
 * memcpy, memmove, memset and memchr here (--wrap). */
#ifndef TESTS_WORK_H
#define TESTS_WORK_H

#include <stdbool.h>
#include <stddef.h>

/* Since the thread began. */
size_t work_done(void);
void work_add_bytes(size_t n);
/* The work at twice the size is at most 2.2 times that at one. True in builds with a sanitizer: it is not counted. */
bool work_is_linear(size_t one, size_t two);

#endif
