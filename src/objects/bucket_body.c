/* SPDX-License-Identifier: Apache-2.0 */
/* Headers lie about compression (files stored as gzip and served with or without Content-Encoding, or compressed again
 * on the way), so the first bytes decide: of the body, and again of what it inflates to. A third layer is not
 * looked for. */
#include <config.h>

#include "objects/bucket_backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/clock.h"

enum { BETWEEN_SIZE = 65536 };

void bucket_body_release(struct bucket_body *b)
{
	for (unsigned i = 0; i < BODY_LAYERS; i++)
		unpacker_free(b->layers[i].unpacker);
	free(b->between);
}

void bucket_body_start(struct bucket_body *b, const struct bucket_sink *sink, uint64_t max)
{
	const struct bucket_body old = *b;
	max = max < UINT64_MAX / 4 ? max : UINT64_MAX / 4; /* so that sums of it do not overflow */
	*b = (struct bucket_body){.sink = sink, .max = max, .problem = "", .between = old.between};
	for (unsigned i = 0; i < BODY_LAYERS; i++)
		b->layers[i].unpacker = old.layers[i].unpacker;
}

void bucket_body_start_raw(struct bucket_body *b, const struct bucket_raw_sink *sink, uint64_t max)
{
	bucket_body_start(b, NULL, max);
	b->raw = sink;
}

static bool stop_body(struct bucket_body *b, enum bucket_outcome outcome, const char *problem)
{
	b->outcome = outcome;
	b->problem = problem;
	return false;
}

/* Room in the sink, at most one byte more than the object may have. */
static uint8_t *text_space(struct bucket_body *b, size_t *room)
{
	uint8_t *space = b->sink->space(b->sink->arg, room);
	uint64_t left = b->max - b->text + 1;
	if (space && *room > left)
		*room = (size_t)left;
	if (!space || *room == 0)
		stop_body(b, BUCKET_ABORTED, "stopped by the reader");
	return space;
}

static bool text_commit(struct bucket_body *b, const uint8_t *space, size_t n)
{
	if (n == 0)
		return true;
	if (n > b->max - b->text)
		return stop_body(b, BUCKET_TOO_LARGE, "larger than bucket_max_size");
	b->text += n;
	b->last = space[n - 1];
	background_give_way();
	return b->sink->commit(b->sink->arg, n) || stop_body(b, BUCKET_ABORTED, "stopped by the reader");
}

static bool text_copy(struct bucket_body *b, const uint8_t *data, size_t len)
{
	while (len > 0) {
		size_t room = 0;
		uint8_t *space = text_space(b, &room);
		if (b->outcome != BUCKET_OK)
			return false;
		size_t n = len < room ? len : room;
		memcpy(space, data, n);
		if (!text_commit(b, space, n))
			return false;
		data += n;
		len -= n;
	}
	return true;
}

/* Whether a step went well. */
static bool inflated(struct bucket_body *b, const struct body_layer *l, enum err e)
{
	if (e == ERR_NO_MEMORY)
		return stop_body(b, BUCKET_FAILED, "out of memory");
	return !e || stop_body(b, BUCKET_BROKEN, unpacker_bad(l->unpacker));
}

/* The inflated bytes are text: they go straight into the sink, as much at a time as it has room for. */
static bool inflate_text(struct bucket_body *b, struct body_layer *l, const uint8_t *data, size_t len)
{
	size_t room = 0, got = 0;
	do {
		uint8_t *space = text_space(b, &room);
		if (b->outcome != BUCKET_OK ||
		        !inflated(b, l, unpacker_step(l->unpacker, &data, &len, space, room, &got)) ||
		        !text_commit(b, space, got))
			return false;
	} while (len > 0 || got == room);
	return true;
}

static bool layer_add(struct bucket_body *b, unsigned level, const uint8_t *data, size_t len);

/* The first inflated bytes, and all of them if they are packed again, go through the layer below. */
static bool inflate_layer(struct bucket_body *b, unsigned level, const uint8_t *data, size_t len)
{
	struct body_layer *l = &b->layers[level];
	size_t room, got;
	do {
		struct body_layer *below = level + 1 < BODY_LAYERS ? &b->layers[level + 1] : NULL;
		if (!below || below->head.packing == PACKING_NONE)
			return inflate_text(b, l, data, len);
		room = below->head.packing == PACKING_UNKNOWN ? PACKING_HEAD - below->head.len : BETWEEN_SIZE;
		if (!inflated(b, l, unpacker_step(l->unpacker, &data, &len, b->between, room, &got)) ||
		        !layer_add(b, level + 1, b->between, got))
			return false;
	} while (len > 0 || got == room);
	return true;
}

