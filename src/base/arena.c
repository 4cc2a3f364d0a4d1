/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/arena.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/block_pool.h"
#include "base/sanitizers.h"

enum {
	ALIGN = 16,
	ARENA_BLOCK = 64 << 10,
	ARENA_LARGE = 256 << 10, /* one that has handed out so much takes blocks from the pool */
};

static struct block_pool *_Atomic shared;

/* AddressSanitizer sees who leaves his piece: what is not handed out is poisoned, and so is a gap behind each piece. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
enum { GAP = ALIGN };
#else
#define ASAN_POISON_MEMORY_REGION(from, n)
#define ASAN_UNPOISON_MEMORY_REGION(from, n)
enum { GAP = 0 };
#endif

struct arena_block {
	struct arena_block *next;
	struct block_pool *pool; /* NULL: it is malloc's */
	size_t size, used;       /* of data */
	_Alignas(ALIGN) uint8_t data[];
};

void arena_take_blocks(struct block_pool *pool)
{
	atomic_store(&shared, pool);
}

void arena_init(struct arena *a, size_t max)
{
	*a = (struct arena){.max = max};
}

void arena_charge(struct arena *a, enum account_kind kind, uint64_t small_max)
{
	a->charges = true;
	a->kind = kind;
	a->small_max = small_max;
}

static bool take(struct arena *a, uint64_t bytes)
{
	bool small = a->charged + bytes <= a->small_max;
	if (!a->charged && bytes <= sizeof(struct arena_block) + ARENA_BLOCK) { /* every request has its first block */
		account_add(a->kind, (int64_t)bytes);
		return true;
	}
	return small ? account_take_small(a->kind, bytes) : account_take(a->kind, bytes);
}

bool arena_hold(struct arena *a, int64_t bytes)
{
	if (!a->charges || !bytes)
		return true;
	if (bytes < 0)
		account_add(a->kind, bytes);
	else if (!take(a, (uint64_t)bytes))
		return !(a->refused = true);
	a->charged += (uint64_t)bytes;
	return true;
}

static void uncharge(struct arena *a)
{
	if (a->charged)
		account_add(a->kind, -(int64_t)a->charged);
	a->charged = 0;
	a->refused = false;
}

static void free_block(struct arena_block *b)
{
	if (!b->pool) {
		free(b);
		return;
	}
	ASAN_UNPOISON_MEMORY_REGION(b->data, b->size);
	block_put(b->pool, (uint8_t *)b);
}

/* Frees the list starting at b, but keeps the first block of the usual size if keep is set. */
static struct arena_block *free_blocks(struct arena_block *b, bool keep)
{
	struct arena_block *kept = NULL;
	while (b) {
		struct arena_block *next = b->next;
		if (keep && !kept && b->size == ARENA_BLOCK)
			kept = b;
		else
			free_block(b);
		b = next;
	}
	return kept;
}

void arena_release(struct arena *a)
{
	uncharge(a);
	free_blocks(a->head, false);
	a->head = NULL;
	a->used = 0;
}

void arena_reset(struct arena *a)
{
	uncharge(a);
	a->head = free_blocks(a->head, true);
	a->used = 0;
	if (a->head) {
		a->head->next = NULL;
		a->head->used = 0;
		ASAN_POISON_MEMORY_REGION(a->head->data, a->head->size);
	}
}

/* The pool for a block of this size; NULL: malloc. */
static struct block_pool *pool_for(const struct arena *a, size_t size)
{
	bool large = a->charges && a->used >= ARENA_LARGE && size <= BLOCK_SIZE - sizeof(struct arena_block);
	return large ? atomic_load(&shared) : NULL;
}

/* A large piece gets a block of its own. The head stays the block with more room. */
static struct arena_block *add_block(struct arena *a, size_t n)
{
	size_t size = n > ARENA_BLOCK / 4 ? n : ARENA_BLOCK;
	struct block_pool *pool = pool_for(a, size);
	size = pool ? BLOCK_SIZE - sizeof(struct arena_block) : size;
	/* with the block that was kept, which is in use from now on */
	int64_t bytes = (int64_t)(sizeof(struct arena_block) + size + (a->charged || !a->head ? 0 : ARENA_BLOCK));
	struct arena_block *b = !arena_hold(a, bytes) ? NULL
	                        : pool                ? (struct arena_block *)(void *)block_get(pool)
	                                              : malloc(sizeof *b + size);
	if (!b)
		return NULL;
	b->pool = pool;
	b->size = size;
	b->used = 0;
	ASAN_POISON_MEMORY_REGION(b->data, size);
	if (a->head && n > ARENA_BLOCK / 4 && size - n <= a->head->size - a->head->used) {
		b->next = a->head->next;
		a->head->next = b;
	} else {
		b->next = a->head;
		a->head = b;
	}
	return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_block *b = a->head;
	size_t room = a->max - a->used;
	if (n > room || n > SIZE_MAX - ALIGN - sizeof *b)
		return NULL;
	size_t whole = n ? (n + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
	if (whole > room)
		return NULL;
	if (!b || b->size - b->used < whole + GAP)
		b = add_block(a, whole + GAP);
	else if (!a->charged && !arena_hold(a, ARENA_BLOCK))
		return NULL;
	if (!b)
		return NULL;
	void *p = b->data + b->used;
	ASAN_UNPOISON_MEMORY_REGION(p, n);
	b->used += whole + GAP;
	a->used += whole;
	return p;
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
	size_t n;
	if (__builtin_mul_overflow(count, size, &n))
		return NULL;
	void *p = arena_alloc(a, n);
	if (p)
		memset(p, 0, n);
	return p;
}
