/* SPDX-License-Identifier: Apache-2.0 */
/* Takes one symbol file's text from its transfer into a map. Of a text that is not short, a second thread reads what
 * has arrived while more arrives. */
#ifndef SYMFILES_ARRIVAL_H
#define SYMFILES_ARRIVAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/block_pool.h"
#include "objects/object.h"
#include "sym/symmap.h"

enum { ARRIVAL_BLOCKS = 4 };

struct arrival {
	/* after arrival_finish */
	enum err err;
	struct error error;
	int64_t parse_time; /* nanoseconds */
	/* private */
	struct symmap *map; /* for the other thread while that runs */
	struct block_pool *pool;
	atomic_uint *readers;
	bool beside; /* the other thread runs */
	pthread_t reader;
	size_t fill;                     /* bytes in the block that is being filled */
	unsigned alone;                  /* blocks that were read before the other thread ran */
	uint8_t *blocks[ARRIVAL_BLOCKS]; /* a ring, of the pool; NULL: not needed yet */
	size_t lens[ARRIVAL_BLOCKS];
	/* under lock; err, error and parse_time too */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned filled, read; /* blocks of the ring so far */
	bool ended;
};

/* pool: for what has arrived. readers: how many second threads there are for all arrivals; 0 at first. All three must
 * outlive the arrival. */
void arrival_begin(struct arrival *in, struct symmap *map, struct block_pool *pool, atomic_uint *readers);
struct bucket_sink arrival_sink(struct arrival *in);
/* The text is whole, or will not be. Returns its map without pages, as symmap_map does; NULL if there is none. Call it
 * once. */
struct offmap *arrival_finish(struct arrival *in, bool whole);

#endif
