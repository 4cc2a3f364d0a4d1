/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/permits.h"

#include <stddef.h>

/* Whose permit the thread has. */
static _Thread_local struct permits *mine;

void permits_init(struct permits *p, unsigned count)
{
	p->left = count;
	p->ended = false;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
}

void permits_destroy(struct permits *p)
{
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
}

bool permit_take(struct permits *p)
{
	if (mine)
		return true;
	pthread_mutex_lock(&p->lock);
	while (!p->left && !p->ended)
		pthread_cond_wait(&p->changed, &p->lock);
	if (p->left) {
		p->left--;
		mine = p;
	}
	pthread_mutex_unlock(&p->lock);
	return mine;
}

void permit_give(void)
{
	struct permits *p = mine;
	if (!p)
		return;
	mine = NULL;
	pthread_mutex_lock(&p->lock);
	p->left++;
	pthread_mutex_unlock(&p->lock);
	pthread_cond_signal(&p->changed); /* not with the lock: whoever wakes on this core would need it */
}

bool permit_held(void)
{
	return mine != NULL;
}

void permits_end(struct permits *p)
{
	pthread_mutex_lock(&p->lock);
	p->ended = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}
