/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of sets with a few places each, in shards with a lock of their own, which is held for a look at one set.
 * Nobody waits for it, since its holder may lose its core to a load, for tens of milliseconds: while a shard is locked,
 * its frames are missed for others, and none is added. A frame is added when it is missed for the second time within
 * some thousand misses: who asks only distinct frames adds none.
 *
 *   hash of the key:  shard | set | tag in the list of late misses
 */
#include <config.h>

#include "cache/hot_frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/account.h"

enum {
	SHARDS = 64,
	SETS = 64, /* of a shard */
	WAYS = 4,
	MISSES = 1024,   /* of a shard, remembered by a tag each */
	WITHHELD = 64,   /* of so many hits one is treated as a miss */
	LARGEST = 16384, /* bytes of a text that is kept */
};

struct shard {
	atomic_flag locked; /* guards what follows */
	uint64_t bytes;
	unsigned hand; /* the set from which room is made next */
	struct hot_frame *places[SETS][WAYS];
	uint16_t misses[MISSES];
};

struct hot_frames {
	uint64_t seed, budget; /* budget: of a shard */
	struct shard shards[SHARDS];
};

struct hot_frames *hot_frames_new(uint64_t budget, uint64_t seed)
{
	struct hot_frames *h = budget ? calloc(1, sizeof *h) : NULL;
	if (!h)
		return NULL;
	h->seed = seed;
	h->budget = budget / SHARDS;
	return h;
}

void hot_frames_free(struct hot_frames *h)
{
	for (unsigned i = 0; h && i < SHARDS; i++)
		for (unsigned k = 0; k < SETS * WAYS; k++)
			hot_frame_unref(h->shards[i].places[k / WAYS][k % WAYS]);
	free(h);
}

static uint64_t mixed(uint64_t v)
{
	v = (v ^ v >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return v ^ v >> 32;
}

static uint64_t hash_of(const struct hot_frames *h, const struct hot_key *key)
{
	uint64_t module;
	memcpy(&module, key->module.bytes, sizeof module);
	module = mixed(module ^ h->seed) ^ key->generation;
	return mixed(mixed(module ^ key->address) + key->offset + key->function_only);
}

static bool is_equal(const struct hot_key *a, const struct hot_key *b)
{
	return a->address == b->address && a->offset == b->offset && a->generation == b->generation &&
	       a->function_only == b->function_only && module_hash_equal(&a->module, &b->module);
}

static struct shard *shard_of(struct hot_frames *h, uint64_t hash)
{
	return &h->shards[hash % SHARDS];
}

static struct hot_frame **set_of(struct shard *s, uint64_t hash)
{
	return s->places[hash / SHARDS % SETS];
}

static struct hot_frame *find(struct hot_frame *const *set, const struct hot_key *key)
{
	for (unsigned i = 0; i < WAYS; i++)
		if (set[i] && is_equal(&set[i]->key, key))
			return set[i];
	return NULL;
}

/* Whether it was missed not long ago; from now on it was. */
static bool is_missed_again(struct shard *s, uint64_t hash)
{
	uint16_t *late = &s->misses[hash >> 32 & (MISSES - 1)], tag = (uint16_t)(hash >> 48 | 1);
	bool again = *late == tag;
	*late = tag;
	return again;
}

struct hot_frame *hot_frames_get(struct hot_frames *h, const struct hot_key *key, bool *wanted)
{
	*wanted = false;
	if (!h)
		return NULL;
	uint64_t hash = hash_of(h, key);
	struct shard *s = shard_of(h, hash);
	if (atomic_flag_test_and_set_explicit(&s->locked, memory_order_acquire))
		return NULL;
	struct hot_frame *f = find(set_of(s, hash), key);
	if (!f) {
		*wanted = is_missed_again(s, hash);
	} else {
		f->used = true;
		if (++f->hits % WITHHELD)
			atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
		else
			f = NULL;
	}
	atomic_flag_clear_explicit(&s->locked, memory_order_release);
	return f;
}

static uint64_t bytes_of(uint32_t len)
{
	return sizeof(struct hot_frame) + len;
}

struct hot_frame *hot_frame_new(const struct hot_key *key, uint32_t len)
{
	struct hot_frame *f = NULL;
	if (len <= LARGEST && account_take(ACCOUNT_PAGES, bytes_of(len)) && !(f = malloc(bytes_of(len))))
		account_add(ACCOUNT_PAGES, -(int64_t)bytes_of(len));
	if (!f)
		return NULL;
	*f = (struct hot_frame){.refs = 1, .key = *key, .len = len};
	return f;
}

void hot_frame_unref(struct hot_frame *f)
{
	if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) > 1)
		return;
	account_add(ACCOUNT_PAGES, -(int64_t)bytes_of(f->len));
	free(f);
}

static void drop(struct shard *s, struct hot_frame **place)
{
	s->bytes -= bytes_of((*place)->len);
	hot_frame_unref(*place);
	*place = NULL;
}

/* A free place of a set, from which the first unused frame goes if it is full; of used ones the last. */
static struct hot_frame **make_place(struct shard *s, struct hot_frame **set)
{
	struct hot_frame **place = &set[WAYS - 1];
	for (unsigned i = WAYS; i-- > 0;)
		if (!set[i])
			return &set[i];
	for (unsigned i = WAYS; i-- > 0;) {
		if (!set[i]->used)
			place = &set[i];
		set[i]->used = false;
	}
	drop(s, place);
	return place;
}

/* Goes round the sets: what was not used since the last round goes. */
static void shrink(struct shard *s, uint64_t budget)
{
	for (unsigned turn = 0; s->bytes > budget && turn < 2 * SETS; turn++, s->hand = (s->hand + 1) % SETS)
		for (unsigned i = 0; i < WAYS && s->bytes > budget; i++) {
			struct hot_frame **place = &s->places[s->hand][i];
			if (*place && (*place)->used)
				(*place)->used = false;
			else if (*place)
				drop(s, place);
		}
}

void hot_frames_add(struct hot_frames *h, struct hot_frame *f)
{
	uint64_t hash = hash_of(h, &f->key);
	struct shard *s = shard_of(h, hash);
	struct hot_frame **set = set_of(s, hash);
	if (atomic_flag_test_and_set_explicit(&s->locked, memory_order_acquire))
		return;
	if (!find(set, &f->key)) {
		*make_place(s, set) = f;
		atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
		s->bytes += bytes_of(f->len);
		shrink(s, h->budget);
	}
	atomic_flag_clear_explicit(&s->locked, memory_order_release);
}
