/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cgroup.h"

/* ---- cores ---- */

static unsigned allowed; /* by the control groups */

static void count_cores(void)
{
	allowed = cgroup_cores("");
}

unsigned cores_count(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	cpu_set_t cores;
	pthread_once(&once, count_cores);
	unsigned count = sched_getaffinity(0, sizeof cores, &cores) < 0 ? 1 : (unsigned)CPU_COUNT(&cores);
	return count < allowed ? count : allowed;
}

/* ---- memory ---- */

/* Opened once, so that it works even when the process is out of descriptors. */
static int statm = -1;

static void open_statm(void)
{
	statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

uint64_t resident_bytes(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char text[128], *resident;
	pthread_once(&once, open_statm);
	ssize_t n = pread(statm, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* the first is the size of the address space */
	strtoull(text, &resident, 10);
	return strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum { ARENAS_MIN = 64 };

/* Each of malloc's arenas keeps what is free up to its bounds, and nobody is charged for that. By itself it would also
 * raise the bound of what is large to 32 MB when something large is freed, and so keep the arrays of an index for ever.
 * It also makes eight arenas a core and no more, so on few cores threads share them, and a worker waits for a lock
 * whose owner is in the background and has lost its core. */
void malloc_begin(void)
{
	int arenas = 8 * (int)cores_count();
	mallopt(M_ARENA_MAX, arenas > ARENAS_MIN ? arenas : ARENAS_MIN);
	mallopt(M_MMAP_THRESHOLD, 512 << 10);
	mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

/* ---- randomness ---- */

uint64_t random_u64(void)
{
	uint64_t number = 0;
	while (!number)
		if (getrandom(&number, sizeof number, 0) != sizeof number)
			number = (uint64_t)random() << 32 ^ (uint64_t)random();
	return number;
}
