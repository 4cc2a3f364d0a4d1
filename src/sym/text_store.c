/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text is in blocks of the pool. What came as gzip is read from that again, so but for the start of the text its
 * blocks go soon after they are indexed: memory from the kernel costs about as much as to inflate them once more.
 *
 * Other text is compressed if it takes too much: that moves slices of a block, one after the other, to other blocks of
 * the pool. A reader opens slices, not blocks, since a page may need a slice per function if functions are in no order.
 * In slices of 16 KiB, zstd needs 38 % and LZ4 61 % (gensym). The store's own thread compresses while text arrives;
 * when that falls behind, the writer helps or waits. At the end the writer helps too: nobody is answered before that.
 */
#include <config.h>

#include "sym/text_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/array.h"
#include "base/background.h"

enum {
	SLICE = 16 << 10,
	SMALL = 32 << 10,
	SLICES = BLOCK_SIZE / SLICE,
	WAITING_MAX = 16,  /* blocks that wait to be compressed */
	RAW_MIN = 4 << 20, /* of text that came as gzip so much stays raw, from its start */
	/* and of blocks so many that came last */
	RAW_BLOCKS = TEXT_STORE_RECENT / BLOCK_SIZE + 1,
};

/* Where a compressed slice is. */
struct slice {
	uint32_t block, at, len; /* len 0: freed */
};

/* BLOCK_SIZE bytes of text, or what is left at the end. */
struct text_block {
	uint8_t *raw;  /* NULL: packed or freed */
	uint32_t size; /* of raw; up to SMALL it is of malloc, else a block of the pool or the start of one */
	bool waits;    /* waits to be compressed */
	bool is_gone;  /* nobody needs it */
	struct slice slices[SLICES];
};

struct packed_block {
	uint8_t *data;
	uint32_t slices; /* slices in it */
};

/* What one thread needs to compress. */
struct packer {
	ZSTD_CCtx *zstd;
	uint64_t zstd_bytes; /* zstd's memory, charged */
	uint8_t *data;       /* of the packed block that it fills; NULL: none */
	uint32_t block, fill;
};

struct text_store {
	struct block_pool *pool;
	struct text_store_budget *budget;
	struct packed_text *packed_text;
	uint32_t fill; /* bytes in the last block */
	bool helps;    /* the writer compresses too: it appends blocks, so another thread receives */
	/* under lock while the thread runs */
	struct text_block *blocks;
	uint32_t block_count, blocks_cap;
	uint32_t waiting, next; /* blocks that wait; no block before next does */
	struct packed_block *packed;
	uint32_t packed_count, packed_cap;
	bool packs, ended, failed;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	struct packer own, helper;   /* of the thread, and of the writer */
	_Atomic uint64_t bytes, raw; /* raw: of the blocks that hold raw text */
};

struct text_store_reader {
	const struct text_store *store;
	struct symtext text;
	ZSTD_DCtx *zstd;
	uint8_t *open;           /* a block of the pool: SLICES of them */
	uint64_t number[SLICES]; /* 1 + number of the slice in the text; 0: none */
	uint64_t used[SLICES], clock;
	struct stretch {
		uint8_t *blocks[PACKED_STRETCH_BLOCKS];
		uint64_t number, used; /* number: 1 + that of the stretch */
	} stretches[TEXT_STORE_STRETCHES];
	struct gunzip *gunzip;
};

struct text_store *text_store_new(struct block_pool *pool, struct text_store_budget *budget)
{
	struct text_store *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	if (!(s->packed_text = packed_text_new(pool, budget->one < RAW_MIN ? budget->one : RAW_MIN))) {
		free(s);
		return NULL;
	}
	s->pool = pool;
	s->budget = budget;
	s->bytes = sizeof *s;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	return s;
}

struct packed_text *text_store_packed(struct text_store *s)
{
	return s->packed_text;
}

static void add_bytes(struct text_store *s, uint64_t n)
{
	atomic_fetch_add_explicit(&s->bytes, n, memory_order_relaxed);
}

static uint8_t *take_block(struct text_store *s)
{
	uint8_t *data = block_get(s->pool);
	if (data)
		add_bytes(s, BLOCK_SIZE);
	return data;
}

static void put_block(struct text_store *s, uint8_t *data)
{
	if (!data)
		return;
	block_put(s->pool, data);
	atomic_fetch_sub_explicit(&s->bytes, BLOCK_SIZE, memory_order_relaxed);
}

