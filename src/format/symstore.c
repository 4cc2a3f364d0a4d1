/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text lies in blocks of the pool. One that is to be compressed goes, slice by slice, to other blocks of the pool,
 * one slice behind the other. A reader opens slices, not blocks: a page of a file whose functions are in no order needs
 * a slice for each. LZ4 in slices of 16 KiB takes as much memory as in blocks of 256 within a tenth.
 */
#include <config.h>

#include "format/symstore.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { SLICE = 16 << 10, SLICES = BLOCK_SIZE / SLICE };

/* Where a compressed slice lies. */
struct slice {
	uint32_t block, at, len; /* len 0: it was let go */
};

/* BLOCK_SIZE bytes of text. */
struct text_block {
	uint8_t *raw; /* NULL: compressed, or let go */
	struct slice slices[SLICES];
};

struct packed_block {
	uint8_t *data;
	uint32_t slices; /* that are in it */
};

struct symstore {
	struct block_pool *pool;
	struct symstore_budget *budget;
	struct text_block *blocks;
	uint32_t block_count, blocks_cap;
	uint32_t fill; /* bytes in the last one */
	struct packed_block *packed;
	uint32_t packed_count, packed_cap;
	uint32_t packed_fill; /* bytes in the last one */
	void *lz4;
	_Atomic uint64_t bytes;
};

struct symstore_reader {
	const struct symstore *store;
	struct symtext text;
	uint8_t *open;           /* a block of the pool: SLICES of them */
	uint64_t number[SLICES]; /* 1 + that of the slice in the text; 0: none */
	uint64_t used[SLICES], clock;
};

struct symstore *symstore_new(struct block_pool *pool, struct symstore_budget *budget)
{
	struct symstore *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->pool = pool;
	s->budget = budget;
	s->bytes = sizeof *s;
	return s;
}

static void add_bytes(struct symstore *s, uint64_t n)
{
	atomic_fetch_add_explicit(&s->bytes, n, memory_order_relaxed);
}

static uint8_t *take_block(struct symstore *s)
{
	uint8_t *data = block_get(s->pool);
	if (data)
		add_bytes(s, BLOCK_SIZE);
	return data;
}

static void put_block(struct symstore *s, uint8_t *data)
{
	if (!data)
		return;
	block_put(s->pool, data);
	atomic_fetch_sub_explicit(&s->bytes, BLOCK_SIZE, memory_order_relaxed);
}

static void let_raw_go(struct symstore *s, struct text_block *b)
{
	if (!b->raw)
		return;
	put_block(s, b->raw);
	b->raw = NULL;
	atomic_fetch_sub_explicit(&s->budget->used, BLOCK_SIZE, memory_order_relaxed);
}

void symstore_free(struct symstore *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->block_count; i++)
		let_raw_go(s, &s->blocks[i]);
	for (uint32_t i = 0; i < s->packed_count; i++)
		put_block(s, s->packed[i].data);
	free(s->blocks);
	free(s->packed);
	free(s->lz4);
	free(s);
}

uint64_t symstore_bytes(const struct symstore *s)
{
	return atomic_load_explicit(&s->bytes, memory_order_relaxed);
}

/* ---- writing ---- */

static bool begin_block(struct symstore *s)
{
	uint32_t cap = s->blocks_cap;
	if (!array_reserve(&s->blocks, &s->blocks_cap, s->block_count + 1, sizeof *s->blocks))
		return false;
	add_bytes(s, (s->blocks_cap - cap) * (uint64_t)sizeof *s->blocks);
	uint8_t *raw = take_block(s);
	if (!raw)
		return false;
	s->blocks[s->block_count++] = (struct text_block){.raw = raw};
	s->fill = 0;
	atomic_fetch_add_explicit(&s->budget->used, BLOCK_SIZE, memory_order_relaxed);
	return true;
}

uint8_t *symstore_space(struct symstore *s, size_t *room)
{
	if ((!s->block_count || s->fill == BLOCK_SIZE) && !begin_block(s))
		return NULL;
	*room = BLOCK_SIZE - s->fill;
	return s->blocks[s->block_count - 1].raw + s->fill;
}

