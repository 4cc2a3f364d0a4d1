/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/maps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/process.h"
#include "text/module_table.h"
#include "text/scan.h"

enum {
	PATHS_MAX = 16 << 20, /* bytes of paths */
	STEPS_BACK = 64,      /* mappings of one file before the one of an address */
	PAGE_MAX = 64 << 10,  /* bytes */
};
#define IMAGE_MAX (UINT64_C(512) << 20) /* of a MAP_STARTS whose successor is far away */

void text_maps_init(struct text_maps *m)
{
	*m = (struct text_maps){.process = 1, .processes = 1, .seed = random_u64()};
	arena_init(&m->arena, PATHS_MAX);
}

void text_maps_release(struct text_maps *m)
{
	free(m->items);
	map64_release(&m->by_name);
	arena_release(&m->arena);
}

size_t text_maps_memory(const struct text_maps *m)
{
	return m->arena.used + m->cap * sizeof *m->items + m->by_name.cap * sizeof *m->by_name.slots;
}

void text_maps_forget(struct text_maps *m)
{
	uint32_t process = m->process, processes = m->processes;
	text_maps_release(m);
	text_maps_init(m);
	m->process = process;
	m->processes = processes;
}

bool text_maps_crowded(const struct text_maps *m)
{
	return m->count > TEXT_MAPPINGS_MAX / 2 || m->arena.used > PATHS_MAX / 4;
}

void text_maps_begin_process(struct text_maps *m)
{
	m->process = ++m->processes;
}

/* A copy; most lines have the path of the line before. */
static struct str keep_path(struct text_maps *m, struct str path)
{
	if (m->count && str_equal(m->items[m->count - 1].path, path))
		return m->items[m->count - 1].path;
	char *copy = arena_alloc(&m->arena, path.len);
	if (!copy)
		return (struct str){NULL, 0};
	memcpy(copy, path.data, path.len);
	return (struct str){copy, path.len};
}

bool text_maps_add(struct text_maps *m, const struct text_mapping *mapping)
{
	static const char deleted[] = " (deleted)"; /* which the kernel adds */
	struct text_mapping add = *mapping;
	if (ends_with(add.path, deleted))
		add.path.len -= strlen(deleted);
	add.process = add.process ? add.process : m->process;
	if (!add.path.len || add.path.len > TEXT_NAME_MAX || *add.path.data == '[' || add.end <= add.start)
		return true;
	m->sorted = false; /* what was disputed or ambiguous stays so */
	if (m->overflowed) {
		m->overflowed = add.process < m->overflowed ? add.process : m->overflowed;
		return true;
	}
	if (m->count == TEXT_MAPPINGS_MAX || m->arena.used + add.path.len > PATHS_MAX / 2) {
		m->overflowed = add.process;
		return true;
	}
	if (!array_reserve(&m->items, &m->cap, m->count + (size_t)1, sizeof *m->items))
		return false;
	add.path = keep_path(m, add.path);
	if (!add.path.data)
		return false;
	m->items[m->count++] = add;
	return true;
}

/* ---- order ---- */

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int mapping_order(const void *x, const void *y)
{
	const struct text_mapping *a = x, *b = y;
	int by_process = compare(a->process, b->process), by_kind = compare(a->kind, b->kind),
	    by_start = compare(a->start, b->start);
	return by_process ? by_process : by_kind ? by_kind : by_start ? by_start : compare(a->end, b->end);
}

static bool same_group(const struct text_mapping *a, const struct text_mapping *b)
{
	return a->process == b->process && a->kind == b->kind;
}

static bool have_same_id(const struct text_mapping *a, const struct text_mapping *b)
{
	return a->told == b->told || (a->told && b->told && str_equal(a->told->id, b->told->id));
}

/* Both say the same about each address that they share. */
static bool agree(const struct text_mapping *a, const struct text_mapping *b)
{
	return str_equal(a->path, b->path) && have_same_id(a, b) &&
	       (a->kind == MAP_FILES ? a->start - a->offset == b->start - b->offset : a->start == b->start);
}

static uint64_t end_of(const struct text_maps *m, uint32_t i)
{
	const struct text_mapping *a = &m->items[i], *next = a + 1;
	if (a->kind != MAP_STARTS || a->end > a->start + 1)
		return a->end;
	uint64_t end = a->start > UINT64_MAX - IMAGE_MAX ? UINT64_MAX : a->start + IMAGE_MAX;
	while (next < m->items + m->count && same_group(a, next) && next->start == a->start)
		next++;
	return next < m->items + m->count && same_group(a, next) && next->start < end ? next->start : end;
}

/* Those that overlap and do not agree answer nothing. */
static void check_overlaps(struct text_maps *m)
{
	uint32_t widest = 0;
	for (uint32_t i = 1; i < m->count; i++) {
		struct text_mapping *a = &m->items[widest], *b = &m->items[i];
		if (!same_group(a, b) || b->start >= end_of(m, widest)) {
			widest = i;
			continue;
		}
		if (!agree(a, b))
			a->disputed = b->disputed = true;
		/* what one of several lines about a place disputes is disputed for all */
		b->disputed = b->disputed || a->disputed;
		if (end_of(m, i) > end_of(m, widest))
			widest = i;
	}
}