/* Counts raw text, besides the memory that it is in. */
static void add_raw(struct text_store *s, uint64_t n)
{
	atomic_fetch_add_explicit(&s->raw, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->budget->used, n, memory_order_relaxed);
}

static void let_raw_go(struct text_store *s, struct text_block *b)
{
	if (!b->raw)
		return;
	if (b->size > SMALL)
		block_put_part(s->pool, b->raw, b->size);
	else
		free(b->raw);
	add_bytes(s, -(uint64_t)b->size);
	b->raw = NULL;
	add_raw(s, -(uint64_t)b->size);
}

uint64_t text_store_bytes(const struct text_store *s)
{
	return atomic_load_explicit(&s->bytes, memory_order_relaxed) + packed_text_bytes(s->packed_text);
}

/* ---- writing ---- */

static bool grow_blocks(struct text_store *s)
{
	uint32_t cap = s->blocks_cap;
	if (!array_reserve(&s->blocks, &s->blocks_cap, s->block_count + 1, sizeof *s->blocks))
		return false;
	add_bytes(s, (s->blocks_cap - cap) * (uint64_t)sizeof *s->blocks);
	return true;
}

static bool add_block(struct text_store *s, uint8_t *raw)
{
	pthread_mutex_lock(&s->lock);
	bool ok = grow_blocks(s);
	if (ok)
		s->blocks[s->block_count++] = (struct text_block){.raw = raw, .size = BLOCK_SIZE};
	pthread_mutex_unlock(&s->lock);
	if (!ok) {
		put_block(s, raw);
		return false;
	}
	s->fill = 0;
	add_raw(s, BLOCK_SIZE);
	return true;
}

uint8_t *text_store_space(struct text_store *s, size_t *room)
{
	if (!s->block_count || s->fill == BLOCK_SIZE) {
		uint8_t *raw = take_block(s);
		if (!raw || !add_block(s, raw))
			return NULL;
	}
	*room = BLOCK_SIZE - s->fill;
	return s->blocks[s->block_count - 1].raw + s->fill;
}

static bool add_packed(struct text_store *s, uint8_t *data)
{
	uint32_t cap = s->packed_cap;
	if (!array_reserve(&s->packed, &s->packed_cap, s->packed_count + 1, sizeof *s->packed))
		return false;
	add_bytes(s, (s->packed_cap - cap) * (uint64_t)sizeof *s->packed);
	s->packed[s->packed_count++] = (struct packed_block){.data = data};
	return true;
}

static bool begin_packed(struct text_store *s, struct packer *p)
{
	uint8_t *data = take_block(s);
	if (!data)
		return false;
	pthread_mutex_lock(&s->lock);
	bool ok = add_packed(s, data);
	p->block = s->packed_count - 1;
	pthread_mutex_unlock(&s->lock);
	p->data = data;
	p->fill = 0;
	if (ok)
		return true;
	put_block(s, data);
	p->data = NULL;
	return false;
}

/* Compresses a slice into the open block. Returns its length; 0 if there is not enough room. */
static uint32_t pack_slice(struct packer *p, const uint8_t *text)
{
	if (!p->data)
		return 0;
	size_t len = ZSTD_compressCCtx(p->zstd, p->data + p->fill, BLOCK_SIZE - p->fill, text, SLICE, 1);
	return ZSTD_isError(len) ? 0 : (uint32_t)len;
}

/* Compresses a block of text into slices; false if out of memory. */
static bool pack(struct text_store *s, struct packer *p, const uint8_t *raw, struct slice *slices)
{
	bool first = !p->zstd;
	if (first && !(p->zstd = ZSTD_createCCtx()))
		return false;
	for (unsigned i = 0; i < SLICES; i++) {
		background_give_way();
		uint32_t len = pack_slice(p, raw + i * SLICE);
		if (!len && (!begin_packed(s, p) || !(len = pack_slice(p, raw + i * SLICE))))
			return false;
		slices[i] = (struct slice){p->block, p->fill, len};
		p->fill += len;
	}
	if (first)
		add_bytes(s, p->zstd_bytes = ZSTD_sizeof_CCtx(p->zstd));
	return true;
}

