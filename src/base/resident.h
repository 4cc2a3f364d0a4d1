/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the process uses. */
#ifndef BASE_RESIDENT_H
#define BASE_RESIDENT_H

#include <stdint.h>

/* Resident memory in bytes, from /proc/self/statm (proc(5)); 0 if that cannot be read. Takes a few microseconds. */
uint64_t resident_bytes(void);
/* For the start: what is large goes back to the system as soon as it is freed. */
void resident_return_large(void);
/* Returns freed memory that malloc still holds to the system. Takes milliseconds per GB. */
void resident_trim(void);

#endif
