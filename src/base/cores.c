#include <config.h>

#include "base/cores.h"

#include <sched.h>

unsigned cores_count(void)
{
	cpu_set_t cores;
	return sched_getaffinity(0, sizeof cores, &cores) < 0 ? 1 : (unsigned)CPU_COUNT(&cores);
}
