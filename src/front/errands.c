/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "front/errands.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "front/exchange_private.h"

static void *errand_main(void *arg);

/* With the lock held. Without another thread, those that there are do it, one after the other. */
static bool start_one(struct errands *e)
{
	bool started = array_reserve(&e->threads, &e->cap, e->count + 1, sizeof *e->threads) &&
	               pthread_create(&e->threads[e->count], NULL, errand_main, e) == 0;
	e->count += started;
	e->running += started;
	return started;
}

/* Waits for work; NULL: the thread is to end. The one that takes the last idle thread's work starts the next, so that
 * whoever adds some need not. */
static struct exchange_private *take(struct errands *e)
{
	struct exchange_private *p;
	pthread_mutex_lock(&e->lock);
	e->idle++;
	while (!(p = STAILQ_FIRST(&e->queue)) && !e->stopping)
		pthread_cond_wait(&e->changed, &e->lock);
	e->idle--;
	if (p) {
		STAILQ_REMOVE_HEAD(&e->queue, next);
		e->queued--;
	}
	if (p && e->idle <= e->queued)
		start_one(e);
	pthread_mutex_unlock(&e->lock);
	return p;
}

static void *errand_main(void *arg)
{
	struct errands *e = arg;
	struct exchange_private *p;
	pthread_setname_np(pthread_self(), "errand");
	while ((p = take(e)))
		e->run(p);
	pthread_mutex_lock(&e->lock);
	if (--e->running == 0)
		pthread_cond_signal(&e->ended);
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

bool errands_start(struct errands *e, void (*run)(struct exchange_private *p))
{
	*e = (struct errands){.run = run};
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	clock_condition_init(&e->ended);
	STAILQ_INIT(&e->queue);
	pthread_mutex_lock(&e->lock);
	bool started = start_one(e);
	pthread_mutex_unlock(&e->lock);
	return started;
}

void errands_add(struct errands *e, struct exchange_private *p)
{
	pthread_mutex_lock(&e->lock);
	STAILQ_INSERT_TAIL(&e->queue, p, next);
	e->queued++;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

bool errands_stop(struct errands *e, int64_t until)
{
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	pthread_cond_broadcast(&e->changed);
	while (e->running && clock_wait(&e->ended, &e->lock, until))
		;
	bool ended = !e->running;
	pthread_mutex_unlock(&e->lock);
	if (!ended)
		return false;
	while (e->count)
		pthread_join(e->threads[--e->count], NULL);
	free(e->threads);
	pthread_cond_destroy(&e->changed);
	pthread_cond_destroy(&e->ended);
	pthread_mutex_destroy(&e->lock);
	return true;
}
