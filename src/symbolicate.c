#include <config.h>

#include "symbolicate.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "format/offmap_read.h"
#include "format/reply_json.h"
#include "store/page_memcached.h"

/* Frames are looked up and rendered in batches, so that what the answers take in memory is bounded however many there
 * are. */
enum { BATCH = 8192, BATCH_BYTES = 32 << 20 };

/* The pages that one batch needs, each with a reference. */
struct page_set {
	struct page_get *pages;
	size_t count, cap;
};

struct batch {
	struct modules *modules;
	struct module_want *wants;
	size_t want_count;
	struct symbolicate_stats *stats;
	struct arena arena;
	struct page_set code, strings;
	uint32_t *code_index; /* page of each lookup of the batch, in code; UINT32_MAX: below the first symbol */
	struct offmap_answer *answers;
};

/* ---- order ---- */

static int lookup_order(const void *a, const void *b)
{
	const struct lookup *x = a, *y = b;
	if (x->want != y->want)
		return x->want < y->want ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static void sort_lookups(struct lookup *lookups, size_t count)
{
	bool sorted = true;
	for (size_t i = 1; i < count && sorted; i++)
		sorted = lookup_order(&lookups[i - 1], &lookups[i]) <= 0;
	if (!sorted)
		qsort(lookups, count, sizeof *lookups, lookup_order);
}

static bool same_place(const struct lookup *a, const struct lookup *b)
{
	return a->want == b->want && a->offset == b->offset;
}

/* ---- pages ---- */

static bool add_page(struct page_set *s, struct module *m, uint8_t kind, uint32_t number)
{
	if (s->count == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct page_get *grown = realloc(s->pages, cap * sizeof *grown);
		if (!grown)
			return false;
		s->pages = grown;
		s->cap = cap;
	}
	s->pages[s->count++] = (struct page_get){m, number, kind, NULL};
	return true;
}

static void drop_pages(struct page_set *s)
{
	for (size_t i = 0; i < s->count; i++)
		page_unref(s->pages[i].page);
	s->count = 0;
}

/* From memory, and the rest in one multiget from memcached. */
static void fetch_pages(struct batch *b, struct page_set *s)
{
	struct page_cache *cache = modules_cache(b->modules);
	size_t open = 0, found = 0, n = 0;
	uint64_t bytes = 0;
	for (size_t i = 0; i < s->count; i++)
		open += !(s->pages[i].page =
		                  module_page(cache, s->pages[i].module, s->pages[i].kind, s->pages[i].number));
	b->stats->cache_count += s->count;
	b->stats->cache_hits += s->count - open;
	metric_add(M_CACHE_PAGE_PROCESS, (int64_t)(s->count - open));
	if (!open)
		return;
	int64_t start = clock_now();
	struct mc_client *client = modules_memcached(b->modules);
	struct page_get *missing = malloc(open * sizeof *missing);
	if (client && missing) {
		for (size_t i = 0; i < s->count; i++)
			if (!s->pages[i].page)
				missing[n++] = s->pages[i];
		page_memcached_pages(client, missing, n, &bytes);
	}
	for (size_t i = 0, at = 0; at < n; i++) {
		struct page_get *g = &s->pages[i];
		if (g->page)
			continue;
		g->page = missing[at++].page;
		if (g->page) {
			module_put_page(cache, g->module, g->number, g->page);
			found++;
		}
	}
	free(missing);
	b->stats->cache_hits += found;
	b->stats->cache_bytes += bytes;
	b->stats->cache_time += clock_now() - start;
	metric_add(M_CACHE_PAGE_MEMCACHED, (int64_t)found);
	metric_add(M_CACHE_PAGE_NONE, (int64_t)(open - found));
}

/* A module that misses a page, or has one that is not sound, must be loaded again. */
static void lose(struct batch *b, const struct module *module)
{
	for (size_t i = 0; i < b->want_count; i++)
		if (b->wants[i].module == module)
			modules_lost_page(b->modules, &b->wants[i]);
}

/* All modules of which a page is nowhere are lost at once. */
static enum symbolicate_result lose_missing(struct batch *b, const struct page_set *s)
{
	enum symbolicate_result result = SYMBOLICATE_OK;
	const struct module *last = NULL;
	for (size_t i = 0; i < s->count; i++)
		if (!s->pages[i].page) {
			if (s->pages[i].module != last)
				lose(b, last = s->pages[i].module);
			result = SYMBOLICATE_LOAD;
		}
	return result;
}

/* ---- code pages ---- */

static bool want_code_pages(struct batch *b, const struct lookup *lookups, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct module *m = b->wants[lookups[i].want].module;
		if (i && same_place(&lookups[i], &lookups[i - 1])) {
			b->code_index[i] = b->code_index[i - 1];
			continue;
		}
		int64_t page = offmap_code_page(m->map, lookups[i].offset);
		const struct page_get *last = b->code.count ? &b->code.pages[b->code.count - 1] : NULL;
		if (page >= 0 && (!last || last->module != m || last->number != (uint32_t)page) &&
		        !add_page(&b->code, m, PAGE_CODE, (uint32_t)page))
			return false;
		b->code_index[i] = page < 0 ? UINT32_MAX : (uint32_t)b->code.count - 1;
	}
	return true;
}

