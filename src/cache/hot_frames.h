/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are asked for again and again, as they stand in replies. */
#ifndef CACHE_HOT_FRAMES_H
#define CACHE_HOT_FRAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

/* What a text depends on: the same as a page, which a new file of the module changes; the place; and the form. */
struct hot_key {
	struct module_hash module;
	uint64_t generation;
	uint64_t address, offset; /* in the map, and as the request has it */
	bool function_only;       /* the head of v4; otherwise the tail of v5 */
};

/* Immutable, and held by whoever has a reference. */
struct hot_frame {
	atomic_uint refs;
	struct hot_key key;
	bool used;     /* since the clock last passed */
	uint32_t hits; /* under the lock of its shard, as is `used` */
	bool found;    /* a symbol answers */
	uint32_t len;
	uint8_t text[];
};

struct hot_frames;

/* budget: bytes of frames, which are charged to the account of memory. NULL if out of memory, or if budget is 0. */
struct hot_frames *hot_frames_new(uint64_t budget, uint64_t seed);
void hot_frames_free(struct hot_frames *h); /* NULL is fine; frames that are held stay */

/* The frame with a further reference, or NULL. Nobody waits: a frame that is there is missed while another thread looks
 * near it. Once in a while it is withheld, so that the pages behind it count as used. *wanted: it was asked for not
 * long ago, so it is worth adding. h may be NULL. */
struct hot_frame *hot_frames_get(struct hot_frames *h, const struct hot_key *key, bool *wanted);
void hot_frame_unref(struct hot_frame *f);

/* A frame with one reference for a text of len bytes, to be written by the caller and then added. NULL: no memory, or
 * the account has no room. */
struct hot_frame *hot_frame_new(const struct hot_key *key, uint32_t len);
/* Takes a further reference, if it is added: not while another thread looks near its place. */
void hot_frames_add(struct hot_frames *h, struct hot_frame *f);

#endif
