/* SPDX-License-Identifier: Apache-2.0 */
/* The modules that a request wants, and the frames to look up in them. */
#include <config.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/inquiry.h"
#include "base/hash.h"
#include "base/hex.h"

/* ---- ids that people paste ---- */

enum { GUID_TEXT = 36, GUID_DIGITS = 32, AGE_MAX = 8 };

/* Copies the digits of a GUID with its dashes. */
static bool read_guid(char *out, const char *text)
{
	for (size_t i = 0, n = 0; i < GUID_TEXT; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? text[i] != '-' : hex_value(text[i]) < 0)
			return false;
		if (!dash)
			out[n++] = (char)toupper((unsigned char)text[i]);
	}
	return true;
}

/* "{GUID}age", "GUID-age", "GUIDage" and a GUID alone, whose age is 0, as the id of a symbol file; other ids as they
 * are. data is NULL if out of memory. */
static struct str plain_id(struct arena *arena, struct str id)
{
	char text[GUID_DIGITS + AGE_MAX];
	bool brace = id.len > 0 && id.data[0] == '{';
	size_t at = GUID_TEXT + 2 * brace, len = GUID_DIGITS;
	if (id.len < at || !read_guid(text, id.data + brace) || (brace && id.data[at - 1] != '}'))
		return id;
	at += at + 1 < id.len && id.data[at] == '-';
	if (id.len - at > AGE_MAX)
		return id;
	for (; at < id.len; at++) {
		if (hex_value(id.data[at]) < 0)
			return id;
		text[len++] = (char)toupper((unsigned char)id.data[at]);
	}
	if (len == GUID_DIGITS)
		text[len++] = '0';
	char *copy = arena_alloc(arena, len);
	if (copy)
		memcpy(copy, text, len);
	return (struct str){copy, len};
}

static bool read_ids(struct arena *arena, const struct request_job *job)
{
	for (uint32_t i = 0; i < job->module_count; i++) {
		struct request_module *m = &job->modules[i];
		m->id = plain_id(arena, m->id);
		if (m->id.len && !m->id.data) /* a text may tell no id */
			return false;
	}
	return true;
}

/* ---- wants ---- */

/* Wants by name and id, for one request. */
struct want_table {
	uint32_t *slots; /* index + 1 */
	uint32_t mask;
	uint64_t seed; /* so that nobody can choose modules that collide */
};

static uint32_t *want_slot(const struct inquiry *s, struct want_table *t, const struct request_module *m)
{
	uint32_t at = (uint32_t)name_hash_seeded(m->name, m->id, t->seed) & t->mask;
	for (; t->slots[at]; at = (at + 1) & t->mask) {
		const struct module_want *w = &s->wants[t->slots[at] - 1];
		if (str_equal(w->name, m->name) && str_equal(w->id, m->id))
			break;
	}
	return &t->slots[at];
}

/* The index of a module's want; with `make`, creates a new one. MODULE_UNUSED for a module without name or id, or one
 * that nobody wants. False if out of memory. */
static bool find_want(
        struct inquiry *s, struct want_table *t, const struct request_module *m, bool make, int32_t *index)
{
	*index = MODULE_UNUSED;
	if (!m->name.len || !m->id.len)
		return true;
	uint32_t *slot = want_slot(s, t, m);
	if (!*slot && make) {
		if (!modules_want(s->modules, &s->wants[s->want_count], m->name, m->id, m->build_id))
			return false;
		*slot = ++s->want_count;
	}
	if (*slot)
		*index = (int32_t)*slot - 1;
	return true;
}

/* Which modules of a job its frames refer to. */
static bool mark_used(struct arena *arena, const struct request_job *job, bool **used)
{
	*used = arena_calloc(arena, job->module_count + 1, sizeof **used);
	for (uint32_t i = 0; *used && i < job->stack_count; i++)
		for (uint32_t k = 0; k < job->stacks[i].count; k++)
			if (job->stacks[i].frames[k].module >= 0)
				(*used)[job->stacks[i].frames[k].module] = true;
	return *used != NULL;
}

