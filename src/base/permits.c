/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/permits.h"

#include <stddef.h>

/* Whose permit the thread has. */
static _Thread_local struct permits *mine;

void permits_init(struct permits *p, unsigned count)
{
	sem_init(&p->left, 0, count);
}

void permits_destroy(struct permits *p)
{
	sem_destroy(&p->left);
}

void permit_take(struct permits *p)
{
	if (mine)
		return;
	while (sem_wait(&p->left) != 0) /* a signal came */
		;
	mine = p;
}

void permit_give(void)
{
	struct permits *p = mine;
	mine = NULL;
	if (p)
		sem_post(&p->left);
}

bool permit_held(void)
{
	return mine != NULL;
}

void permits_end(struct permits *p, unsigned threads)
{
	while (threads-- > 0)
		sem_post(&p->left);
}
