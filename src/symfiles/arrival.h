/* SPDX-License-Identifier: Apache-2.0 */
/* Takes one symbol file's text from its transfer into a map. Of a text that is not short, a second thread indexes what
 * has arrived while more arrives. */
#ifndef SYMFILES_ARRIVAL_H
#define SYMFILES_ARRIVAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "objects/object.h"
#include "sym/symmap.h"

enum { ARRIVAL_BLOCKS = 4 };

struct arrival {
	/* after arrival_finish */
	enum err err;
	struct error error;
	int64_t parse_time; /* nanoseconds */
	/* private: for the thread that receives */
	struct symmap *map; /* for the other one while that runs */
	struct block_pool *pool;
	atomic_uint *readers;
	bool beside; /* the other thread runs */
	pthread_t reader;
	uint8_t *block; /* that is being filled; NULL: none */
	size_t fill;    /* bytes in it */
	/* under lock; err, error and parse_time too */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct arrived_block {
		uint8_t *block;
		size_t len;
	} arrived[ARRIVAL_BLOCKS]; /* a ring */
	unsigned filled, read;     /* blocks so far */
	uint8_t *spare[ARRIVAL_BLOCKS];
	unsigned spares;
	bool ended;
};

/* pool: for the text. readers: how many second threads there are for all arrivals; 0 at first. All three must outlive
 * the arrival. */
void arrival_begin(struct arrival *in, struct symmap *map, struct block_pool *pool, atomic_uint *readers);
struct bucket_sink arrival_sink(struct arrival *in);
/* The text is whole, or will not be. Returns its map without pages, as symmap_map does; NULL if there is none. Call it
 * once. */
struct offmap *arrival_finish(struct arrival *in, bool whole);

#endif