/* Packs the first block that waits; there is one. Call it with the lock, which it releases meanwhile. */
static void pack_next(struct text_store *s, struct packer *p)
{
	struct slice slices[SLICES];
	while (!s->blocks[s->next].waits)
		s->next++;
	uint32_t block = s->next++;
	const uint8_t *raw = s->blocks[block].raw;
	s->waiting--;
	pthread_mutex_unlock(&s->lock);
	bool ok = pack(s, p, raw, slices);
	pthread_mutex_lock(&s->lock);
	pthread_cond_signal(&s->changed);
	s->failed = s->failed || !ok;
	if (!ok)
		return;
	memcpy(s->blocks[block].slices, slices, sizeof slices);
	for (unsigned i = 0; i < SLICES; i++)
		s->packed[slices[i].block].slices++;
	let_raw_go(s, &s->blocks[block]);
}

static void release_packer(struct text_store *s, struct packer *p)
{
	ZSTD_freeCCtx(p->zstd);
	atomic_fetch_sub_explicit(&s->bytes, p->zstd_bytes, memory_order_relaxed);
	*p = (struct packer){0};
}

static void *packer_main(void *arg)
{
	struct text_store *s = arg;
	background_enter(true);
	pthread_mutex_lock(&s->lock);
	while (!s->failed && (s->waiting || !s->ended)) {
		if (s->waiting)
			pack_next(s, &s->own);
		else
			pthread_cond_wait(&s->changed, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	background_leave();
	return NULL;
}

/* Queues the last block to be compressed. If too many wait then, helps or waits. False as text_store_commit. */
static bool let_pack(struct text_store *s)
{
	pthread_mutex_lock(&s->lock);
	if (!s->packs)
		s->packs = pthread_create(&s->thread, NULL, packer_main, s) == 0;
	bool ok = s->packs;
	if (ok) {
		s->blocks[s->block_count - 1].waits = true;
		s->waiting++;
		pthread_cond_signal(&s->changed);
		while (s->waiting > WAITING_MAX && !s->failed)
			if (s->helps)
				pack_next(s, &s->helper);
			else
				pthread_cond_wait(&s->changed, &s->lock);
		ok = !s->failed;
	}
	pthread_mutex_unlock(&s->lock);
	return ok;
}

static bool is_above_budget(const struct text_store *s)
{
	return atomic_load_explicit(&s->raw, memory_order_relaxed) > s->budget->one ||
	       atomic_load_explicit(&s->budget->used, memory_order_relaxed) > s->budget->limit;
}

static bool came_as_gzip(const struct text_store *s, uint64_t block)
{
	return packed_text_has(s->packed_text, block / PACKED_STRETCH_BLOCKS);
}

bool text_store_commit(struct text_store *s, size_t n, bool needed)
{
	s->fill += (uint32_t)n;
	if (s->fill < BLOCK_SIZE)
		return true;
	uint32_t last = s->block_count - 1;
	struct text_block *b = &s->blocks[last];
	b->is_gone = !needed;
	if (last >= RAW_BLOCKS && came_as_gzip(s, last - RAW_BLOCKS))
		let_raw_go(s, b - RAW_BLOCKS);
	if (!needed)
		let_raw_go(s, b);
	else if (!came_as_gzip(s, last) && is_above_budget(s))
		return let_pack(s);
	return true;
}

bool text_store_append(struct text_store *s, uint8_t *block, size_t n, bool needed)
{
	s->helps = true;
	add_bytes(s, BLOCK_SIZE);
	return add_block(s, block) && text_store_commit(s, n, needed);
}

static void end_packing(struct text_store *s)
{
	pthread_mutex_lock(&s->lock);
	s->ended = true;
	pthread_cond_signal(&s->changed);
	while (s->helps && s->waiting && !s->failed)
		pack_next(s, &s->helper);
	pthread_mutex_unlock(&s->lock);
	if (s->packs)
		pthread_join(s->thread, NULL);
	s->packs = false;
	release_packer(s, &s->own);
	release_packer(s, &s->helper);
}

/* Most modules of a process are small: a block for each would be many times their text. Without memory they keep it. */
static void fit_last(struct text_store *s)
{
	struct text_block *b, *blocks = s->block_count ? realloc(s->blocks, s->block_count * sizeof *blocks) : NULL;
	if (!blocks)
		return;
	add_bytes(s, -(uint64_t)(s->blocks_cap - s->block_count) * sizeof *blocks);
	s->blocks = blocks;
	s->blocks_cap = s->block_count;
	b = &blocks[s->block_count - 1];
	if (s->fill > SMALL) {
		uint32_t size = block_cut(s->pool, b->raw, s->fill);
		add_bytes(s, -(uint64_t)(b->size - size));
		add_raw(s, -(uint64_t)(b->size - size));
		b->size = size;
		return;
	}
	uint8_t *text = malloc(s->fill);
	if (!text)
		return;
	memcpy(text, b->raw, s->fill);
	let_raw_go(s, b);
	b->raw = text;
	b->size = s->fill;
	add_bytes(s, b->size);
	add_raw(s, b->size);
}

bool text_store_end(struct text_store *s)
{
	end_packing(s);
	if (!s->failed)
		fit_last(s);
	return !s->failed;
}

void text_store_free(struct text_store *s)
{
	if (!s)
		return;
	end_packing(s);
	for (uint32_t i = 0; i < s->block_count; i++)
		let_raw_go(s, &s->blocks[i]);
	for (uint32_t i = 0; i < s->packed_count; i++)
		put_block(s, s->packed[i].data);
	free(s->blocks);
	free(s->packed);
	packed_text_free(s->packed_text);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static bool copy_raw(struct text_store *s, struct text_block *b, const uint8_t *text)
{
	if (!(b->raw = take_block(s)))
		return false;
	memcpy(b->raw, text, BLOCK_SIZE);
	add_raw(s, BLOCK_SIZE);
	return true;
}

static bool pack_slices(struct text_store *s, struct text_block *b, const uint8_t *text)
{
	if (!pack(s, &s->own, text, b->slices))
		return false;
	for (unsigned k = 0; k < SLICES; k++)
		s->packed[b->slices[k].block].slices++;
	return true;
}

static bool unpack_stretch(struct text_store *s, struct gunzip *gunzip, uint8_t *const *blocks, uint32_t first)
{
	if (!packed_text_read(s->packed_text, gunzip, first / PACKED_STRETCH_BLOCKS, blocks))
		return false;
	for (uint32_t i = 0; i < PACKED_STRETCH_BLOCKS && first + i < s->block_count; i++) {
		struct text_block *b = &s->blocks[first + i];
		if (b->raw || b->is_gone)
			continue;
		if (!(is_above_budget(s) ? pack_slices(s, b, blocks[i]) : copy_raw(s, b, blocks[i])))
			return false;
	}
	return true;
}

bool text_store_unpack(struct text_store *s)
{
	struct gunzip *gunzip = gunzip_new();
	uint8_t *blocks[PACKED_STRETCH_BLOCKS] = {NULL};
	bool good = gunzip != NULL;
	for (unsigned i = 0; i < PACKED_STRETCH_BLOCKS && good; i++)
		good = (blocks[i] = take_block(s)) != NULL;
	for (uint32_t i = 0; i < s->block_count && good; i += PACKED_STRETCH_BLOCKS)
		if (came_as_gzip(s, i))
			good = unpack_stretch(s, gunzip, blocks, i);
	for (unsigned i = 0; i < PACKED_STRETCH_BLOCKS; i++)
		put_block(s, blocks[i]);
	gunzip_free(gunzip);
	release_packer(s, &s->own);
	packed_text_drop(s->packed_text);
	return good;
}

void text_store_let_go(struct text_store *s, uint32_t block)
{
	struct text_block *b = &s->blocks[block];
	let_raw_go(s, b);
	for (unsigned i = 0; i < SLICES; i++) {
		struct packed_block *from = &s->packed[b->slices[i].block];
		if (!b->slices[i].len)
			continue;
		b->slices[i].len = 0;
		if (--from->slices)
			continue;
		put_block(s, from->data);
		from->data = NULL;
	}
}

static const uint8_t *get_recent(void *arg, uint64_t place, size_t len, uint8_t *room)
{
	const struct text_store *s = arg;
	if (s->packs) /* the thread may take blocks away */
		return NULL;
	for (size_t done = 0, n; done < len; done += n, place += n) {
		const uint8_t *raw = s->blocks[place / BLOCK_SIZE].raw;
		size_t within = place % BLOCK_SIZE;
		n = BLOCK_SIZE - within < len - done ? BLOCK_SIZE - within : len - done;
		if (!raw)
			return NULL;
		if (n == len)
			return raw + within;
		memcpy(room + done, raw + within, n);
	}
	return room;
}

struct symtext text_store_recent(struct text_store *s)
{
	return (struct symtext){get_recent, s};
}

/* ---- reading ---- */

/* The text of a compressed slice. Stays valid until the reader has opened as many others as it keeps open. */
static const uint8_t *open_slice(struct text_store_reader *r, uint64_t number)
{
	unsigned oldest = 0;
	for (unsigned i = 0; i < SLICES; i++) {
		if (r->number[i] == number + 1) {
			r->used[i] = ++r->clock;
			return r->open + i * SLICE;
		}
		if (r->used[i] < r->used[oldest])
			oldest = i;
	}
	const struct slice *slice = &r->store->blocks[number / SLICES].slices[number % SLICES];
	if (!slice->len || (!r->open && !(r->open = block_get(r->store->pool))) ||
	        (!r->zstd && !(r->zstd = ZSTD_createDCtx())))
		return NULL;
	const uint8_t *from = r->store->packed[slice->block].data + slice->at;
	uint8_t *to = r->open + oldest * SLICE;
	r->number[oldest] = 0;
	if (ZSTD_decompressDCtx(r->zstd, to, SLICE, from, slice->len) != SLICE)
		return NULL;
	r->number[oldest] = number + 1;
	r->used[oldest] = ++r->clock;
	return to;
}

static bool take_stretch(struct text_store_reader *r, struct stretch *s)
{
	for (unsigned i = 0; i < PACKED_STRETCH_BLOCKS; i++)
		if (!s->blocks[i] && !(s->blocks[i] = block_get(r->store->pool)))
			return false;
	return r->gunzip || (r->gunzip = gunzip_new());
}

/* The same for a stretch of gzip. */
static const struct stretch *open_stretch(struct text_store_reader *r, uint64_t number)
{
	struct stretch *oldest = r->stretches;
	for (struct stretch *s = r->stretches; s < r->stretches + TEXT_STORE_STRETCHES; s++) {
		if (s->number == number + 1) {
			s->used = ++r->clock;
			return s;
		}
		if (s->used < oldest->used)
			oldest = s;
	}
	oldest->number = 0;
	if (!take_stretch(r, oldest) || !packed_text_read(r->store->packed_text, r->gunzip, number, oldest->blocks))
		return NULL;
	oldest->number = number + 1;
	oldest->used = ++r->clock;
	return oldest;
}

/* The bytes from `place` on, and how many are there. */
static const uint8_t *open_text(struct text_store_reader *r, uint64_t place, size_t *len)
{
	uint64_t number = place / BLOCK_SIZE;
	const struct text_block *b = &r->store->blocks[number];
	bool is_slice = !b->raw && !came_as_gzip(r->store, number);
	size_t piece = is_slice ? SLICE : BLOCK_SIZE, within = place % piece;
	const uint8_t *from = b->raw;
	const struct stretch *s;
	*len = piece - within;
	if (is_slice)
		from = open_slice(r, place / SLICE);
	else if (!from && (s = open_stretch(r, number / PACKED_STRETCH_BLOCKS)))
		from = s->blocks[number % PACKED_STRETCH_BLOCKS];
	return from ? from + within : NULL;
}

static const uint8_t *get_text(void *arg, uint64_t place, size_t len, uint8_t *room)
{
	struct text_store_reader *r = arg;
	for (size_t done = 0, n; done < len; done += n, place += n) {
		const uint8_t *from = open_text(r, place, &n);
		if (!from)
			return NULL;
		if (!done && len <= n)
			return from;
		n = n < len - done ? n : len - done;
		memcpy(room + done, from, n);
	}
	return room;
}

struct text_store_reader *text_store_reader_new(const struct text_store *s)
{
	struct text_store_reader *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->store = s;
	r->text = (struct symtext){get_text, r};
	return r;
}

void text_store_reader_free(struct text_store_reader *r)
{
	if (!r)
		return;
	block_put(r->store->pool, r->open);
	for (unsigned i = 0; i < TEXT_STORE_STRETCHES * PACKED_STRETCH_BLOCKS; i++)
		block_put(r->store->pool, r->stretches[i / PACKED_STRETCH_BLOCKS].blocks[i % PACKED_STRETCH_BLOCKS]);
	gunzip_free(r->gunzip);
	ZSTD_freeDCtx(r->zstd);
	free(r);
}

const struct symtext *text_store_reader_text(const struct text_store_reader *r)
{
	return &r->text;
}

uint64_t text_store_reader_bytes(const struct text_store_reader *r)
{
	uint64_t blocks = r->open != NULL;
	for (unsigned i = 0; i < TEXT_STORE_STRETCHES * PACKED_STRETCH_BLOCKS; i++)
		blocks += r->stretches[i / PACKED_STRETCH_BLOCKS].blocks[i % PACKED_STRETCH_BLOCKS] != NULL;
	return sizeof *r + blocks * BLOCK_SIZE + (r->zstd ? ZSTD_sizeof_DCtx(r->zstd) : 0) +
	       (r->gunzip ? gunzip_bytes(r->gunzip) : 0);
}
