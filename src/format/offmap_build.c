/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols come in the order of the file. As long as their addresses ascend and every id is defined before it is used,
 * they go through the sweep and into pages at once. The first symbol that comes late (or definition that comes behind
 * its use) switches the builder over: the pages made so far are taken apart again, everything is kept flat in one blob,
 * and at the end sorted, swept and encoded.
 *
 * The sweep decides which symbol answers for each address (lookup rules 1 to 3 of docs/sym-files.md) and cuts functions
 * accordingly, so that pieces never overlap and a lookup is a search for the last one at or below the offset.
 *
 * A map for a few offsets (offmap_builder_ask) is built late from the start, of the symbols that matter to them.
 * Strings wait as they were in the file until it is known which are used.
 */
#include <config.h>

#include "format/offmap_build.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "format/offmap_asked.h"
#include "format/offmap_encode.h"
#include "format/offmap_flat.h"
#include "format/offmap_memory.h"
#include "format/offmap_queue.h"
#include "format/offmap_value.h"

typedef unsigned __int128 position; /* addresses and the end behind the last one */
#define ADDRESS_END ((position)1 << 64)

enum {
	DRAINS_MAX = 200,     /* growing tables take some 60 */
	FLATTEN_SHARE = 3,    /* what flattening takes at most for each byte of records */
	LARGE_FUNC = 1 << 20, /* bytes of that, which are counted before they are taken */
};

/* ids of FILE or INLINE_ORIGIN -> slot: small ids by index, sparse ones by hash. */
struct id_entry {
	uint64_t id;
	uint32_t slot; /* 0: free */
};

struct id_table {
	uint32_t *dense;
	uint32_t dense_cap;
	struct id_entry *sparse;
	uint32_t sparse_cap, sparse_count;
	uint32_t count; /* ids seen */
	uint64_t salt;  /* so that nobody can choose ids that share a place */
	uint32_t last_slot;
	uint64_t last_id;
};

/* Of a slot, what its pages do not need. */
struct slot_source {
	const char *raw; /* offmap_builder_ask: the text in the file, `hash` bytes of it */
	uint64_t hash;   /* of a long text */
};

struct late_symbol {
	uint64_t addr;
	uint64_t order;
	uint64_t at; /* in the blob */
	bool is_public;
};

struct offmap_builder {
	struct offmap_options options;
	struct encoder *encoder;
	struct flattener *flattener;
	struct id_table files, origins;
	struct string_table strings;
	struct slot_source *sources; /* by slot, as many as there is room for slots */
	/* the function whose records are coming: `own`, or one of the queue's */
	struct parsed_symbol *func, own;
	/* options.threaded: who works on symbols as long as they come in order. Of this struct the thread has what is
	 * under "the sweep" below, the flattener, and all of the encoder but its string pages. */
	struct symbol_queue *queue;
	atomic_bool work_failed;
	bool no_queue;      /* no longer, or not to be had */
	bool long_names;    /* of functions: the thread writes string pages, too */
	unsigned drains;    /* of the queue */
	uint64_t last_addr; /* of the symbol added last */
	uint8_t *scratch;   /* escaped text */
	size_t scratch_cap;
	/* the sweep */
	struct flat **stack; /* functions that may still cover something, the one that answers on top */
	uint32_t stack_count, stack_cap;
	struct flat **group; /* functions that start at group_addr */
	uint32_t group_count, group_cap;
	position group_covered[2]; /* their greatest size + 1, by has_lines; 0: none */
	struct flat *group_public; /* and the first PUBLIC there */
	bool in_group, group_empty_func;
	uint64_t group_addr;
	struct flat *last_public; /* no FUNC started behind it */
	position cursor;
	struct flat *spare; /* free flats */
	/* late mode */
	bool late;
	uint64_t *empty_funcs; /* addresses of FUNCs of size 0: they hide PUBLICs, and leave no piece */
	uint32_t empty_count, empty_cap;
	uint8_t *blob;
	uint64_t blob_len, blob_cap;
	struct late_symbol *symbols;
	uint32_t symbol_count, symbol_cap;
	uint64_t order;
	/* a map for a few offsets */
	struct asked *asked; /* NULL: for all */
	enum offmap_want want;
	struct arena raw; /* texts as they were in the file */
	/* What is held. Each sum is written by who has what it counts, the pages are the encoder's to count. */
	struct offmap_memory memory;
	_Atomic uint64_t table_bytes; /* names, ids, records of the function that is coming */
	_Atomic uint64_t sweep_bytes; /* the flattener, the sweep and late mode */
	uint64_t name_bytes;          /* of functions and PUBLICs, wherever they wait */
	uint64_t flat_bytes;          /* of all flats; of who sweeps */
	atomic_bool too_large;
	/* the map to be */
	struct offmap *map;
	bool failed;
};

static struct page *shrink_lz4(struct page *p)
{
	return page_compress(p, CODEC_LZ4);
}

static struct page *shrink_zstd(struct page *p)
{
	return page_compress(p, CODEC_ZSTD);
}

