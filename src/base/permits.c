/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/permits.h"

#include <stddef.h>

/* Whose permit the thread has. */
static _Thread_local sem_t *mine;

void permit_take(sem_t *permits)
{
	if (mine)
		return;
	while (sem_wait(permits) != 0) /* a signal came */
		;
	mine = permits;
}

void permit_give(void)
{
	sem_t *permits = mine;
	mine = NULL;
	if (permits)
		sem_post(permits);
}

bool permit_held(void)
{
	return mine != NULL;
}

void permits_end(sem_t *permits, unsigned threads)
{
	while (threads-- > 0)
		sem_post(permits);
}