/* Only modules that some frame of the request refers to are wanted. */
bool wants_collect(struct inquiry *s)
{
	struct arena *arena = s->exchange->arena;
	struct want_table table = {.mask = 15, .seed = modules_seed(s->modules)};
	while (table.mask < 2 * s->request.module_count)
		table.mask = 2 * table.mask + 1;
	table.slots = arena_calloc(arena, table.mask + 1, sizeof *table.slots);
	s->wants = arena_calloc(arena, s->request.module_count + 1, sizeof *s->wants);
	s->want_of = arena_calloc(arena, s->request.job_count + 1, sizeof *s->want_of);
	s->stacks_of = arena_calloc(arena, s->request.module_count + 1, sizeof *s->stacks_of);
	if (!table.slots || !s->wants || !s->want_of || !s->stacks_of)
		return false;
	for (uint32_t j = 0; j < s->request.job_count; j++)
		if (!read_ids(arena, &s->request.jobs[j]))
			return false;
	for (int make = 1; make >= 0; make--)
		for (uint32_t j = 0; j < s->request.job_count; j++) {
			const struct request_job *job = &s->request.jobs[j];
			bool *used = NULL;
			if (make)
				s->want_of[j] = arena_alloc(arena, (job->module_count + 1) * sizeof **s->want_of);
			if (!s->want_of[j] || (make && !mark_used(arena, job, &used)))
				return false;
			for (uint32_t i = 0; i < job->module_count; i++)
				if ((!make || used[i]) &&
				        !find_want(s, &table, &job->modules[i], make, &s->want_of[j][i]))
					return false;
		}
	return true;
}

const struct file_map *inquiry_file_map(const struct module_want *w)
{
	if (w->file.count || w->state != WANT_FOUND)
		return &w->file;
	return &w->module->map->file;
}

/* The offset in the image. False if the frame has none. */
static bool offset_in(const struct module_want *w, const struct request_frame *f, uint64_t *offset)
{
	const struct file_map *file = inquiry_file_map(w);
	bool is_known = f->kind == OFFSET_FILE && file->count; /* if not, see inquiry_file_map */
	*offset = f->offset;
	if (is_known && !file_map_address(file, f->offset, offset))
		return false;
	bool is_address = f->kind == OFFSET_ELF || (is_known && w->file.count);
	/* what lies below the image stays as it is */
	*offset -= is_address && *offset >= w->image_base ? w->image_base : 0;
	return f->kind == OFFSET_ADDRESS || f->kind == OFFSET_ELF || f->kind == OFFSET_FILE;
}

bool wants_lookups(struct inquiry *s)
{
	struct arena *arena = s->exchange->arena;
	uint32_t frame = 0, number = 0;
	uint32_t *last_stack = arena_calloc(arena, s->want_count + 1, sizeof *last_stack);
	if (!s->lookups) {
		s->lookups = arena_alloc(arena, s->request.frame_count * sizeof *s->lookups);
		s->symbol_of = arena_alloc(arena, s->request.frame_count * sizeof *s->symbol_of);
	}
	if (!s->lookups || !s->symbol_of || !last_stack)
		return false;
	s->stats.found = s->lookup_count = 0;
	memset(s->symbol_of, 0, s->request.frame_count * sizeof *s->symbol_of);
	memset(s->stacks_of, 0, s->want_count * sizeof *s->stacks_of);
	for (uint32_t j = 0; j < s->request.job_count; j++)
		for (uint32_t i = 0; i < s->request.jobs[j].stack_count; i++) {
			const struct request_stack *stack = &s->request.jobs[j].stacks[i];
			number++;
			for (uint32_t k = 0; k < stack->count; k++, frame++) {
				const struct request_frame *f = &stack->frames[k];
				int32_t want = f->module < 0 ? MODULE_UNUSED : s->want_of[j][f->module];
				if (want < 0)
					continue;
				if (last_stack[want] != number) {
					last_stack[want] = number;
					s->stacks_of[want]++;
				}
				uint64_t offset;
				if (s->wants[want].state == WANT_FOUND && offset_in(&s->wants[want], f, &offset))
					s->lookups[s->lookup_count++] = (struct lookup){offset, (uint32_t)want, frame};
			}
		}
	return true;
}

const struct module_want *inquiry_want(const struct inquiry *s, uint32_t job, int32_t module)
{
	int32_t want = module < 0 ? MODULE_UNUSED : s->want_of[job][module];
	return want < 0 ? NULL : &s->wants[want];
}