struct offmap_builder *offmap_builder_new(const struct offmap_options *options)
{
	struct offmap_builder *b = calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->options = *options;
	offmap_memory_init(&b->memory, options);
	b->encoder = encoder_new(options->raw_budget, options->codec == CODEC_ZSTD ? shrink_zstd : shrink_lz4);
	b->flattener = flattener_new();
	b->map = calloc(1, sizeof *b->map);
	b->strings.cap = 64;
	b->strings.slots = calloc(b->strings.cap, sizeof *b->strings.slots);
	b->sources = calloc(b->strings.cap, sizeof *b->sources);
	b->strings.count = 1;
	if (getrandom(&b->files.salt, sizeof b->files.salt, GRND_NONBLOCK) > 0)
		b->origins.salt = ~b->files.salt;
	if (!b->encoder || !b->flattener || !b->map || !b->strings.slots || !b->sources) {
		offmap_builder_free(b);
		return NULL;
	}
	return b;
}

static void free_id_table(struct id_table *t)
{
	free(t->dense);
	free(t->sparse);
}

void offmap_builder_free(struct offmap_builder *b)
{
	if (!b)
		return;
	atomic_store(&b->work_failed, true); /* what waits is not wanted any more */
	symbol_queue_stop(b->queue);
	for (uint32_t i = 0; i < b->stack_count; i++)
		flat_free(b->stack[i]);
	for (uint32_t i = 0; i < b->group_count; i++)
		flat_free(b->group[i]);
	while (b->spare) {
		struct flat *next = b->spare->next;
		flat_free(b->spare);
		b->spare = next;
	}
	parsed_symbol_release(&b->own);
	flat_free(b->group_public);
	flat_free(b->last_public);
	encoder_free(b->encoder);
	flattener_free(b->flattener);
	free_id_table(&b->files);
	free_id_table(&b->origins);
	offmap_free(b->map);
	free(b->strings.slots);
	free(b->strings.texts);
	free(b->sources);
	asked_free(b->asked);
	arena_release(&b->raw);
	free(b->scratch);
	free(b->stack);
	free(b->group);
	free(b->empty_funcs);
	free(b->blob);
	free(b->symbols);
	offmap_memory_release(&b->memory);
	free(b);
}

bool offmap_builder_ask(struct offmap_builder *b, const uint64_t *offsets, size_t count)
{
	b->asked = asked_new(offsets, count, b->options.nearest);
	b->late = true;
	b->want = OFFMAP_WANT_NOTHING;
	arena_init(&b->raw, SIZE_MAX);
	return b->asked != NULL;
}

enum offmap_want offmap_builder_want(const struct offmap_builder *b)
{
	return b->want;
}

void offmap_builder_use_threads(struct offmap_builder *b)
{
	b->options.threaded = true;
}

/* ---- what is held ---- */

bool offmap_builder_too_large(const struct offmap_builder *b)
{
	return atomic_load(&b->too_large);
}

static bool check_memory(struct offmap_builder *b)
{
	uint64_t bytes = atomic_load_explicit(&b->table_bytes, memory_order_relaxed) +
	                 atomic_load_explicit(&b->sweep_bytes, memory_order_relaxed) + encoder_held_bytes(b->encoder);
	if (offmap_memory_set(&b->memory, bytes))
		return true;
	atomic_store(&b->too_large, true);
	return false;
}

static uint64_t id_table_bytes(const struct id_table *t)
{
	return (uint64_t)t->dense_cap * sizeof *t->dense + (uint64_t)t->sparse_cap * sizeof *t->sparse;
}

/* To be called where the caller's part has grown. false: more than may be. */
static bool count_tables(struct offmap_builder *b)
{
	uint64_t bytes = (uint64_t)b->strings.cap * (sizeof *b->strings.slots + sizeof *b->sources) +
	                 b->strings.texts_cap + id_table_bytes(&b->files) + id_table_bytes(&b->origins) +
	                 b->name_bytes + func_records_bytes(&b->own.records);
	if (b->func && b->func != &b->own)
		bytes += func_records_bytes(&b->func->records);
	if (b->asked)
		bytes += b->raw.used + asked_bytes(b->asked);
	atomic_store_explicit(&b->table_bytes, bytes, memory_order_relaxed);
	return check_memory(b);
}

/* The same of who sweeps; `more` is what will be needed in a moment. */
static bool count_sweep(struct offmap_builder *b, uint64_t more)
{
	uint64_t bytes = b->flat_bytes + flattener_bytes(b->flattener) + b->blob_len +
	                 (uint64_t)b->symbol_count * sizeof *b->symbols +
	                 (uint64_t)b->empty_cap * sizeof *b->empty_funcs +
	                 ((uint64_t)b->stack_cap + b->group_cap) * sizeof *b->stack + more;
	atomic_store_explicit(&b->sweep_bytes, bytes, memory_order_relaxed);
	return check_memory(b);
}

static void count_flat(struct offmap_builder *b, struct flat *f)
{
	b->flat_bytes += flat_bytes(f) - f->counted;
	f->counted = flat_bytes(f);
}

static struct flat *take_flat(struct offmap_builder *b)
{
	struct flat *f = b->spare;
	if (!f)
		return calloc(1, sizeof *f);
	b->spare = f->next;
	f->is_public = f->has_lines = false;
	f->size = 0;
	f->node_count = f->segment_count = f->next_segment = 0;
	f->name_len = f->name_external = f->name_page = 0;
	return f;
}

static void drop_flat(struct offmap_builder *b, struct flat *f)
{
	if (!f)
		return;
	f->next = b->spare;
	b->spare = f;
}

/* ---- the thread ---- */

