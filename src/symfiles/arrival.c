/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a text, to get memory from the kernel takes twice as long as to index it, and both together three quarters of the
 * time to inflate it. So the reader does both, and gets blocks ahead when no text waits for it. While it is busy, the
 * thread that receives gets blocks itself.
 */
#include <config.h>

#include "symfiles/arrival.h"

#include "base/background.h"
#include "base/clock.h"
#include "base/process.h"

enum { ALONE = 4 }; /* blocks: for a shorter text, a thread would cost more than it saves */

void arrival_begin(struct arrival *in, struct symmap *map, struct block_pool *pool, atomic_uint *readers)
{
	*in = (struct arrival){.map = map, .pool = pool, .readers = readers};
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->changed, NULL);
}

/* Keeps the first error. */
static void fail(struct arrival *in, enum err err, const struct error *e)
{
	pthread_mutex_lock(&in->lock);
	if (!in->err) {
		in->err = err;
		in->error = *e;
	}
	pthread_cond_signal(&in->changed);
	pthread_mutex_unlock(&in->lock);
}

static uint8_t *get_block(struct arrival *in)
{
	struct error e;
	uint8_t *block = block_get(in->pool);
	if (!block)
		fail(in, no_memory(&e), &e);
	return block;
}

/* ---- the reader ---- */

static void read_block(struct arrival *in, struct arrived_block a)
{
	struct error e;
	int64_t start = clock_now();
	enum err err = symmap_append(in->map, a.block, a.len, &e);
	background_give_way();
	pthread_mutex_lock(&in->lock);
	in->parse_time += clock_now() - start;
	in->read++;
	pthread_cond_signal(&in->changed);
	pthread_mutex_unlock(&in->lock);
	if (err)
		fail(in, err, &e);
}

static void get_spare(struct arrival *in)
{
	uint8_t *block = get_block(in);
	pthread_mutex_lock(&in->lock);
	if (block)
		in->spare[in->spares++] = block;
	pthread_mutex_unlock(&in->lock);
}

/* Waits for something to do. False: nothing is left, or wanted. Without a block: a spare one is. */
static bool wait_for_work(struct arrival *in, struct arrived_block *next)
{
	*next = (struct arrived_block){NULL, 0};
	pthread_mutex_lock(&in->lock);
	while (in->read == in->filled && in->spares == ARRIVAL_BLOCKS && !in->ended)
		pthread_cond_wait(&in->changed, &in->lock);
	bool has_text = in->read != in->filled, more = !in->err && (has_text || !in->ended);
	if (more && has_text)
		*next = in->arrived[in->read % ARRIVAL_BLOCKS];
	pthread_mutex_unlock(&in->lock);
	return more;
}

static void *reader_main(void *arg)
{
	struct arrival *in = arg;
	struct arrived_block next;
	background_enter(true);
	while (wait_for_work(in, &next))
		if (next.block)
			read_block(in, next);
		else
			get_spare(in);
	background_leave();
	return NULL;
}

/* Where half the cores have readers already, one more would only be in the way of requests. Without a reader all goes
 * on as it is. */
static void start_reader(struct arrival *in)
{
	in->beside = atomic_fetch_add_explicit(in->readers, 1, memory_order_relaxed) < cores_count() / 2 &&
	             pthread_create(&in->reader, NULL, reader_main, in) == 0;
	if (!in->beside)
		atomic_fetch_sub_explicit(in->readers, 1, memory_order_relaxed);
}

/* ---- the text arrives ---- */

static uint8_t *take_block(struct arrival *in)
{
	uint8_t *block = NULL;
	pthread_mutex_lock(&in->lock);
	if (in->spares)
		block = in->spare[--in->spares];
	pthread_cond_signal(&in->changed);
	pthread_mutex_unlock(&in->lock);
	return block ? block : get_block(in);
}

static uint8_t *space(void *arg, size_t *room)
{
	struct arrival *in = arg;
	if (!in->block)
		in->block = take_block(in);
	*room = BLOCK_SIZE - in->fill;
	return in->block ? in->block + in->fill : NULL;
}

/* Gives the block to the reader, and waits while too many are there; without one, reads it. False: that has failed. */
static bool pass_block(struct arrival *in)
{
	pthread_mutex_lock(&in->lock);
	while (in->filled - in->read == ARRIVAL_BLOCKS && !in->err)
		pthread_cond_wait(&in->changed, &in->lock);
	bool good = !in->err;
	if (good) {
		in->arrived[in->filled++ % ARRIVAL_BLOCKS] = (struct arrived_block){in->block, in->fill};
		in->block = NULL;
		in->fill = 0;
		pthread_cond_signal(&in->changed);
	}
	pthread_mutex_unlock(&in->lock);
	if (!good || in->beside)
		return good;
	read_block(in, in->arrived[in->read % ARRIVAL_BLOCKS]);
	return !in->err;
}

static bool commit(void *arg, size_t n)
{
	struct arrival *in = arg;
	in->fill += n;
	if (in->fill < BLOCK_SIZE)
		return true;
	if (!pass_block(in))
		return false;
	if (in->filled == ALONE)
		start_reader(in);
	return true;
}

struct bucket_sink arrival_sink(struct arrival *in)
{
	return (struct bucket_sink){.space = space, .commit = commit, .arg = in, .packed = symmap_packed(in->map)};
}

/* ---- its end ---- */

static void end_reader(struct arrival *in)
{
	pthread_mutex_lock(&in->lock);
	in->ended = true;
	pthread_cond_signal(&in->changed);
	pthread_mutex_unlock(&in->lock);
	pthread_join(in->reader, NULL);
	atomic_fetch_sub_explicit(in->readers, 1, memory_order_relaxed);
}

struct offmap *arrival_finish(struct arrival *in, bool whole)
{
	if (whole && in->fill)
		pass_block(in);
	if (in->beside)
		end_reader(in);
	block_put(in->pool, in->block);
	while (in->read != in->filled)
		block_put(in->pool, in->arrived[in->read++ % ARRIVAL_BLOCKS].block);
	while (in->spares)
		block_put(in->pool, in->spare[--in->spares]);
	pthread_cond_destroy(&in->changed);
	pthread_mutex_destroy(&in->lock);
	if (!whole || in->err)
		return NULL;
	int64_t start = clock_now();
	in->err = symmap_finish(in->map, &in->error);
	in->parse_time += clock_now() - start;
	return in->err ? NULL : symmap_map(in->map);
}
