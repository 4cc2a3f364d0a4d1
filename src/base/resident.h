/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the process takes. */
#ifndef BASE_RESIDENT_H
#define BASE_RESIDENT_H

#include <stdint.h>

/* Resident memory in bytes, from /proc/self/statm (proc(5)); 0 when that cannot be read. Takes some microseconds. */
uint64_t resident_bytes(void);
/* Gives to the system what malloc keeps of memory that was freed. Takes milliseconds a GB. */
void resident_trim(void);

#endif