static bool start_unpacking(struct bucket_body *b, struct body_layer *l)
{
	if (!l->unpacker)
		l->unpacker = unpacker_new();
	if (!b->between)
		b->between = malloc(BETWEEN_SIZE);
	bool started = l->unpacker && b->between && unpacker_start(l->unpacker, l->head.packing);
	return started || stop_body(b, BUCKET_FAILED, "out of memory");
}

/* Collects bytes in the head until the packing is known. */
static bool layer_look(struct bucket_body *b, struct body_layer *l, const uint8_t **data, size_t *len)
{
	return !packing_look(&l->head, data, len) || l->head.packing == PACKING_NONE || start_unpacking(b, l);
}

static bool layer_pass(struct bucket_body *b, unsigned level, const uint8_t *data, size_t len)
{
	if (len == 0)
		return true;
	return b->layers[level].head.packing == PACKING_NONE ? text_copy(b, data, len)
	                                                     : inflate_layer(b, level, data, len);
}

/* Data that inflates to nothing is bounded too; gzip of noise is slightly larger than the noise. */
static bool layer_count(struct bucket_body *b, struct body_layer *l, size_t len)
{
	l->bytes += len;
	return l->bytes <= b->max + b->max / 8 + BETWEEN_SIZE ||
	       stop_body(b, BUCKET_TOO_LARGE, "larger than bucket_max_size");
}

static bool layer_add(struct bucket_body *b, unsigned level, const uint8_t *data, size_t len)
{
	struct body_layer *l = &b->layers[level];
	if (!layer_count(b, l, len))
		return false;
	if (l->head.packing != PACKING_UNKNOWN)
		return layer_pass(b, level, data, len);
	if (!layer_look(b, l, &data, &len))
		return false;
	return l->head.packing == PACKING_UNKNOWN ||
	       (layer_pass(b, level, l->head.bytes, l->head.len) && layer_pass(b, level, data, len));
}

enum bucket_outcome bucket_body_begin(struct bucket_body *b, const struct bucket_head *head)
{
	if (b->no_page && head->page && b->outcome == BUCKET_OK)
		stop_body(b, BUCKET_MISSING, "a page of HTML, such as a listing, and no file");
	bool first = b->raw && b->raw->begin && !b->begun && b->outcome == BUCKET_OK;
	if (first && !b->raw->begin(b->raw->arg, head))
		stop_body(b, BUCKET_ABORTED, "stopped by the reader");
	b->begun = b->begun || first;
	return b->outcome;
}

static bool pass_raw(struct bucket_body *b, const uint8_t *data, size_t len)
{
	if (!layer_count(b, &b->layers[0], len) || len == 0)
		return b->outcome == BUCKET_OK;
	b->text += len;
	b->last = data[len - 1];
	return b->raw->add(b->raw->arg, data, len) || stop_body(b, BUCKET_ABORTED, "stopped by the reader");
}

enum bucket_outcome bucket_body_add(struct bucket_body *b, const uint8_t *data, size_t len)
{
	if (!b->answered)
		b->answered = clock_now();
	if (b->outcome == BUCKET_OK && b->raw)
		pass_raw(b, data, len);
	else if (b->outcome == BUCKET_OK)
		layer_add(b, 0, data, len);
	else if (b->outcome == BUCKET_BROKEN)
		layer_count(b, &b->layers[0], len);
	return b->outcome;
}

enum bucket_outcome bucket_body_end(struct bucket_body *b)
{
	for (unsigned i = 0; i < BODY_LAYERS && b->outcome == BUCKET_OK && !b->raw; i++) {
		struct body_layer *l = &b->layers[i];
		if (l->head.packing == PACKING_UNKNOWN)
			text_copy(b, l->head.bytes, l->head.len); /* a text of a few bytes or none */
		else if (l->head.packing != PACKING_NONE && !unpacker_complete(l->unpacker))
			stop_body(b, BUCKET_BROKEN, unpacker_cut(l->unpacker));
		l->head.len = 0;
	}
	return b->outcome;
}

bool bucket_body_trails(const struct bucket_body *b)
{
	bool trails = false;
	for (unsigned i = 0; i < BODY_LAYERS && !b->raw; i++)
		trails |= b->layers[i].head.packing == PACKING_GZIP && unpacker_trails(b->layers[i].unpacker);
	return trails;
}