/* The first mapping of this process, or with 0 of any, whose file has this name, or NULL. *key: where it would be. */
static struct text_mapping *look_up_name(const struct text_maps *m, uint32_t process, struct str name, uint64_t *key)
{
	uint64_t at;
	*key = name_hash_seeded(name, (struct str){(const char *)&process, sizeof process}, m->seed);
	for (; (at = map64_get(&m->by_name, *key)); ++*key) {
		struct text_mapping *found = &m->items[at - 1];
		if (str_equal(text_base_name(found->path), name) && (!process || found->process == process))
			return found;
	}
	return NULL;
}

/* Without memory, some names have no path. */
static void note_names(struct text_maps *m)
{
	map64_reset(&m->by_name);
	for (uint32_t i = 0; i < 2 * m->count; i++) {
		uint64_t key;
		const struct text_mapping *at = &m->items[i / 2];
		if (at->only_addresses)
			continue;
		struct text_mapping *first = look_up_name(m, i % 2 ? at->process : 0, text_base_name(at->path), &key);
		if (!first)
			map64_put(&m->by_name, key, (uint64_t)i / 2 + 1);
		else if (!str_equal(first->path, at->path))
			first->ambiguous[i % 2] = true;
	}
}

static void sort(struct text_maps *m)
{
	if (m->sorted)
		return;
	if (m->count)
		qsort(m->items, m->count, sizeof *m->items, mapping_order);
	check_overlaps(m);
	note_names(m);
	m->sorted = true;
}

/* ---- questions ---- */

/* The last mapping of this kind that begins at or below the address, or NULL. */
static const struct text_mapping *find_below(
        const struct text_maps *m, uint32_t process, enum text_map_kind kind, uint64_t address)
{
	const struct text_mapping wanted = {
	        .start = address, .end = UINT64_MAX, .process = process, .kind = (uint8_t)kind};
	uint32_t low = 0, high = m->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (mapping_order(&m->items[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	const struct text_mapping *found = low ? &m->items[low - 1] : NULL;
	return found && same_group(found, &wanted) ? found : NULL;
}

/* At most so large are the pages of a process that has these bounds. */
static uint64_t page_size(uint64_t bounds)
{
	uint64_t lowest = bounds & -bounds;
	return lowest && lowest < PAGE_MAX ? lowest : PAGE_MAX;
}

/* Where the image begins that a mapping belongs to: at the lowest of the mappings of the same file that lie below it,
 * with offsets that rise. The first has the beginning of the file; in a small file others may have it too. Neighbours
 * of an image share a page of the file at most: where they share more, the lower one is of somebody who reads the file,
 * and nothing is certain. */
static bool find_start(const struct text_maps *m, const struct text_mapping *of, uint64_t *start)
{
	const struct text_mapping *at = of;
	for (unsigned i = 0; i < STEPS_BACK && at > m->items; i++, at--) {
		const struct text_mapping *below = at - 1;
		if (!same_group(below, of) || !str_equal(below->path, of->path) || below->offset > at->offset)
			break;
		if (below->end - below->start >
		        at->offset - below->offset + page_size(below->start | below->end | at->start | at->end))
			return false;
	}
	*start = at->start;
	return !at->offset && !at->disputed;
}

bool text_maps_find(struct text_maps *m, uint32_t process, uint64_t address, struct text_location *out)
{
	if (!m->count || (m->overflowed && process >= m->overflowed))
		return false;
	sort(m);
	for (unsigned kind = 0; kind < MAP_KINDS; kind++) {
		const struct text_mapping *found = find_below(m, process, (enum text_map_kind)kind, address);
		if (!found || address >= end_of(m, (uint32_t)(found - m->items)))
			continue;
		uint64_t start = found->start;
		if (found->disputed || !found->executable || (kind == MAP_FILES && !find_start(m, found, &start)))
			return false;
		static const enum text_base bases[MAP_KINDS] = {[MAP_FILES] = TEXT_IMAGE,
		        [MAP_CODE] = TEXT_CODE,
		        [MAP_STARTS] = TEXT_IMAGE,
		        [MAP_EXEC] = TEXT_EXEC};
		*out = (struct text_location){found->path, found->told, start, bases[kind]};
		return true;
	}
	return false;
}

bool text_maps_cover(struct text_maps *m, uint32_t process, uint64_t address)
{
	if (m->overflowed && process >= m->overflowed)
		return true;
	if (!m->count)
		return false;
	sort(m);
	const struct text_mapping *code = find_below(m, process, MAP_CODE, address);
	return (code && address < code->end) || find_below(m, process, MAP_FILES, UINT64_MAX) ||
	       find_below(m, process, MAP_STARTS, UINT64_MAX) || find_below(m, process, MAP_EXEC, UINT64_MAX);
}

struct str text_maps_path(struct text_maps *m, uint32_t process, struct str name)
{
	uint64_t ignored;
	if (!m->count)
		return NOTHING;
	sort(m);
	const struct text_mapping *own = look_up_name(m, process, name, &ignored),
	                          *first = own ? own : look_up_name(m, 0, name, &ignored);
	return first && !first->ambiguous[own != NULL] ? first->path : NOTHING;
}