static bool begin_packed(struct symstore *s)
{
	uint32_t cap = s->packed_cap;
	if (!array_reserve(&s->packed, &s->packed_cap, s->packed_count + 1, sizeof *s->packed))
		return false;
	add_bytes(s, (s->packed_cap - cap) * (uint64_t)sizeof *s->packed);
	uint8_t *data = take_block(s);
	if (!data)
		return false;
	s->packed[s->packed_count++] = (struct packed_block){.data = data};
	s->packed_fill = 0;
	return true;
}

/* Compresses a slice to where there is room; 0: there is not enough. */
static uint32_t pack_slice(struct symstore *s, const uint8_t *text)
{
	if (!s->packed_count)
		return 0;
	char *to = (char *)s->packed[s->packed_count - 1].data + s->packed_fill;
	int room = (int)(BLOCK_SIZE - s->packed_fill);
	return (uint32_t)LZ4_compress_fast_extState(s->lz4, (const char *)text, to, SLICE, room, 1);
}

static bool pack(struct symstore *s, struct text_block *b)
{
	if (!s->lz4) {
		if (!(s->lz4 = malloc((size_t)LZ4_sizeofState())))
			return false;
		add_bytes(s, (uint64_t)LZ4_sizeofState());
	}
	for (unsigned i = 0; i < SLICES; i++) {
		uint32_t len = pack_slice(s, b->raw + i * SLICE);
		if (!len && (!begin_packed(s) || !(len = pack_slice(s, b->raw + i * SLICE))))
			return false;
		b->slices[i] = (struct slice){s->packed_count - 1, s->packed_fill, len};
		s->packed[s->packed_count - 1].slices++;
		s->packed_fill += len;
	}
	let_raw_go(s, b);
	return true;
}

bool symstore_commit(struct symstore *s, size_t n)
{
	s->fill += (uint32_t)n;
	bool above = atomic_load_explicit(&s->budget->used, memory_order_relaxed) > s->budget->limit;
	return s->fill < BLOCK_SIZE || !above || pack(s, &s->blocks[s->block_count - 1]);
}

void symstore_let_go(struct symstore *s, uint32_t block)
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

/* ---- reading ---- */

/* The bytes of a compressed slice, to stay until as many others as a reader keeps have been opened. */
static const uint8_t *open_slice(struct symstore_reader *r, uint64_t number)
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
	if (!slice->len || (!r->open && !(r->open = block_get(r->store->pool))))
		return NULL;
	const char *from = (const char *)r->store->packed[slice->block].data + slice->at;
	uint8_t *to = r->open + oldest * SLICE;
	r->number[oldest] = 0;
	if (LZ4_decompress_safe(from, (char *)to, (int)slice->len, SLICE) != SLICE)
		return NULL;
	r->number[oldest] = number + 1;
	r->used[oldest] = ++r->clock;
	return to;
}

static const uint8_t *get(void *arg, uint64_t place, size_t len, uint8_t *room)
{
	struct symstore_reader *r = arg;
	for (size_t done = 0, n; done < len; done += n, place += n) {
		const struct text_block *b = &r->store->blocks[place / BLOCK_SIZE];
		size_t piece = b->raw ? BLOCK_SIZE : SLICE, within = place % piece;
		const uint8_t *from = b->raw ? b->raw : open_slice(r, place / SLICE);
		if (!from)
			return NULL;
		if (!done && len <= piece - within)
			return from + within;
		n = piece - within < len - done ? piece - within : len - done;
		memcpy(room + done, from + within, n);
	}
	return room;
}

struct symstore_reader *symstore_reader_new(const struct symstore *s)
{
	struct symstore_reader *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->store = s;
	r->text = (struct symtext){get, r};
	return r;
}

void symstore_reader_free(struct symstore_reader *r)
{
	if (!r)
		return;
	block_put(r->store->pool, r->open);
	free(r);
}

const struct symtext *symstore_reader_text(const struct symstore_reader *r)
{
	return &r->text;
}

uint64_t symstore_reader_bytes(const struct symstore_reader *r)
{
	return sizeof *r + (r->open ? BLOCK_SIZE : 0);
}
