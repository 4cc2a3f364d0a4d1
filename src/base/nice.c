#include <config.h>

#include "base/nice.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICE = 5 };

void give_way(void)
{
	/* Linux counts this for a thread. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
}
