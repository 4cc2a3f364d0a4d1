/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/packed_text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Where a stretch begins. */
struct place {
	struct gunzip_place *inflater;
	uint64_t at; /* bytes of gzip that are kept before it */
};

struct packed_text {
	struct block_pool *pool;
	uint64_t first; /* stretch that is kept */
	bool begun;
	uint8_t **blocks; /* of the gzip bytes */
	uint32_t block_count, blocks_cap, place_cap;
	uint64_t len; /* of gzip bytes */
	struct place *places;
	atomic_uint place_count;
	_Atomic uint64_t bytes;
};

struct packed_text *packed_text_new(struct block_pool *pool, uint64_t start)
{
	struct packed_text *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->pool = pool;
	p->first = start / PACKED_STRETCH + (start % PACKED_STRETCH != 0);
	return p;
}

void packed_text_drop(struct packed_text *p)
{
	for (uint32_t i = 0; i < p->block_count; i++)
		block_put(p->pool, p->blocks[i]);
	for (uint32_t i = 0; i < p->place_count; i++)
		gunzip_place_free(p->places[i].inflater);
	free(p->blocks);
	free(p->places);
	p->blocks = NULL;
	p->places = NULL;
	p->block_count = p->blocks_cap = p->place_cap = 0;
	p->place_count = 0;
	p->bytes = p->len = 0;
	p->begun = false;
}

void packed_text_free(struct packed_text *p)
{
	if (!p)
		return;
	packed_text_drop(p);
	free(p);
}

static void count_bytes(struct packed_text *p, uint64_t n)
{
	atomic_fetch_add_explicit(&p->bytes, n, memory_order_relaxed);
}

void packed_text_begin(struct packed_text *p)
{
	p->begun = true;
}

static bool add_place(struct packed_text *p, uint32_t number, struct gunzip_place *inflater)
{
	uint32_t cap = p->place_cap;
	if (!inflater || !array_reserve(&p->places, &p->place_cap, number + (size_t)1, sizeof *p->places))
		return false;
	count_bytes(p, (p->place_cap - cap) * sizeof *p->places + gunzip_place_bytes(inflater));
	p->places[number] = (struct place){inflater, p->len};
	atomic_store_explicit(&p->place_count, number + 1, memory_order_relaxed);
	return true;
}

bool packed_text_pass(struct packed_text *p, uint64_t text, const struct gunzip *from)
{
	uint32_t count = atomic_load_explicit(&p->place_count, memory_order_relaxed);
	if (!p->begun || text / PACKED_STRETCH < p->first + count)
		return true;
	struct gunzip_place *inflater = gunzip_save(from);
	if (add_place(p, count, inflater))
		return true;
	gunzip_place_free(inflater);
	return false;
}

static bool add_block(struct packed_text *p)
{
	uint32_t cap = p->blocks_cap;
	if (!array_reserve(&p->blocks, &p->blocks_cap, p->block_count + (size_t)1, sizeof *p->blocks))
		return false;
	uint8_t *block = block_get(p->pool);
	if (!block)
		return false;
	p->blocks[p->block_count++] = block;
	count_bytes(p, (p->blocks_cap - cap) * sizeof *p->blocks + BLOCK_SIZE);
	return true;
}

bool packed_text_add(struct packed_text *p, const uint8_t *data, size_t len)
{
	if (!p->place_count)
		return true;
	for (size_t n; len; data += n, len -= n) {
		size_t at = p->len % BLOCK_SIZE;
		if (p->len / BLOCK_SIZE == p->block_count && !add_block(p))
			return false;
		n = BLOCK_SIZE - at < len ? BLOCK_SIZE - at : len;
		memcpy(p->blocks[p->block_count - 1] + at, data, n);
		p->len += n;
	}
	return true;
}

bool packed_text_has(const struct packed_text *p, uint64_t stretch)
{
	return stretch >= p->first && stretch - p->first < atomic_load_explicit(&p->place_count, memory_order_relaxed);
}

uint64_t packed_text_bytes(const struct packed_text *p)
{
	return sizeof *p + atomic_load_explicit(&p->bytes, memory_order_relaxed);
}

/* Fills the block with text, or as much as there is. */
static bool inflate_block(const struct packed_text *p, struct gunzip *with, uint64_t *at, uint8_t *to)
{
	size_t room = BLOCK_SIZE, got = 0;
	do {
		size_t left = BLOCK_SIZE - *at % BLOCK_SIZE;
		size_t len = p->len - *at < left ? (size_t)(p->len - *at) : left;
		const uint8_t *from = len ? p->blocks[*at / BLOCK_SIZE] + *at % BLOCK_SIZE : to, *next = from;
		if (gunzip_step(with, &next, &len, to, room, &got))
			return false;
		*at += (size_t)(next - from);
		to += got;
		room -= got;
	} while (room && (got || *at < p->len));
	return true;
}

bool packed_text_read(const struct packed_text *p, struct gunzip *with, uint64_t stretch, uint8_t *const *blocks)
{
	const struct place *place = &p->places[stretch - p->first];
	uint64_t at = place->at;
	bool good = gunzip_go(with, place->inflater);
	for (unsigned i = 0; i < PACKED_STRETCH_BLOCKS && good; i++)
		good = inflate_block(p, with, &at, blocks[i]);
	return good;
}
