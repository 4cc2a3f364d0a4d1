/* SPDX-License-Identifier: Apache-2.0 */
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

/* Reads a block that has arrived. */
static void read_block(struct arrival *in, const uint8_t *block, size_t len)
{
	struct error e;
	int64_t start = clock_now();
	enum err err = symmap_feed(in->map, block, len, &e);
	background_give_way();
	if (err)
		fail(in, err, &e);
	pthread_mutex_lock(&in->lock);
	in->parse_time += clock_now() - start;
	in->read += in->beside;
	pthread_cond_signal(&in->changed);
	pthread_mutex_unlock(&in->lock);
}

/* ---- the reader ---- */

/* Waits for a block, and tells its place in the ring. False: nothing is left, or wanted. */
static bool wait_for_block(struct arrival *in, unsigned *next)
{
	pthread_mutex_lock(&in->lock);
	while (in->read == in->filled && !in->ended)
		pthread_cond_wait(&in->changed, &in->lock);
	bool more = in->read != in->filled && !in->err;
	*next = in->read % ARRIVAL_BLOCKS;
	pthread_mutex_unlock(&in->lock);
	return more;
}

static void *reader_main(void *arg)
{
	struct arrival *in = arg;
	unsigned next;
	background_enter(true);
	while (wait_for_block(in, &next))
		read_block(in, in->blocks[next], in->lens[next]);
	background_leave();
	return NULL;
}

/* Where half the cores have readers already, one more would only be in the way of requests. Without a reader all goes
 * on as it is. */
static void start_reader(struct arrival *in)
{
	in->beside = true; /* for the reader to see */
	if (atomic_fetch_add_explicit(in->readers, 1, memory_order_relaxed) < cores_count() / 2 &&
	        pthread_create(&in->reader, NULL, reader_main, in) == 0)
		return;
	in->beside = false;
	atomic_fetch_sub_explicit(in->readers, 1, memory_order_relaxed);
}

/* ---- the text arrives ---- */

static uint8_t *space(void *arg, size_t *room)
{
	struct arrival *in = arg;
	uint8_t **block = &in->blocks[in->filled % ARRIVAL_BLOCKS];
	struct error e;
	if (!*block && !(*block = block_get(in->pool)))
		fail(in, no_memory(&e), &e);
	*room = BLOCK_SIZE - in->fill;
	return *block ? *block + in->fill : NULL;
}

/* Gives the block to the reader, and waits for the next one of the ring; without a reader, reads it. False: that has
 * failed. */
static bool pass_block(struct arrival *in)
{
	unsigned at = in->filled % ARRIVAL_BLOCKS;
	if (!in->beside) {
		read_block(in, in->blocks[at], in->fill);
		in->fill = 0;
		return !in->err;
	}
	pthread_mutex_lock(&in->lock);
	in->lens[at] = in->fill;
	in->filled++;
	in->fill = 0;
	pthread_cond_signal(&in->changed);
	while (in->filled - in->read == ARRIVAL_BLOCKS && !in->err)
		pthread_cond_wait(&in->changed, &in->lock);
	bool good = !in->err;
	pthread_mutex_unlock(&in->lock);
	return good;
}

static bool commit(void *arg, size_t n)
{
	struct arrival *in = arg;
	in->fill += n;
	if (in->fill < BLOCK_SIZE)
		return true;
	if (!pass_block(in))
		return false;
	if (!in->beside && ++in->alone == ALONE)
		start_reader(in);
	return true;
}

struct bucket_sink arrival_sink(struct arrival *in)
{
	return (struct bucket_sink){.space = space, .commit = commit, .arg = in};
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
	for (unsigned i = 0; i < ARRIVAL_BLOCKS; i++)
		block_put(in->pool, in->blocks[i]);
	pthread_cond_destroy(&in->changed);
	pthread_mutex_destroy(&in->lock);
	if (!whole || in->err)
		return NULL;
	int64_t start = clock_now();
	in->err = symmap_finish(in->map, &in->error);
	in->parse_time += clock_now() - start;
	return in->err ? NULL : symmap_map(in->map);
}
