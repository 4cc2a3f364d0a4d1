/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/resident.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

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

/* malloc would raise its bound of what is large to 32 MB when something large is freed, and so keep the arrays of an
 * index for ever. */
void resident_return_large(void)
{
	mallopt(M_MMAP_THRESHOLD, 4 << 20);
	mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

void resident_trim(void)
{
	malloc_trim(0);
}