/* From here on everything is done by the caller. */
static void end_queue(struct offmap_builder *b)
{
	b->no_queue = true;
	if (!b->queue)
		return;
	if (b->func) {
		struct parsed_symbol spare = b->own;
		b->own = *b->func;
		*b->func = spare;
		b->func = &b->own;
	}
	symbol_queue_stop(b->queue);
	b->queue = NULL;
	if (atomic_load(&b->work_failed))
		b->failed = true;
}

/* Before what the thread reads or writes is touched. A file that asks for it often goes on without. */
static void pause_queue(struct offmap_builder *b)
{
	if (!b->queue)
		return;
	if (++b->drains > DRAINS_MAX)
		end_queue(b);
	else
		symbol_queue_drain(b->queue);
}

/* ---- strings ---- */

/* Where the search for a sparse id starts. */
static uint32_t sparse_place(const struct id_table *t, uint64_t id)
{
	return (uint32_t)checksum(&t->salt, sizeof t->salt, &id, sizeof id) & (t->sparse_cap - 1);
}

/* Where an id's slot number is kept, made when it is new; NULL without memory. */
static uint32_t *find_sparse(struct id_table *t, uint64_t id)
{
	if (4 * (t->sparse_count + 1) > 3 * t->sparse_cap) {
		struct id_entry *old = t->sparse;
		uint32_t old_cap = t->sparse_cap, cap = old_cap ? 2 * old_cap : 64;
		struct id_entry *grown = calloc(cap, sizeof *grown);
		if (!grown)
			return NULL;
		t->sparse = grown;
		t->sparse_cap = cap;
		for (uint32_t i = 0; i < old_cap; i++)
			if (old[i].slot) {
				uint32_t at = sparse_place(t, old[i].id);
				while (grown[at].slot)
					at = (at + 1) & (cap - 1);
				grown[at] = old[i];
			}
		free(old);
	}
	uint32_t at = sparse_place(t, id);
	while (t->sparse[at].slot && t->sparse[at].id != id)
		at = (at + 1) & (t->sparse_cap - 1);
	if (!t->sparse[at].slot) {
		t->sparse[at].id = id;
		t->sparse_count++; /* the caller fills the slot in */
	}
	return &t->sparse[at].slot;
}

static bool grow_dense(struct id_table *t, uint64_t id)
{
	uint32_t cap = t->dense_cap ? t->dense_cap : 64;
	while (cap <= id)
		cap *= 2;
	uint32_t *grown = realloc(t->dense, cap * sizeof *grown);
	if (!grown)
		return false;
	memset(grown + t->dense_cap, 0, (cap - t->dense_cap) * sizeof *grown);
	t->dense = grown;
	/* ids that were thought sparse */
	for (uint32_t i = 0; i < t->sparse_cap; i++)
		if (t->sparse[i].slot && t->sparse[i].id >= t->dense_cap && t->sparse[i].id < cap)
			grown[t->sparse[i].id] = t->sparse[i].slot;
	t->dense_cap = cap;
	return true;
}

static bool grow_slots(struct offmap_builder *b)
{
	uint32_t cap = b->strings.cap;
	pause_queue(b);
	struct slot_source *sources = array_grow(b->sources, &cap, cap + 1, sizeof *sources);
	if (!sources)
		return false;
	b->sources = sources;
	GROW(b->strings.slots, b->strings.cap, b->strings.cap + 1);
	return true;
}

/* The slot of an id, made undefined when it is new; 0 without memory. */
static uint32_t make_slot(struct offmap_builder *b, struct id_table *t, uint64_t id)
{
	uint32_t *place;
	if (id >= t->dense_cap && id < 64 + 8 * (uint64_t)t->count && id < UINT32_MAX / 4 && !grow_dense(t, id))
		goto no_memory;
	place = id < t->dense_cap ? &t->dense[id] : find_sparse(t, id);
	if (!place)
		goto no_memory;
	if (!*place) {
		if (b->strings.count == b->strings.cap && !grow_slots(b))
			goto no_memory;
		b->strings.slots[b->strings.count] = (struct string_slot){.is_origin = t == &b->origins};
		*place = b->strings.count++;
		t->count++;
		if (!count_tables(b))
			goto no_memory;
	}
	return *place;
no_memory:
	b->failed = true;
	return 0;
}

/* The same, mostly one that is there. */
static inline uint32_t find_slot(struct offmap_builder *b, struct id_table *t, uint64_t id)
{
	if (t->last_slot && t->last_id == id)
		return t->last_slot;
	uint32_t slot = id < t->dense_cap ? t->dense[id] : 0;
	t->last_id = id;
	t->last_slot = slot ? slot : make_slot(b, t, id);
	/* Whoever asks wants it for a record, which is encoded in a while; by the thread, if there is one. */
	if (!b->queue)
		__builtin_prefetch(&b->strings.slots[t->last_slot], 1);
	return t->last_slot;
}

/* Escapes a name into scratch. false: no memory. */
static bool escape(struct offmap_builder *b, struct str name, uint32_t *len)
{
	if (b->scratch_cap < 6 * name.len + 16) {
		size_t cap = 8 * name.len + 1024;
		uint8_t *grown = realloc(b->scratch, cap);
		if (!grown) {
			b->failed = true;
			return false;
		}
		b->scratch = grown;
		b->scratch_cap = cap;
	}
	*len = (uint32_t)json_escape(b->scratch, (const uint8_t *)name.data, name.len);
	return true;
}

