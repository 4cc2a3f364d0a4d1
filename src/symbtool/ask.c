/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/ask.h"

#include <stdlib.h>

#include "map/read.h"
#include "symbtool/asker.h"
#include "symbtool/local_map.h"

enum {
	AT_ONCE = 16384, /* frames that are asked of a server: it takes 200,000, with each id of their modules */
	TRIES_MAX = 8,   /* slots of the table in which a frame is looked for; then it may be asked for twice */
};

/* Where Linux puts programs and libraries that may be anywhere. */
#define LOADED_MIN (UINT64_C(1) << 40)
#define LOADED_MAX (UINT64_C(1) << 47)

struct asker *asker_new(enum ask_for what, struct local_symbols *local, struct server *server)
{
	struct asker *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	*a = (struct asker){.what = what, .local = local, .connection = server ? connection_new(server) : NULL};
	if (!server || a->connection)
		return a;
	asker_free(a);
	return NULL;
}

void asker_free(struct asker *a)
{
	if (!a)
		return;
	asker_forget(a);
	connection_free(a->connection);
	free(a->modules);
	free(a);
}

/* ---- each distinct frame once ---- */

struct ask_batch {
	struct ask_frame **frames; /* the distinct ones */
	size_t count;
	struct arena *arena;
	uint64_t *addresses; /* room for as many */
};

static bool same_frame(const struct ask_frame *x, const struct ask_frame *y)
{
	return x->module == y->module && x->address == y->address && x->base == y->base;
}

/* The number of the first frame that asks the same; table: of such numbers + 1. */
static uint32_t first_of(const struct ask_frame *frames, uint32_t i, uint32_t *table, size_t slots)
{
	const struct ask_frame *f = &frames[i];
	uint64_t hash = (f->address * 31 + (uint64_t)(uint32_t)f->module * 8 + f->base) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = hash >> 32 & (slots - 1);
	for (unsigned tries = 0; tries < TRIES_MAX; tries++, at = (at + 1) & (slots - 1)) {
		if (!table[at])
			table[at] = i + 1;
		if (same_frame(&frames[table[at] - 1], f))
			return table[at] - 1;
	}
	return i;
}

/* first[i]: the number of the frame that answers for this one, too. */
static bool collect(struct ask_batch *b, struct ask_frame *frames, size_t count, uint32_t *first)
{
	size_t slots = 16;
	while (slots < 2 * count)
		slots *= 2;
	uint32_t *table = arena_calloc(b->arena, slots, sizeof *table);
	b->frames = arena_alloc(b->arena, count * sizeof *b->frames);
	b->addresses = arena_alloc(b->arena, count * sizeof *b->addresses);
	if (!table || !b->frames || !b->addresses)
		return false;
	for (size_t i = 0; i < count; i++) {
		first[i] = first_of(frames, (uint32_t)i, table, slots);
		if (first[i] == i)
			b->frames[b->count++] = &frames[i];
	}
	return true;
}

/* ---- from files ---- */

static enum err open_files(struct asker *a, struct ask_batch *b, struct asked_module *m, struct error *e)
{
	size_t count = 0;
	if (m->opened == a->batch)
		return ERR_OK;
	for (size_t i = 0; i < b->count && a->what == ASK_ADDRESSES; i++)
		if (asked_module_of(a, b->frames[i]) == m)
			b->addresses[count++] = b->frames[i]->address;
	m->opened = a->batch;
	m->decided = true;
	return local_symbols_open(a->local, m->parts ? m->parts : &m->path, m->parts ? m->part_count : 1,
	        a->what == ASK_ADDRESSES ? b->addresses : NULL, count, &m->map, &m->why, e);
}

static struct str map_text(struct offmap_string s)
{
	return (struct str){(const char *)s.data, s.len};
}

static enum err set_calls(struct frame_names *names, const struct offmap_answer *a, struct arena *arena)
{
	size_t count = a->inline_count + (size_t)1;
	struct text_call *calls = arena_alloc(arena, count * sizeof *calls);
	for (size_t i = 0; i < count && calls; i++) {
		const struct offmap_call *c = i < a->inline_count ? &a->inlines[i] : &a->frame;
		calls[i] = (struct text_call){map_text(c->function), map_text(c->file), c->line};
	}
	*names = (struct frame_names){REASON_NONE, calls, count, a->function_offset, a->has_size, a->function_size};
	return calls ? ERR_OK : ERR_NO_MEMORY;
}

static enum reason why_nameless(
        const struct asker *a, const struct offmap *map, uint64_t address, const struct offmap_answer *answer)
{
	if (a->what == ASK_FRAMES)
		return offmap_reason(map, address, answer);
	return address >= LOADED_MIN && address < LOADED_MAX ? REASON_WRONG_OFFSET : REASON_NO_FUNCTION;
}

static enum err ask_files(
        struct asker *a, struct ask_batch *b, struct asked_module *m, struct ask_frame *f, struct error *e)
{
	struct offmap_answer answer;
	enum err err = open_files(a, b, m, e);
	if (err || m->why) {
		f->names.why = m->why;
		return err;
	}
	uint64_t address = m->place ? local_place_address(m->place, f->address, f->base) : f->address;
	err = local_map_look_up(m->map, address, b->arena, &answer);
	f->names.why = err ? REASON_CORRUPT : why_nameless(a, m->map, address, &answer);
	if (!err && answer.found)
		err = set_calls(&f->names, &answer, b->arena);
	return err == ERR_NO_MEMORY ? no_memory(e) : ERR_OK;
}

/* ---- all of them ---- */

/* What is known before anybody is asked; REASON_NO_ANSWER: nothing. */
static enum reason known_reason(const struct asked_module *m, const struct ask_frame *f)
{
	if (!m || (f->base == TEXT_FIXED && !asker_knows_base(m, f)))
		return REASON_NO_MODULE;
	if (m->decided && m->why)
		return m->why;
	if (asker_knows_base(m, f))
		return REASON_NO_ANSWER;
	return f->base == TEXT_FILE       ? REASON_NOT_LOADED
	       : f->base == TEXT_FUNCTION ? REASON_NO_FUNCTION
	                                  : REASON_NO_OFFSET;
}

static enum err ask_batch(struct asker *a, struct ask_batch *b, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < b->count && !err; i++) {
		struct ask_frame *f = b->frames[i];
		struct asked_module *m = asked_module_of(a, f);
		if (f->names.why == REASON_NO_ANSWER && m->path)
			err = ask_files(a, b, m, f, e);
	}
	for (size_t i = 0; i < b->count && !err && a->connection; i += AT_ONCE) {
		size_t n = b->count - i < AT_ONCE ? b->count - i : AT_ONCE;
		err = ask_server(a, b->frames + i, n, b->arena, e);
	}
	return err;
}

enum err asker_ask(struct asker *a, struct ask_frame *frames, size_t count, struct arena *arena, struct error *e)
{
	struct ask_batch b = {.arena = arena};
	uint32_t *first = arena_alloc(arena, count * sizeof *first);
	for (size_t i = 0; i < count; i++)
		frames[i].names = (struct frame_names){.why = known_reason(asked_module_of(a, &frames[i]), &frames[i])};
	if (!first || !collect(&b, frames, count, first))
		return no_memory(e);
	a->batch++;
	enum err err = ask_batch(a, &b, e);
	for (size_t i = 0; i < count; i++)
		frames[i].names = frames[first[i]].names;
	return err;
}
