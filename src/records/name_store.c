/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "records/name_store.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum {
	WORTH_PACKING = 2 << 10, /* a smaller last block stays raw */
	QUICK = 2,               /* LZ4's acceleration: a tenth less work for a hundredth more bytes */
};

struct name_store_packer {
	LZ4_stream_t stream;
	char out[LZ4_COMPRESSBOUND(NAME_STORE_BLOCK)];
};

void name_store_release(struct name_store *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		free(n->blocks[i].data);
	free(n->blocks);
	free(n->open);
	free(n->packer);
	*n = (struct name_store){0};
}

uint64_t name_store_bytes(const struct name_store *n)
{
	return n->held + n->cap * (uint64_t)sizeof *n->blocks + n->open_cap + (n->packer ? sizeof *n->packer : 0);
}

/* Each block by itself, but with the tables of the one before: to clear them takes a third of the time. */
static bool pack(struct name_store *n, int *len)
{
	if (!n->packer && (n->packer = malloc(sizeof *n->packer)))
		LZ4_initStream(&n->packer->stream, sizeof n->packer->stream);
	if (!n->packer)
		return false;
	LZ4_resetStream_fast(&n->packer->stream);
	*len = LZ4_compress_fast_continue(&n->packer->stream, (const char *)n->open, n->packer->out, (int)n->fill,
	        (int)sizeof n->packer->out, QUICK);
	return true;
}

/* Makes the open block one of the others, compressed if that makes it smaller. */
static bool close_block(struct name_store *n)
{
	int packed = 0;
	if (!array_reserve(&n->blocks, &n->cap, n->count + (size_t)1, sizeof *n->blocks) ||
	        (n->fill >= WORTH_PACKING && !pack(n, &packed)))
		return false;
	bool smaller = packed > 0 && (uint32_t)packed < n->fill;
	struct name_store_block b = {NULL, smaller ? (uint32_t)packed : n->fill, smaller};
	if (!(b.data = malloc(b.len)))
		return false;
	memcpy(b.data, smaller ? (const uint8_t *)n->packer->out : n->open, b.len);
	n->blocks[n->count++] = b;
	n->held += b.len;
	n->fill = 0;
	return true;
}

bool name_store_add(struct name_store *n, const char *text, size_t len, uint64_t *place)
{
	*place = n->count * (uint64_t)NAME_STORE_BLOCK + n->fill;
	while (len) {
		size_t room = NAME_STORE_BLOCK - n->fill, some = len < room ? len : room;
		if (!array_reserve(&n->open, &n->open_cap, n->fill + some, 1))
			return false;
		memcpy(n->open + n->fill, text, some);
		n->fill += (uint32_t)some;
		text += some;
		len -= some;
		if (n->fill == NAME_STORE_BLOCK && !close_block(n))
			return false;
	}
	return true;
}

bool name_store_end(struct name_store *n)
{
	if (n->fill && !close_block(n))
		return false;
	free(n->open);
	free(n->packer);
	n->open = NULL;
	n->packer = NULL;
	n->open_cap = 0;
	return true;
}

/* ---- reading ---- */

/* The strings of a block; NULL if out of memory. */
static const uint8_t *open_block(struct name_store_reader *r, uint32_t number)
{
	const struct name_store_block *b = &r->names->blocks[number];
	if (!b->packed)
		return b->data;
	for (unsigned i = 0; i < NAME_STORE_OPEN; i++)
		if (r->open[i].block == number + 1)
			return r->open[i].data;
	unsigned at = r->next++ % NAME_STORE_OPEN;
	r->open[at].block = 0;
	if (!r->open[at].data && !(r->open[at].data = malloc(NAME_STORE_BLOCK)))
		return NULL;
	if (LZ4_decompress_safe((const char *)b->data, (char *)r->open[at].data, (int)b->len, NAME_STORE_BLOCK) <= 0)
		return NULL;
	r->open[at].block = number + 1;
	return r->open[at].data;
}

const uint8_t *name_store_read(struct name_store_reader *r, uint64_t place, size_t len)
{
	uint32_t block = (uint32_t)(place / NAME_STORE_BLOCK);
	size_t within = place % NAME_STORE_BLOCK, done = 0;
	if (!len)
		return (const uint8_t *)"";
	if (within + len <= NAME_STORE_BLOCK) {
		const uint8_t *data = open_block(r, block);
		return data ? data + within : NULL;
	}
	if (!array_reserve(&r->joined, &r->joined_cap, len, 1))
		return NULL;
	for (; done < len; block++, within = 0) {
		const uint8_t *data = open_block(r, block);
		size_t some = NAME_STORE_BLOCK - within < len - done ? NAME_STORE_BLOCK - within : len - done;
		if (!data)
			return NULL;
		memcpy(r->joined + done, data + within, some);
		done += some;
	}
	return r->joined;
}

void name_store_reader_release(struct name_store_reader *r)
{
	for (unsigned i = 0; i < NAME_STORE_OPEN; i++)
		free(r->open[i].data);
	free(r->joined);
	*r = (struct name_store_reader){0};
}

uint64_t name_store_reader_bytes(const struct name_store_reader *r)
{
	uint64_t bytes = r->joined_cap;
	for (unsigned i = 0; i < NAME_STORE_OPEN; i++)
		bytes += r->open[i].data ? NAME_STORE_BLOCK : 0;
	return bytes;
}
