/* SPDX-License-Identifier: Apache-2.0 */
/* What the process's control groups allow it, of version 2 or 1, its own and those above it. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

/* Bytes of memory; UINT64_MAX: no limit. root is before /proc and /sys: "" but in tests. */
uint64_t cgroup_memory(const char *root);
/* Thousandths of a processor; UINT64_MAX: no limit. */
uint64_t cgroup_processors(const char *root);

#endif
