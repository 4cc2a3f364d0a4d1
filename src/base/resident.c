#include <config.h>

#include "base/resident.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t resident_bytes(void)
{
	char text[128], *resident;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* the first is the size of the address space */
	strtoull(text, &resident, 10);
	return strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void resident_trim(void)
{
	malloc_trim(0);
}