static bool go_late(struct offmap_builder *b);

/* Long texts are not kept, so they are compared by hash. */
static bool same_text(const struct offmap_builder *b, uint32_t slot, uint32_t len, uint64_t hash)
{
	const struct string_slot *s = &b->strings.slots[slot];
	if (!s->defined || s->external != (len > OFFMAP_SHORT_STRING))
		return false;
	if (s->external)
		return b->sources[slot].hash == hash;
	return s->len == len && memcmp(b->strings.texts + s->text, b->scratch, len) == 0;
}

/* Gives a slot the text in scratch. */
static bool set_text(struct offmap_builder *b, uint32_t slot, uint32_t len)
{
	struct string_table *t = &b->strings;
	struct string_slot *s = &t->slots[slot];
	s->defined = true;
	s->external = len > OFFMAP_SHORT_STRING;
	if (b->long_names && s->external)
		pause_queue(b);
	if (s->external)
		return encode_string(b->encoder, (const char *)b->scratch, len, &s->text);
	if (len > UINT32_MAX - t->texts_len)
		return false;
	if (t->texts_len + len > t->texts_cap)
		pause_queue(b);
	GROW(t->texts, t->texts_cap, t->texts_len + len);
	s->text = t->texts_len;
	s->len = (uint16_t)len;
	if (len)
		memcpy(t->texts + s->text, b->scratch, len);
	t->texts_len += len;
	return count_tables(b);
}

/* Keeps the text as it is, for resolve. */
static bool define_raw(struct offmap_builder *b, struct id_table *t, uint64_t id, struct str name)
{
	uint32_t slot = find_slot(b, t, id);
	char *text = slot ? arena_alloc(&b->raw, name.len) : NULL;
	if (!text)
		return false;
	memcpy(text, name.data, name.len);
	b->sources[slot] = (struct slot_source){text, name.len};
	b->strings.slots[slot].defined = true;
	return count_tables(b);
}

/* Makes the raw texts that are used what the encoder wants. */
static bool resolve(struct offmap_builder *b)
{
	for (uint32_t i = 1; i < b->strings.count; i++) {
		const struct string_slot *s = &b->strings.slots[i];
		uint32_t len;
		if (s->used && s->defined &&
		        (!escape(b, (struct str){b->sources[i].raw, b->sources[i].hash}, &len) || !set_text(b, i, len)))
			return false;
	}
	return true;
}

static bool define(struct offmap_builder *b, struct id_table *t, uint64_t id, struct str name)
{
	if (b->asked)
		return define_raw(b, t, id, name);
	uint32_t len, known = b->strings.count, slot = find_slot(b, t, id);
	if (!slot || !escape(b, name, &len))
		return false;
	struct string_slot *s = &b->strings.slots[slot];
	uint64_t hash = len > OFFMAP_SHORT_STRING ? checksum("", 0, b->scratch, len) : 0;
	if (same_text(b, slot, len, hash))
		return true;
	if (slot < known)
		pause_queue(b); /* it may be in use */
	if (s->used && !b->late && !go_late(b))
		return false;
	b->sources[slot].hash = hash;
	return set_text(b, slot, len);
}

void offmap_add_file(struct offmap_builder *b, uint64_t id, struct str name)
{
	if (!b->failed && !define(b, &b->files, id, name))
		b->failed = true;
}

void offmap_add_origin(struct offmap_builder *b, uint64_t id, struct str name)
{
	if (!b->failed && !define(b, &b->origins, id, name.len ? name : str_from("<unknown>")))
		b->failed = true;
}

void offmap_set_code_file(struct offmap_builder *b, struct str name)
{
	uint32_t len;
	if (b->failed || !name.len || !escape(b, name, &len))
		return;
	free(b->map->code_file);
	b->map->code_file = malloc(len);
	if (!b->map->code_file) {
		b->failed = true;
		return;
	}
	memcpy(b->map->code_file, b->scratch, len);
	b->map->code_file_len = len;
}

/* ---- the sweep ---- */

static position flat_end(const struct flat *f)
{
	return (position)f->addr + f->size;
}

static bool emit(struct offmap_builder *b, struct flat *f, position from, position to)
{
	bool endless = to == ADDRESS_END && (f->is_public || from >= flat_end(f));
	return encode_function(b->encoder, &b->strings, f, (uint64_t)(from - f->addr),
	        endless ? (uint64_t)(from - f->addr) : (uint64_t)(to - f->addr), endless);
}

static void set_last_public(struct offmap_builder *b, struct flat *f)
{
	drop_flat(b, b->last_public);
	b->last_public = f;
}

/* Writes what answers for the addresses from the cursor up to `to`, where the next symbol starts. */
static bool advance(struct offmap_builder *b, position to)
{
	while (b->cursor < to) {
		struct flat *top = b->stack_count ? b->stack[b->stack_count - 1] : NULL;
		if (top && flat_end(top) > b->cursor) {
			position stop = flat_end(top) < to ? flat_end(top) : to;
			if (!emit(b, top, b->cursor, stop))
				return false;
			b->cursor = stop;
		} else if (top && b->options.nearest) {
			if (!emit(b, top, b->cursor, to))
				return false;
			b->cursor = to;
		} else if (top) {
			drop_flat(b, b->stack[--b->stack_count]);
		} else {
			if (b->last_public) {
				b->last_public->size = to == ADDRESS_END ? 0 : (uint64_t)(to - b->last_public->addr);
				if (!emit(b, b->last_public, b->cursor, to))
					return false;
			}
			b->cursor = to;
		}
	}
	return true;
}

