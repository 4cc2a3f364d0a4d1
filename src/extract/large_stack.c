/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/large_stack.h"

bool large_stack_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) != 0)
		return false;
	bool ok = pthread_attr_setstacksize(&attr, LARGE_STACK) == 0 && pthread_create(thread, &attr, run, arg) == 0;
	pthread_attr_destroy(&attr);
	return ok;
}
