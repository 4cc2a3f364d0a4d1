/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of symbols that are filled in place and keep their memory. Neither side wakes the other for a single symbol: a
 * switch of threads costs more than a function takes.
 */
#include <config.h>

#include "format/offmap_queue.h"

#include <pthread.h>
#include <stdlib.h>

enum {
	SYMBOLS = 64,
	FEW = SYMBOLS / 4,     /* so many are worth waking the thread */
	RECORDS_MAX = 1 << 17, /* no more are put while so many records wait: some MB */
	KEEP_MAX = 4096,       /* arrays of more records are freed */
};

struct symbol_queue {
	struct parsed_symbol symbols[SYMBOLS];
	void (*work)(void *arg, struct parsed_symbol *s);
	void *arg;
	pthread_t thread;
	pthread_mutex_t lock; /* of all below; symbols[first .. first + count) are the thread's */
	pthread_cond_t more, less;
	unsigned first, count;
	uint64_t records; /* of the symbols that wait */
	bool ended;
	bool idle;    /* the thread waits for symbols */
	bool blocked; /* the other side waits until at most `target` symbols are left */
	unsigned target;
};

static uint64_t count_records(const struct parsed_symbol *s)
{
	return (uint64_t)s->records.line_count + s->records.inline_count + s->records.range_count;
}

static void trim(struct func_records *r)
{
	if (r->line_cap > KEEP_MAX || r->inline_cap > KEEP_MAX || r->range_cap > KEEP_MAX)
		func_records_release(r);
}

/* Waits for symbols under the lock. false: there are none and will be none. */
static bool wait_for_work(struct symbol_queue *q)
{
	while (!q->count && !q->ended) {
		q->idle = true;
		pthread_cond_wait(&q->more, &q->lock);
	}
	q->idle = false;
	return q->count != 0;
}

static void *run(void *arg)
{
	struct symbol_queue *q = arg;
	pthread_mutex_lock(&q->lock);
	while (wait_for_work(q)) {
		struct parsed_symbol *s = &q->symbols[q->first];
		uint64_t records = count_records(s);
		pthread_mutex_unlock(&q->lock);
		q->work(q->arg, s);
		trim(&s->records);
		pthread_mutex_lock(&q->lock);
		q->first = (q->first + 1) % SYMBOLS;
		q->count--;
		q->records -= records;
		if (q->blocked && q->count <= q->target)
			pthread_cond_signal(&q->less);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

struct symbol_queue *symbol_queue_start(void (*work)(void *arg, struct parsed_symbol *s), void *arg)
{
	struct symbol_queue *q = calloc(1, sizeof *q);
	if (!q)
		return NULL;
	q->work = work;
	q->arg = arg;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
	pthread_cond_init(&q->less, NULL);
	if (pthread_create(&q->thread, NULL, run, q) == 0)
		return q;
	pthread_cond_destroy(&q->less);
	pthread_cond_destroy(&q->more);
	pthread_mutex_destroy(&q->lock);
	free(q);
	return NULL;
}

void symbol_queue_stop(struct symbol_queue *q)
{
	if (!q)
		return;
	pthread_mutex_lock(&q->lock);
	q->ended = true;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
	for (unsigned i = 0; i < SYMBOLS; i++)
		parsed_symbol_release(&q->symbols[i]);
	pthread_cond_destroy(&q->less);
	pthread_cond_destroy(&q->more);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/* Waits under the lock until at most so many symbols are left. */
static void wait_for_less(struct symbol_queue *q, unsigned target)
{
	q->blocked = true;
	q->target = target;
	while (q->count > target) {
		if (q->idle)
			pthread_cond_signal(&q->more);
		pthread_cond_wait(&q->less, &q->lock);
	}
	q->blocked = false;
}

struct parsed_symbol *symbol_queue_next(struct symbol_queue *q)
{
	pthread_mutex_lock(&q->lock);
	if (q->count == SYMBOLS || q->records > RECORDS_MAX)
		wait_for_less(q, q->count / 2);
	struct parsed_symbol *s = &q->symbols[(q->first + q->count) % SYMBOLS];
	pthread_mutex_unlock(&q->lock);
	return s;
}

void symbol_queue_put(struct symbol_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->records += count_records(&q->symbols[(q->first + q->count) % SYMBOLS]);
	q->count++;
	if (q->idle && (q->count >= FEW || q->records > RECORDS_MAX / 4))
		pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&q->lock);
}

void symbol_queue_drain(struct symbol_queue *q)
{
	pthread_mutex_lock(&q->lock);
	wait_for_less(q, 0);
	pthread_mutex_unlock(&q->lock);
}