static bool push(struct offmap_builder *b, struct flat *f)
{
	GROW(b->stack, b->stack_cap, b->stack_count + 1);
	b->stack[b->stack_count++] = f;
	return true;
}

/* Of functions that start at one address, the first with lines answers, then the first without; one that ends before a
 * better one never does. Pushes them worst first. */
static bool push_group(struct offmap_builder *b)
{
	uint32_t kept = 0;
	uint64_t covered = 0;
	/* best first: with lines, then without, each in the order of the file */
	for (int lines = 1; lines >= 0; lines--)
		for (uint32_t i = 0; i < b->group_count; i++) {
			struct flat *f = b->group[i];
			if (!f || f->has_lines != lines || (f->size <= covered && (kept || !b->options.nearest)))
				continue;
			if (b->options.nearest && kept)
				continue; /* one symbol an address */
			if (!push(b, f))
				return false;
			covered = f->size;
			b->group[i] = NULL;
			kept++;
		}
	for (uint32_t k = 0; k < kept / 2; k++) {
		struct flat **low = &b->stack[b->stack_count - kept + k], **high = &b->stack[b->stack_count - 1 - k],
		            *swap = *low;
		*low = *high;
		*high = swap;
	}
	for (uint32_t i = 0; i < b->group_count; i++)
		drop_flat(b, b->group[i]);
	b->group_count = 0;
	return true;
}

/* All symbols of one address are known: what was before them ends here. */
static bool close_group(struct offmap_builder *b)
{
	if (!b->in_group)
		return true;
	if (!advance(b, b->group_addr))
		return false;
	b->cursor = b->group_addr;
	bool func = b->group_count || b->group_empty_func;
	/* Also one that ends where the next starts, or functions without gaps between them would all be kept. */
	while (b->stack_count && (b->options.nearest || flat_end(b->stack[b->stack_count - 1]) <= b->cursor))
		drop_flat(b, b->stack[--b->stack_count]);
	if (func || b->group_public)
		set_last_public(b, NULL);
	if (func)
		drop_flat(b, b->group_public);
	else
		b->last_public = b->group_public;
	b->group_public = NULL;
	b->in_group = b->group_empty_func = false;
	return push_group(b);
}

/* A function of the group that came before answers wherever f could: of a million equal ones only the first is kept. */
static bool outdone(const struct offmap_builder *b, const struct flat *f)
{
	position own = b->group_covered[f->has_lines], lines = b->group_covered[true];
	return b->options.nearest ? own || lines : f->size < own || f->size < lines;
}

static bool sweep_symbol(struct offmap_builder *b, struct flat *f)
{
	if (!b->in_group || b->group_addr != f->addr) {
		if (!close_group(b)) {
			drop_flat(b, f);
			return false;
		}
		b->in_group = true;
		b->group_addr = f->addr;
		b->group_covered[false] = b->group_covered[true] = 0;
	}
	if (f->is_public) {
		if (b->group_public) {
			drop_flat(b, f);
			return true;
		}
		b->group_public = f;
		return true;
	}
	if (!f->size && !b->options.nearest) {
		uint64_t addr = f->addr;
		drop_flat(b, f);
		if (b->group_empty_func)
			return true;
		b->group_empty_func = true;
		GROW(b->empty_funcs, b->empty_cap, b->empty_count + 1);
		b->empty_funcs[b->empty_count++] = addr;
		return true;
	}
	if (outdone(b, f)) {
		drop_flat(b, f);
		return true;
	}
	struct flat **grown = array_grow(b->group, &b->group_cap, b->group_count + 1, sizeof *b->group);
	if (!grown) {
		flat_free(f);
		return false;
	}
	b->group = grown;
	b->group[b->group_count++] = f;
	b->group_covered[f->has_lines] = (position)f->size + 1;
	return true;
}

/* ---- late mode ---- */

static bool blob_reserve(struct offmap_builder *b, uint64_t n)
{
	if (n > b->blob_cap - b->blob_len) {
		uint64_t cap = b->blob_cap ? b->blob_cap : 65536;
		while (cap - b->blob_len < n)
			cap += cap / 2;
		uint8_t *grown = realloc(b->blob, cap);
		if (!grown)
			return false;
		b->blob = grown;
		b->blob_cap = cap;
	}
	return true;
}

/* Files and origins of a function that is kept. */
static void mark_used(struct offmap_builder *b, const struct flat *f)
{
	struct string_slot *slots = b->strings.slots;
	for (uint32_t i = 1; i <= f->node_count; i++)
		slots[f->nodes[i].origin].used = slots[f->nodes[i].call_file].used = true;
	for (uint32_t i = 0; i < f->segment_count; i++)
		slots[f->segments[i].file].used = true;
}