/* ---- strings ---- */

/* slots: for each string page of the module, its place in b->strings + 1, or 0. */

static bool want_string(struct batch *b, struct module *m, uint32_t *slots, const struct offmap_string *s)
{
	if (!s->external)
		return true;
	int64_t page = offmap_string_page(m->map, s->external);
	if (page < 0)
		return true; /* resolve_string finds that the page is corrupt */
	if (slots[page])
		return true;
	slots[page] = (uint32_t)b->strings.count + 1;
	return add_page(&b->strings, m, PAGE_STRINGS, (uint32_t)page);
}

static bool want_answer_strings(struct batch *b, struct module *m, uint32_t *slots, const struct offmap_answer *a)
{
	bool ok = want_string(b, m, slots, &a->frame.function) && want_string(b, m, slots, &a->frame.file);
	for (uint32_t i = 0; i < a->inline_count && ok; i++)
		ok = want_string(b, m, slots, &a->inlines[i].function) && want_string(b, m, slots, &a->inlines[i].file);
	return ok;
}

static bool resolve_string(struct batch *b, const struct module *m, const uint32_t *slots, struct offmap_string *s)
{
	if (!s->external)
		return true;
	int64_t page = offmap_string_page(m->map, s->external);
	return page >= 0 && slots[page] &&
	       offmap_string_lookup(b->strings.pages[slots[page] - 1].page, s->external, s) == ERR_OK;
}

static bool resolve_answer(struct batch *b, const struct module *m, const uint32_t *slots, struct offmap_answer *a)
{
	bool ok = resolve_string(b, m, slots, &a->frame.function) && resolve_string(b, m, slots, &a->frame.file);
	for (uint32_t i = 0; i < a->inline_count && ok; i++)
		ok = resolve_string(b, m, slots, &a->inlines[i].function) &&
		     resolve_string(b, m, slots, &a->inlines[i].file);
	return ok;
}

/* ---- batches ---- */

/* Looks up as many of the lookups as one batch takes. *done: how many. */
static enum symbolicate_result look_up(struct batch *b, const struct lookup *lookups, size_t count, size_t *done)
{
	size_t i;
	if (!want_code_pages(b, lookups, count))
		return SYMBOLICATE_NO_MEMORY;
	fetch_pages(b, &b->code);
	if (lose_missing(b, &b->code))
		return SYMBOLICATE_LOAD;
	for (i = 0; i < count && b->arena.used < BATCH_BYTES; i++) {
		struct offmap_answer *a = &b->answers[i];
		*a = (struct offmap_answer){0};
		if (i && same_place(&lookups[i], &lookups[i - 1])) {
			*a = b->answers[i - 1];
			continue;
		}
		if (b->code_index[i] == UINT32_MAX)
			continue;
		enum err err = offmap_lookup(b->code.pages[b->code_index[i]].page, lookups[i].offset, &b->arena, a);
		if (err == ERR_CORRUPT) {
			lose(b, b->code.pages[b->code_index[i]].module);
			return SYMBOLICATE_LOAD;
		}
		if (err)
			return SYMBOLICATE_NO_MEMORY;
	}
	*done = i;
	return SYMBOLICATE_OK;
}

