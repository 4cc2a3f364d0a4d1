/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/sets.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"

enum { ARENA_MAX = 1 << 30 };

struct entry {
	struct set_object o;
	const char *path; /* which o points into */
	uint64_t size;
	int64_t time;
};

struct listing {
	struct arena *arena;
	struct entry *entries;
	size_t count;
	uint32_t cap;
	bool no_memory;
};

/* ---- what is there ---- */

static const char *copy(struct arena *a, struct str text)
{
	char *out = arena_alloc(a, text.len + 1);
	if (!out)
		return NULL;
	memcpy(out, text.data, text.len);
	out[text.len] = 0;
	return out;
}

static bool add_entry(struct listing *l, struct str path, uint64_t size, int64_t time)
{
	struct entry x = {.path = copy(l->arena, path), .size = size, .time = time};
	if (!x.path || !array_reserve(&l->entries, &l->cap, l->count + 1, sizeof *l->entries))
		return false;
	set_object_parse(&x.o, str_from(x.path));
	l->entries[l->count++] = x;
	return true;
}

static bool on_object(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct listing *l = arg;
	struct set_object o;
	if (set_object_parse(&o, path))
		l->no_memory = !add_entry(l, path, size, time);
	return !l->no_memory;
}

static int set_order(const struct entry *a, const struct entry *b)
{
	return a->o.kind != b->o.kind ? (a->o.kind < b->o.kind ? -1 : 1) : str_order(a->o.set, b->o.set);
}

/* Manifests first, then parts by number; of one number the newest first. */
static int entry_order(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = set_order(x, y);
	if (order || x->o.manifest != y->o.manifest)
		return order ? order : y->o.manifest - x->o.manifest;
	if (!x->o.manifest && x->o.part.part != y->o.part.part)
		return x->o.part.part < y->o.part.part ? -1 : 1;
	return x->time != y->time ? (x->time < y->time ? 1 : -1) : strcmp(x->path, y->path);
}

/* ---- sets ---- */

static void take_part(struct symbfile_set *s, const struct entry *x)
{
	s->have[s->have_count++] = (struct set_part){x->o.part.part, x->path, x->size};
}

static const struct entry *find_part(const struct entry *parts, size_t count, const char *name)
{
	struct part_name wanted;
	if (!name || !part_name_parse(&wanted, str_from(name)))
		return NULL;
	size_t low = 0, high = count;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (parts[mid].o.part.part < wanted.part)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < count && parts[low].o.part.part == wanted.part; low++)
		if (str_equal(parts[low].o.name, str_from(name)))
			return &parts[low];
	return NULL;
}

/* Takes the parts that a manifest names, and is complete if all are there. False if out of memory. */
static bool take_named(struct symbfile_sets *sets, struct symbfile_set *s, const struct entry *parts, size_t count,
        const json_t *names)
{
	size_t named = json_array_size(names);
	s->complete = false;
	s->have_count = 0;
	if (!named || named > SET_PARTS_MAX)
		return true;
	s->have = arena_calloc(&sets->arena, named, sizeof *s->have);
	for (size_t i = 0; s->have && i < named; i++) {
		const struct entry *x = find_part(parts, count, json_string_value(json_array_get(names, i)));
		if (!x || x->o.part.part != i || x->o.part.parts != named)
			return true;
		take_part(s, x);
	}
	s->parts = (unsigned)named;
	s->complete = s->have;
	return s->have;
}

/* What is there of a set without manifest: of each number the newest, and of the same number of parts. */
static bool take_pending(struct symbfile_sets *sets, struct symbfile_set *s, const struct entry *parts, size_t count)
{
	s->complete = false;
	s->have_count = 0;
	s->have = arena_calloc(&sets->arena, count + 1, sizeof *s->have);
	for (size_t i = 0; i < count; i++)
		if (parts[i].time > s->time || !s->parts) {
			s->time = parts[i].time;
			s->parts = parts[i].o.part.parts;
		}
	for (size_t i = 0; s->have && i < count; i++) {
		const struct part_name *p = &parts[i].o.part;
		bool again = s->have_count && s->have[s->have_count - 1].part == p->part;
		if (p->parts == s->parts && !again)
			take_part(s, &parts[i]);
	}
	s->all_there = s->have && s->have_count == s->parts;
	return s->have;
}

/* Which manifests are read that are not forced: those of the sets that may be the best, by what the names of their
 * parts say, then the newest. */
struct rank {
	enum set_quality quality;
	int64_t time;
};

static bool ranks_before(struct rank a, struct rank b)
{
	return a.quality != b.quality ? a.quality > b.quality : a.time > b.time;
}

