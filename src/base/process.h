/* SPDX-License-Identifier: Apache-2.0 */
/* What the system gives this process: cores, memory and randomness. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

/* The cores that the calling thread may run on, limited by the processor time that the control groups allow; 1 when the
 * system does not say. */
unsigned cores_count(void);

enum { CACHE_LINE = 64 }; /* bytes */

/* Resident memory in bytes, from /proc/self/statm (proc(5)); 0 if that cannot be read. Takes a few microseconds. */
uint64_t resident_bytes(void);
/* For the start, before other threads: what is large goes back to the system as soon as it is freed, and threads have
 * arenas of malloc of their own. */
void malloc_begin(void);

/* A random number that nobody can guess: for tokens, markers and seeds. Never 0. */
uint64_t random_u64(void);

#endif