/* Fetches the string pages of the answers and puts the bytes in. Lookups are sorted by module, so each module's come
 * together. */
static enum symbolicate_result resolve(struct batch *b, const struct lookup *lookups, size_t count)
{
	uint32_t **slots = calloc(count + 1, sizeof *slots);
	enum symbolicate_result result = slots ? SYMBOLICATE_OK : SYMBOLICATE_NO_MEMORY;
	for (size_t i = 0; i < count && !result; i++) {
		struct module *m = b->wants[lookups[i].want].module;
		bool same = i && lookups[i].want == lookups[i - 1].want;
		slots[i] = same ? slots[i - 1] : arena_calloc(&b->arena, m->map->string_count + 1, sizeof **slots);
		if (!slots[i] || !want_answer_strings(b, m, slots[i], &b->answers[i]))
			result = SYMBOLICATE_NO_MEMORY;
	}
	if (!result) {
		fetch_pages(b, &b->strings);
		result = lose_missing(b, &b->strings);
	}
	for (size_t i = 0; i < count && !result; i++) {
		struct module *m = b->wants[lookups[i].want].module;
		if (i && same_place(&lookups[i], &lookups[i - 1]))
			b->answers[i] = b->answers[i - 1];
		else if (!resolve_answer(b, m, slots[i], &b->answers[i])) {
			lose(b, m);
			result = SYMBOLICATE_LOAD;
		}
	}
	free(slots);
	return result;
}

static enum symbolicate_result render(struct batch *b, const struct lookup *lookups, size_t count, bool v4,
        struct buffer *bytes, struct rendered *places)
{
	for (size_t i = 0; i < count; i++) {
		struct rendered *place = &places[lookups[i].frame];
		b->stats->found += b->answers[i].found;
		if (i && same_place(&lookups[i], &lookups[i - 1])) {
			*place = places[lookups[i - 1].frame];
			continue;
		}
		place->at = bytes->len;
		bool ok = v4 ? reply_v4_head(bytes, lookups[i].offset, &b->answers[i])
		             : reply_v5_tail(bytes, lookups[i].offset, &b->answers[i]);
		if (!ok)
			return SYMBOLICATE_TOO_LARGE;
		place->len = (uint32_t)(bytes->len - place->at);
	}
	return SYMBOLICATE_OK;
}

enum symbolicate_result symbolicate(struct modules *m, struct module_want *wants, size_t want_count,
        struct lookup *lookups, size_t count, bool v4, struct buffer *bytes, struct rendered *places,
        struct symbolicate_stats *stats)
{
	enum symbolicate_result result = SYMBOLICATE_OK;
	size_t most = count < BATCH ? count : BATCH;
	struct batch b = {.modules = m, .wants = wants, .want_count = want_count, .stats = stats};
	arena_init(&b.arena, SIZE_MAX);
	b.code_index = malloc(most * sizeof *b.code_index + 1);
	b.answers = malloc(most * sizeof *b.answers + 1);
	if (!b.code_index || !b.answers)
		result = SYMBOLICATE_NO_MEMORY;
	sort_lookups(lookups, count);
	for (size_t at = 0, done; at < count && !result; at += done) {
		done = count - at < most ? count - at : most;
		result = look_up(&b, lookups + at, done, &done);
		if (!result)
			result = resolve(&b, lookups + at, done);
		if (!result)
			result = render(&b, lookups + at, done, v4, bytes, places);
		drop_pages(&b.code);
		drop_pages(&b.strings);
		arena_reset(&b.arena);
	}
	free(b.code.pages);
	free(b.strings.pages);
	free(b.code_index);
	free(b.answers);
	arena_release(&b.arena);
	return result;
}
