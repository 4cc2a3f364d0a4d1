/* SPDX-License-Identifier: Apache-2.0 */
/* What the process may use: of the machine, and according to its control groups (version 1 or 2), its own and those
 * above it. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

/* Bytes of memory; UINT64_MAX: no limit. root stands before /proc and /sys; it is "" except in tests. */
uint64_t cgroup_memory(const char *root);
/* The same, and no more than the machine has; 0: nothing is known. */
uint64_t machine_memory(const char *root);
/* Thousandths of a processor core; UINT64_MAX: no limit. */
uint64_t cgroup_processors(const char *root);
/* Whole cores, rounded up: from 1 to 1,000. */
unsigned cgroup_cores(const char *root);

#endif
