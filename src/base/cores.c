/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/cores.h"

#include <pthread.h>
#include <sched.h>

#include "base/cgroup.h"

static unsigned allowed; /* by the control groups, rounded up */

static void count_cores(void)
{
	uint64_t limit = cgroup_processors("");
	allowed = limit < 1000000 ? (unsigned)((limit + 999) / 1000) : 1000;
	allowed += !allowed;
}

unsigned cores_count(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	cpu_set_t cores;
	pthread_once(&once, count_cores);
	unsigned count = sched_getaffinity(0, sizeof cores, &cores) < 0 ? 1 : (unsigned)CPU_COUNT(&cores);
	return count < allowed ? count : allowed;
}
