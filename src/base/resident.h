/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the process uses. */
#ifndef BASE_RESIDENT_H
#define BASE_RESIDENT_H

#include <stdint.h>

/* Resident memory in bytes, from /proc/self/statm (proc(5)); 0 if that cannot be read. Takes a few microseconds. */
uint64_t resident_bytes(void);
/* Returns freed memory that malloc still holds to the system. Takes milliseconds per GB. */
void resident_trim(void);

#endif