/* Of the set with these entries; a time of 0: it has no such manifest. */
static struct rank rank_of(const struct entry *first, size_t count)
{
	struct symbfile_counts counts = {0};
	struct rank rank = {.time = 0};
	for (const struct entry *x = first; x < first + count; x++)
		if (!x->o.manifest)
			symbfile_counts_add(&counts, &x->o.part.counts);
		else if (!x->o.forced)
			rank.time = x->time;
	rank.quality = set_quality_of(&counts, false);
	return rank;
}

static size_t set_end(const struct listing *l, size_t at)
{
	size_t end = at;
	while (end < l->count && set_order(&l->entries[at], &l->entries[end]) == 0)
		end++;
	return end;
}

/* The last of a kind. */
static struct rank last_to_read(const struct listing *l, enum symbfile_kind kind)
{
	struct rank first[MANIFESTS_READ];
	size_t n = 0;
	for (size_t i = 0, end; i < l->count; i = end) {
		end = set_end(l, i);
		struct rank rank = rank_of(&l->entries[i], end - i);
		if (l->entries[i].o.kind != kind || !rank.time)
			continue;
		size_t at = n < MANIFESTS_READ ? n++ : MANIFESTS_READ;
		for (; at > 0 && ranks_before(rank, first[at - 1]); at--)
			if (at < MANIFESTS_READ)
				first[at] = first[at - 1];
		if (at < MANIFESTS_READ)
			first[at] = rank;
	}
	return n < MANIFESTS_READ ? (struct rank){.time = INT64_MIN} : first[n - 1];
}

/* Where a manifest is read: its store, and what it costs. */
struct reading {
	struct store_client *client;
	const atomic_bool *cancel;
	struct rank last[SYMBFILE_KINDS];
	unsigned left; /* manifests that may still be read */
};

/* Reads a manifest and takes the parts that it names; a set whose manifest is none, or whose parts are not all there,
 * stays incomplete. */
static enum err read_set(struct symbfile_sets *sets, struct symbfile_set *s, const struct reading *r, bool forced,
        const struct entry *parts, size_t count, struct error *e)
{
	json_t *names;
	s->manifest = (struct manifest){.kind = s->kind, .set = s->name, .forced = forced};
	enum err err = manifest_get(&s->manifest, &names, r->client, &sets->id, r->cancel, e);
	if (names && !take_named(sets, s, parts, count, names))
		err = no_memory(e);
	json_decref(names);
	s->time = s->manifest.time;
	s->quality = set_quality_of(&s->manifest.counts, s->manifest.dynamic);
	return err;
}

/* A set whose entries are these, the manifests first. */
static enum err take_set(
        struct symbfile_sets *sets, struct reading *r, const struct entry *first, size_t count, struct error *e)
{
	struct symbfile_set *s = &sets->items[sets->count++];
	const struct entry *manifests[2] = {NULL, NULL}, *end = first + count; /* the forced one first */
	bool left_out = ranks_before(r->last[first->o.kind], rank_of(first, count));
	*s = (struct symbfile_set){.kind = first->o.kind, .name = copy(&sets->arena, first->o.set)};
	enum err err = s->name ? ERR_OK : no_memory(e);
	for (; first < end && first->o.manifest; first++)
		manifests[!first->o.forced] = first;
	for (unsigned i = 0; i < 2 && !err && !s->complete; i++)
		if (manifests[i] && (i == 0 || !left_out) && r->left) {
			r->left--;
			err = read_set(sets, s, r, i == 0, first, (size_t)(end - first), e);
		}
	if (!err && !s->complete && !take_pending(sets, s, first, (size_t)(end - first)))
		err = no_memory(e);
	return err;
}

/* ---- which one is used ---- */

bool symbfile_set_is_better(const struct symbfile_set *a, const struct symbfile_set *b)
{
	if (a->complete != b->complete)
		return a->complete;
	if (a->manifest.forced != b->manifest.forced)
		return a->manifest.forced;
	if (!a->manifest.forced && a->quality != b->quality)
		return a->quality > b->quality;
	return a->time != b->time ? a->time > b->time : strcmp(a->name, b->name) > 0;
}

struct feed {
	struct part_read *out;
	struct symbfile_reader *reader;
	struct text_hash *hash;
};

static bool take_in(void *arg, const uint8_t *data, size_t len)
{
	const struct feed *in = arg;
	int64_t start = clock_now();
	in->out->bytes += len;
	if (in->hash)
		text_hash_add(in->hash, data, len);
	enum err err = symbfile_reader_feed(in->reader, data, len, &in->out->error);
	in->out->read_time += clock_now() - start;
	return err == ERR_OK;
}