/* Appends f to the blob, from which load_late reads it. */
static bool store_late(struct offmap_builder *b, const struct flat *f, uint64_t order)
{
	if (b->asked)
		mark_used(b, f);
	if (!blob_reserve(b, (uint64_t)f->name_len +
	                             VARINT_MAX * (8 + 4 * (uint64_t)f->node_count + 4 * (uint64_t)f->segment_count)))
		return false;
	GROW(b->symbols, b->symbol_cap, b->symbol_count + 1);
	b->symbols[b->symbol_count++] = (struct late_symbol){f->addr, order, b->blob_len, f->is_public};
	uint8_t *at = b->blob + b->blob_len;
	at = varint_put(at, f->size);
	at = varint_put(at, f->has_lines);
	at = varint_put(at, f->name_external);
	at = varint_put(at, f->name_external ? 0 : f->name_len);
	if (!f->name_external) {
		memcpy(at, f->name, f->name_len);
		at += f->name_len;
	}
	at = varint_put(at, f->node_count);
	for (uint32_t i = 1; i <= f->node_count; i++) {
		at = varint_put(at, i - f->nodes[i].parent);
		at = varint_put(at, f->nodes[i].origin);
		at = varint_put(at, f->nodes[i].call_file);
		at = varint_put(at, f->nodes[i].call_line);
	}
	at = varint_put(at, f->segment_count);
	uint64_t last = 0;
	uint32_t line = 0;
	for (uint32_t i = 0; i < f->segment_count; i++) {
		const struct flat_segment *s = &f->segments[i];
		at = varint_put(at, s->start - last);
		at = varint_put(at, s->node);
		at = varint_put(at, zigzag((int64_t)s->line - line));
		at = varint_put(at, s->file);
		last = s->start;
		line = s->line;
	}
	b->blob_len = (uint64_t)(at - b->blob);
	return count_sweep(b, 0);
}

static bool load_late(const struct offmap_builder *b, const struct late_symbol *l, struct flat *f)
{
	struct reader r = {b->blob + l->at, b->blob + b->blob_len, false};
	f->addr = l->addr;
	f->is_public = l->is_public;
	f->size = reader_varint(&r);
	f->has_lines = reader_varint(&r);
	uint32_t external = (uint32_t)reader_varint(&r), len = (uint32_t)reader_varint(&r);
	if (!flat_set_name(f, (const char *)r.at, len))
		return false;
	f->name_external = external;
	r.at += len;
	f->node_count = (uint32_t)reader_varint(&r);
	if (!flat_reserve_nodes(f, f->node_count))
		return false;
	for (uint32_t i = 1; i <= f->node_count; i++) {
		struct flat_node *n = &f->nodes[i];
		n->parent = i - (uint32_t)reader_varint(&r);
		n->origin = (uint32_t)reader_varint(&r);
		n->call_file = (uint32_t)reader_varint(&r);
		n->call_line = (uint32_t)reader_varint(&r);
		n->depth = n->parent ? f->nodes[n->parent].depth + 1 : 1;
	}
	f->segment_count = (uint32_t)reader_varint(&r);
	if (!flat_reserve_segments(f, f->segment_count))
		return false;
	uint64_t last = 0;
	uint32_t line = 0;
	for (uint32_t i = 0; i < f->segment_count; i++) {
		struct flat_segment *s = &f->segments[i];
		s->start = last += reader_varint(&r);
		s->node = (uint32_t)reader_varint(&r);
		s->line = line = (uint32_t)(line + unzigzag(reader_varint(&r)));
		s->file = (uint32_t)reader_varint(&r);
	}
	return !r.bad;
}

static bool give_late(void *arg, struct flat *f)
{
	struct offmap_builder *b = arg;
	return store_late(b, f, b->order++);
}

static bool go_on_late(void *arg)
{
	return check_memory(arg);
}

/* From here on everything waits for the end: pages made so far, and what the sweep still holds, go into the blob. */
static bool go_late(struct offmap_builder *b)
{
	struct flat empty = {0};
	end_queue(b);
	if (b->failed)
		return false;
	b->late = true;
	/* What the sweep holds has been swept up to the cursor only; the rest of it must not be lost. */
	if (!close_group(b) || !advance(b, ADDRESS_END) ||
	        !encoder_unpack(b->encoder, &b->strings, give_late, go_on_late, b))
		return false;
	for (uint32_t i = 0; i < b->empty_count; i++) {
		empty.addr = b->empty_funcs[i];
		empty.name = (char *)"";
		if (!store_late(b, &empty, b->order++))
			return false;
	}
	b->empty_count = 0;
	while (b->stack_count)
		drop_flat(b, b->stack[--b->stack_count]);
	set_last_public(b, NULL);
	b->cursor = 0;
	return true;
}

