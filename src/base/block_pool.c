/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/block_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

/* At the start of a block that is kept. */
struct kept {
	struct kept *next;
};

struct block_pool {
	pthread_mutex_t lock;
	struct kept *kept;
	uint64_t kept_bytes, keep, used_bytes;
	bool touched; /* since the last trim */
};

struct block_pool *block_pool_new(uint64_t keep)
{
	struct block_pool *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->keep = keep;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void free_list(struct kept *list)
{
	while (list) {
		struct kept *next = list->next;
		munmap(list, BLOCK_SIZE);
		list = next;
	}
}

void block_pool_free(struct block_pool *p)
{
	if (!p)
		return;
	free_list(p->kept);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

uint8_t *block_get(struct block_pool *p)
{
	pthread_mutex_lock(&p->lock);
	struct kept *block = p->kept;
	if (block) {
		p->kept = block->next;
		p->kept_bytes -= BLOCK_SIZE;
	}
	p->used_bytes += BLOCK_SIZE;
	p->touched = true;
	pthread_mutex_unlock(&p->lock);
	if (block)
		return (uint8_t *)block;
	/* mmap, since malloc might never give it back to the system */
	void *data = mmap(NULL, BLOCK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data != MAP_FAILED) {
		/* all at once: faulting each page in separately costs twice as much */
		madvise(data, BLOCK_SIZE, MADV_POPULATE_WRITE);
		return data;
	}
	pthread_mutex_lock(&p->lock);
	p->used_bytes -= BLOCK_SIZE;
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void block_put(struct block_pool *p, uint8_t *data)
{
	struct kept *block = (struct kept *)(void *)data;
	if (!block)
		return;
	pthread_mutex_lock(&p->lock);
	p->used_bytes -= BLOCK_SIZE;
	if (p->kept_bytes < p->keep) {
		block->next = p->kept;
		p->kept = block;
		p->kept_bytes += BLOCK_SIZE;
		block = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	if (block)
		munmap(block, BLOCK_SIZE);
}

uint64_t block_pool_used(struct block_pool *p)
{
	pthread_mutex_lock(&p->lock);
	uint64_t bytes = p->used_bytes;
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

void block_pool_trim(struct block_pool *p, bool at_once)
{
	pthread_mutex_lock(&p->lock);
	struct kept *unused = at_once || !(p->touched || p->used_bytes) ? p->kept : NULL;
	if (unused) {
		p->kept = NULL;
		p->kept_bytes = 0;
	}
	p->touched = p->touched && at_once;
	pthread_mutex_unlock(&p->lock);
	free_list(unused);
}
