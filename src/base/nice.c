#include <config.h>

#include "base/nice.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void give_way(int nice)
{
	/* Linux counts this for a thread. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice);
}