void symbfile_part_read(struct part_read *out, struct store_client *c, const char *path,
        const struct symbfile_sink *sink, struct text_hash *hash, const atomic_bool *cancel)
{
	struct feed in = {out, symbfile_reader_new(sink), hash};
	*out = (struct part_read){.result.outcome = BUCKET_FAILED};
	if (!in.reader) {
		no_memory(&out->error);
		return;
	}
	store_get(c, path, take_in, &in, cancel, &out->result);
	if (out->result.outcome == BUCKET_OK)
		symbfile_reader_finish(in.reader, &out->error);
	symbfile_reader_free(in.reader);
}

static void choose(struct symbfile_sets *sets, enum symbfile_kind kind)
{
	struct symbfile_set *best = NULL;
	for (size_t i = 0; i < sets->count; i++) {
		struct symbfile_set *s = &sets->items[i];
		if (s->kind == kind && s->complete && (!best || symbfile_set_is_better(s, best)))
			best = s;
	}
	if (best)
		best->answers = true;
	sets->best[kind] = best;
}

static uint64_t hash_of(const struct symbfile_set *s, uint64_t before)
{
	uint64_t hash = before;
	for (unsigned i = 0; s && i < s->have_count; i++) {
		uint64_t numbers[] = {hash, s->have[i].size, (uint64_t)s->time};
		hash = checksum(numbers, sizeof numbers, s->have[i].path, strlen(s->have[i].path));
	}
	return hash;
}

static size_t count_sets(const struct listing *l)
{
	size_t count = 0;
	for (size_t i = 0; i < l->count; i = set_end(l, i))
		count++;
	return count;
}

static enum err gather(struct symbfile_sets *sets, struct listing *l, struct reading *r, struct error *e)
{
	enum err err = ERR_OK;
	if (l->count)
		qsort(l->entries, l->count, sizeof *l->entries, entry_order);
	for (unsigned kind = 0; kind < SYMBFILE_KINDS; kind++)
		r->last[kind] = last_to_read(l, (enum symbfile_kind)kind);
	sets->items = arena_calloc(&sets->arena, count_sets(l) + 1, sizeof *sets->items);
	if (!sets->items)
		return no_memory(e);
	for (size_t i = 0, end; i < l->count && !err; i = end) {
		end = set_end(l, i);
		err = take_set(sets, r, &l->entries[i], end - i, e);
	}
	for (unsigned kind = 0; kind < SYMBFILE_KINDS && !err; kind++)
		choose(sets, (enum symbfile_kind)kind);
	for (unsigned kind = 0; kind < SYMBFILE_KINDS && !err; kind++)
		sets->hash = hash_of(sets->best[kind], sets->hash);
	return err;
}

enum err symbfile_sets_get(struct symbfile_sets *sets, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e)
{
	char path[STORE_PATH_MAX];
	struct reading r = {.client = c, .cancel = cancel, .left = (SYMBFILE_KINDS + 1) * MANIFESTS_READ};
	*sets = (struct symbfile_sets){.id = *id};
	arena_init(&sets->arena, ARENA_MAX);
	struct listing l = {.arena = &sets->arena};
	layout_executable(path, id);
	enum err err = store_list(c, path, on_object, &l, cancel, e);
	if (!err && l.no_memory)
		err = no_memory(e);
	if (!err)
		err = gather(sets, &l, &r, e);
	free(l.entries);
	if (err)
		symbfile_sets_release(sets);
	return err;
}

void symbfile_sets_release(struct symbfile_sets *sets)
{
	arena_release(&sets->arena);
	*sets = (struct symbfile_sets){.count = 0};
}

bool symbfile_sets_merit(struct symbfile_set *merit, const struct symbfile_sets *sets)
{
	const struct symbfile_set *ranges = sets->best[SYMBFILE_RANGES], *pads = sets->best[SYMBFILE_RETURNPADS];
	if (!ranges && !pads)
		return false;
	*merit = ranges ? *ranges : *pads;
	if (ranges && pads && pads->time > ranges->time)
		merit->time = pads->time;
	return true;
}

const char *symbfile_set_reason(const struct symbfile_sets *sets, const struct symbfile_set *best)
{
	const struct symbfile_set *next = NULL;
	if (best->manifest.forced)
		return "forced";
	for (size_t i = 0; i < sets->count; i++) {
		const struct symbfile_set *s = &sets->items[i];
		if (s != best && s->kind == best->kind && s->complete && (!next || symbfile_set_is_better(s, next)))
			next = s;
	}
	if (!next)
		return "the only one";
	return best->quality > next->quality ? "better" : "newer";
}
