/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/nice.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void give_way(int steps)
{
	/* On Linux this is the priority of the thread; a value below the lowest priority becomes the lowest. */
	id_t thread = (id_t)syscall(SYS_gettid);
	setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + steps);
}