static int late_order(const void *a, const void *b)
{
	const struct late_symbol *x = a, *y = b;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static bool sweep_late(struct offmap_builder *b)
{
	/* sorting may take as much again */
	if (!count_sweep(b, (uint64_t)b->symbol_count * sizeof *b->symbols))
		return false;
	if (b->symbol_count)
		qsort(b->symbols, b->symbol_count, sizeof *b->symbols, late_order);
	for (uint32_t i = 0; i < b->symbol_count; i++) {
		struct flat *f = take_flat(b);
		if (!f || !load_late(b, &b->symbols[i], f)) {
			flat_free(f);
			return false;
		}
		count_flat(b, f);
		if (!sweep_symbol(b, f) || !count_sweep(b, 0))
			return false;
	}
	return true;
}

/* Hands a finished symbol on; takes it. */
static bool add_symbol(struct offmap_builder *b, struct flat *f)
{
	if (!b->late && b->in_group && f->addr < b->group_addr && !go_late(b)) {
		flat_free(f);
		return false;
	}
	if (!b->late)
		return sweep_symbol(b, f);
	bool ok = store_late(b, f, b->order++);
	drop_flat(b, f);
	return ok;
}

/* ---- records ---- */

/* The flat of a symbol, which loses its name to it. */
static struct flat *make_flat(struct offmap_builder *b, struct parsed_symbol *s)
{
	struct flat *f = take_flat(b);
	if (!f)
		return NULL;
	char *name = f->name;
	uint32_t name_cap = f->name_cap;
	f->addr = s->addr;
	f->size = s->size;
	f->is_public = s->is_public;
	f->has_lines = s->has_lines;
	f->name = s->name;
	f->name_len = s->name_len;
	f->name_cap = s->name_cap;
	s->name = name;
	s->name_cap = name_cap;
	return f;
}

/* What flattening takes beside the records; of lines in order only their segments. */
static uint64_t flatten_needs(const struct func_records *r)
{
	return (r->lines_sorted ? 1 : FLATTEN_SHARE) * (uint64_t)r->line_count * sizeof *r->lines +
	       FLATTEN_SHARE *
	               ((uint64_t)r->inline_count * sizeof *r->inlines + (uint64_t)r->range_count * sizeof *r->ranges);
}

static bool work_on(struct offmap_builder *b, struct parsed_symbol *s)
{
	struct flat *f = make_flat(b, s);
	uint64_t more = flatten_needs(&s->records);
	if (!f || (more >= LARGE_FUNC && !count_sweep(b, more)) || !flatten(b->flattener, &s->records, f)) {
		flat_free(f);
		return false;
	}
	count_flat(b, f);
	return add_symbol(b, f) && count_sweep(b, 0);
}

/* On the queue's thread. */
static void work_on_queued(void *arg, struct parsed_symbol *s)
{
	struct offmap_builder *b = arg;
	for (uint32_t i = 0; i < s->records.inline_count; i++)
		__builtin_prefetch(&b->strings.slots[s->records.inlines[i].origin], 1);
	if (!atomic_load_explicit(&b->work_failed, memory_order_relaxed) && !work_on(b, s))
		atomic_store(&b->work_failed, true);
}

/* Where the next symbol goes: to the queue, if there can be one. */
static struct parsed_symbol *place_symbol(struct offmap_builder *b, uint64_t addr)
{
	if (addr < b->last_addr)
		end_queue(b); /* it comes late */
	b->last_addr = addr;
	if (!b->queue && b->options.threaded && !b->no_queue && !b->late) {
		b->queue = symbol_queue_start(work_on_queued, b);
		b->no_queue = !b->queue;
	}
	return b->queue ? symbol_queue_next(b->queue) : &b->own;
}

/* NULL without memory. */
static struct parsed_symbol *new_symbol(struct offmap_builder *b, uint64_t addr, struct str name)
{
	uint32_t len;
	if (!name.len)
		name = str_from("<unknown>");
	if (!escape(b, name, &len))
		return NULL;
	struct parsed_symbol *s = place_symbol(b, addr);
	if (len > s->name_cap || !s->name) {
		char *grown = realloc(s->name, (size_t)len + 1);
		if (!grown) {
			b->failed = true;
			return NULL;
		}
		s->name = grown;
		b->name_bytes += len - s->name_cap;
		s->name_cap = len;
	}
	memcpy(s->name, b->scratch, len);
	s->name_len = len;
	s->addr = addr;
	s->size = 0;
	s->is_public = s->has_lines = false;
	s->records.line_count = s->records.inline_count = s->records.range_count = 0;
	s->records.lines_sorted = true;
	b->long_names = b->long_names || len > OFFMAP_INLINE_NAME;
	if (!count_tables(b)) {
		b->failed = true;
		return NULL;
	}
	return s;
}

/* Hands on what new_symbol gave, with all its records. */
static void end_symbol(struct offmap_builder *b, struct parsed_symbol *s)
{
	if (!b->queue) {
		b->failed = b->failed || !work_on(b, s);
		return;
	}
	symbol_queue_put(b->queue);
	if (atomic_load_explicit(&b->work_failed, memory_order_relaxed))
		b->failed = true;
}

static bool give_asked(void *arg, const struct asked_symbol *s)
{
	struct offmap_builder *b = arg;
	struct parsed_symbol *p = new_symbol(b, s->addr, s->name);
	struct flat *f = p ? make_flat(b, p) : NULL;
	if (!f)
		return false;
	f->size = s->size;
	f->is_public = s->is_public;
	f->has_lines = s->has_lines;
	count_flat(b, f);
	bool ok = store_late(b, f, s->order);
	drop_flat(b, f);
	return ok;
}

void offmap_end_func(struct offmap_builder *b)
{
	struct parsed_symbol *s = b->func;
	b->want = b->asked ? OFFMAP_WANT_NOTHING : OFFMAP_WANT_ALL;
	b->func = NULL;
	if (s && !b->failed)
		end_symbol(b, s);
}

/* Counts a FUNC. false: nothing but its start and its name matters, and that has been noted. */
static bool want_func(struct offmap_builder *b, uint64_t addr, uint64_t size, struct str name)
{
	b->map->funcs++;
	if (!b->asked)
		return true;
	struct asked_symbol s = {.addr = addr, .size = size, .order = b->order, .name = name};
	if (!asked_func(b->asked, &s, &b->want) || !count_tables(b))
		b->failed = true;
	if (b->failed || b->want == OFFMAP_WANT_ALL)
		return !b->failed;
	b->order++;
	return false;
}

void offmap_add_func(struct offmap_builder *b, uint64_t addr, uint64_t size, struct str name)
{
	offmap_end_func(b);
	if (addr && size > 0 - addr)
		size = 0 - addr;
	if (b->failed || !want_func(b, addr, size, name) || !(b->func = new_symbol(b, addr, name)))
		return;
	b->func->size = size;
}

void offmap_add_public(struct offmap_builder *b, uint64_t addr, struct str name)
{
	offmap_end_func(b);
	b->map->publics++;
	if (b->asked) {
		struct asked_symbol s = {.addr = addr, .order = b->order++, .is_public = true, .name = name};
		b->failed = b->failed || !asked_public(b->asked, &s) || !count_tables(b);
		return;
	}
	struct parsed_symbol *s = b->failed ? NULL : new_symbol(b, addr, name);
	if (!s)
		return;
	s->is_public = true;
	end_symbol(b, s);
}

static inline bool clip(const struct parsed_symbol *f, uint64_t addr, uint64_t size, uint64_t *start, uint64_t *end)
{
	return clip_to_function(f->addr, f->size, addr, size, start, end);
}

/* A line record of a function of which no more is kept. */
static void note_line(struct offmap_builder *b)
{
	if (b->failed || b->want != OFFMAP_WANT_LINE)
		return;
	asked_line(b->asked);
	b->want = OFFMAP_WANT_NOTHING;
}

void offmap_add_line(struct offmap_builder *b, uint64_t addr, uint64_t size, uint32_t line, uint64_t file)
{
	struct line_record l = {0, 0, line, 0};
	if (b->failed || !b->func) {
		note_line(b);
		return;
	}
	b->map->lines++;
	b->func->has_lines = true;
	struct func_records *r = &b->func->records;
	if (!clip(b->func, addr, size, &l.start, &l.end) || !(l.file = find_slot(b, &b->files, file)))
		return;
	if (r->line_count == r->line_cap) {
		struct line_record *grown = array_grow(r->lines, &r->line_cap, r->line_count + 1, sizeof *r->lines);
		if (grown)
			r->lines = grown;
		if (!grown || !count_tables(b)) {
			b->failed = true;
			return;
		}
	}
	if (l.end == l.start || (r->line_count && l.start < r->lines[r->line_count - 1].end))
		r->lines_sorted = false;
	r->lines[r->line_count++] = l;
}

void offmap_expect_origin(const struct offmap_builder *b, uint32_t origin)
{
	if (origin < b->origins.dense_cap)
		__builtin_prefetch(&b->origins.dense[origin]);
}

void offmap_add_inline(struct offmap_builder *b, uint32_t depth, uint32_t call_line, bool has_call_file,
        uint32_t call_file, uint32_t origin)
{
	struct inline_record i = {depth, call_line, 0, 0};
	if (b->failed || !b->func)
		return;
	b->map->inlines++;
	struct func_records *r = &b->func->records;
	if (has_call_file && !(i.call_file = find_slot(b, &b->files, call_file)))
		return;
	if (!(i.origin = find_slot(b, &b->origins, origin)))
		return;
	if (r->inline_count == r->inline_cap) {
		struct inline_record *grown =
		        array_grow(r->inlines, &r->inline_cap, r->inline_count + 1, sizeof *r->inlines);
		if (grown)
			r->inlines = grown;
		if (!grown || !count_tables(b)) {
			b->failed = true;
			return;
		}
	}
	r->inlines[r->inline_count++] = i;
}

void offmap_add_inline_range(struct offmap_builder *b, uint64_t addr, uint64_t size)
{
	if (b->failed || !b->func)
		return;
	struct func_records *r = &b->func->records;
	struct inline_range g = {0, 0, r->inline_count - 1};
	if (!clip(b->func, addr, size, &g.start, &g.end) || g.start == g.end)
		return;
	if (r->range_count == r->range_cap) {
		struct inline_range *grown =
		        array_grow(r->ranges, &r->range_cap, r->range_count + 1, sizeof *r->ranges);
		if (grown)
			r->ranges = grown;
		if (!grown || !count_tables(b)) {
			b->failed = true;
			return;
		}
	}
	r->ranges[r->range_count++] = g;
}

static bool finish(struct offmap_builder *b)
{
	return !b->failed && (!b->asked || (asked_symbols(b->asked, give_asked, b) && resolve(b))) &&
	       (!b->late || sweep_late(b)) && close_group(b) && advance(b, ADDRESS_END) &&
	       encoder_finish(b->encoder, b->map);
}

enum err offmap_builder_finish(struct offmap_builder *b, struct offmap **out)
{
	*out = NULL;
	offmap_end_func(b);
	end_queue(b);
	if (!b->failed && !b->map->funcs && !b->map->publics)
		return ERR_CORRUPT;
	if (!finish(b))
		return offmap_builder_too_large(b) ? ERR_TOO_LARGE : ERR_NO_MEMORY;
	*out = b->map;
	b->map = NULL;
	return ERR_OK;
}
