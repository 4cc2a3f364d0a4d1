/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/symbolicate.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/account.h"
#include "base/clock.h"
#include "base/map64.h"
#include "base/metrics.h"
#include "json/reply.h"

enum {
	BATCH = 1024,             /* lookups whose pages are fetched together; more would hold a worker for too long */
	SHARED_LEAST = 4 * BATCH, /* so many lookups are shared with others */
	STEP = 32,                /* lookups without a yield */
	BATCH_BYTES = 32 << 20,   /* a batch ends early when its answers take this much, without their strings */
	SORT_SMALL = 64,          /* up to this many are sorted by qsort, which cannot yield */
	RADIX_BITS = 8,
};

#define NO_PAGE UINT32_MAX

/* What a helper looked up. */
struct symbols_share {
	struct symbols_share *next;
	struct symbols symbols;
	struct arena arena;
	struct symbolicate_stats stats;
};

/* All lookups of a request, in batches, each done by whoever takes it. */
struct work {
	struct help_work help; /* first */
	const struct symbolication *in;
	size_t batches;
	bool *done;                     /* which of them */
	atomic_size_t next;             /* the one to be taken next */
	atomic_ullong size, page_bytes; /* of all texts; of the pages that are held */
	_Atomic(struct symbols_share *) shares;
};

/* A distinct frame: lookups of one module and offset, which stand one after the other. */
struct place {
	const struct lookup *lookups;
	size_t count;
	struct module *module;
	uint64_t address;            /* in the module's map */
	uint32_t page;               /* index of its code page in the set; NO_PAGE: it needs none */
	bool wanted;                 /* its text is worth keeping */
	const struct hot_frame *hot; /* its text, if it was kept */
	struct symbol *symbol;
};

/* What one thread needs for one batch after the other. */
struct batch {
	const struct symbolication *in;
	struct work *work;
	struct symbols *symbols;
	struct symbolicate_stats *stats;
	const struct yield *yield;
	bool alone; /* nobody else is at work, so modules may be marked */
	struct place *places;
	size_t count;         /* of places that are looked up together */
	struct map64 strings; /* string pages in the set, by want and number: their index + 1 */
};

/* ---- order ---- */

static int compare(const void *a, const void *b)
{
	const struct lookup *x = a, *y = b;
	if (x->want != y->want)
		return x->want < y->want ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The digit that a radix pass sorts by: shifts below 64 are in the offset, above in the module. */
static unsigned digit(const struct lookup *l, unsigned shift)
{
	uint64_t part = shift < 64 ? l->offset >> shift : l->want >> (shift - 64);
	return part & ((1 << RADIX_BITS) - 1);
}

static void radix_pass(const struct lookup *from, struct lookup *to, size_t count, unsigned shift)
{
	size_t at[1 << RADIX_BITS] = {0}, sum = 0;
	for (size_t i = 0; i < count; i++)
		at[digit(&from[i], shift)]++;
	for (unsigned d = 0; d < 1 << RADIX_BITS; d++) {
		size_t n = at[d];
		at[d] = sum;
		sum += n;
	}
	for (size_t i = 0; i < count; i++)
		to[at[digit(&from[i], shift)]++] = from[i];
}

/* Skips digits in which all are equal. False if out of memory. */
static bool sort_many(struct lookup *lookups, size_t count, struct arena *arena, const struct yield *y)
{
	struct lookup differs = {0}, *from = lookups, *to = arena_alloc(arena, count * sizeof *to);
	if (!to)
		return false;
	for (size_t i = 1; i < count; i++) {
		differs.offset |= lookups[i].offset ^ lookups[0].offset;
		differs.want |= lookups[i].want ^ lookups[0].want;
	}
	for (unsigned shift = 0; shift < 96; shift += RADIX_BITS)
		if (digit(&differs, shift)) {
			radix_pass(from, to, count, shift);
			struct lookup *sorted = to;
			to = from;
			from = sorted;
			yield_now(y);
		}
	if (from != lookups)
		memcpy(lookups, from, count * sizeof *lookups);
	return true;
}

static bool sort_lookups(struct lookup *lookups, size_t count, struct arena *arena, const struct yield *y)
{
	bool sorted = true;
	for (size_t i = 1; i < count && sorted; i++)
		sorted = compare(&lookups[i - 1], &lookups[i]) <= 0;
	if (!sorted && count > SORT_SMALL)
		return sort_many(lookups, count, arena, y);
	if (!sorted)
		qsort(lookups, count, sizeof *lookups, compare);
	return true;
}

/* ---- pages ---- */

void symbols_init(struct symbols *s, struct arena *arena, uint64_t max_size, uint64_t max_pages, int64_t deadline)
{
	*s = (struct symbols){.arena = arena, .max_size = max_size, .max_pages = max_pages, .deadline = deadline};
}

/* Releases the pages from `from` on. */
static void drop_pages(struct symbols *s, uint32_t from)
{
	for (uint32_t i = from; i < s->page_count; i++)
		page_unref(s->pages[i].page);
	s->page_count = from;
}

void symbols_release(struct symbols *s)
{
	drop_pages(s, 0);
	free(s->pages);
	for (uint32_t i = 0; i < s->hot_count; i++)
		hot_frame_unref(s->hot[i]);
	free(s->hot);
	for (struct symbols_share *share = s->shares, *next; share; share = next) {
		next = share->next;
		symbols_release(&share->symbols);
		arena_release(&share->arena);
		free(share);
	}
	arena_reset(s->arena);
	symbols_init(s, s->arena, s->max_size, s->max_pages, s->deadline);
}

static bool add_page(struct symbols *s, struct module *m, uint8_t kind, uint32_t number)
{
	if (!array_reserve(&s->pages, &s->page_cap, s->page_count + (size_t)1, sizeof *s->pages))
		return false;
	s->pages[s->page_count++] = (struct page_get){m, number, kind, NULL};
	return true;
}

/* Marks a module for loading again, because a page of it is missing or corrupt. While helpers are at work, no module
 * is marked: the lookup that follows them, alone, finds the page missing again. */
static void lose(struct batch *b, const struct module *module)
{
	for (size_t i = 0; b->alone && i < b->in->want_count; i++)
		if (b->in->wants[i].module == module)
			modules_lost_page(b->in->modules, &b->in->wants[i]);
}

/* To be called between two steps. False: nobody needs the answers. */
static bool step_on(const struct batch *b, size_t step)
{
	return (step + 1) % STEP || yield_now(b->yield);
}

/* Marks all modules that still miss a page, so that they are loaded together. */
static enum symbolicate_result lose_missing(struct batch *b, size_t from)
{
	enum symbolicate_result result = SYMBOLICATE_OK;
	const struct module *last = NULL;
	const struct symbols *s = b->symbols;
	if (clock_now() >= s->deadline)
		return SYMBOLICATE_TOO_LATE; /* not all servers were asked, so we cannot tell what is lost */
	for (size_t i = from; i < s->page_count; i++)
		if (!s->pages[i].page) {
			if (s->pages[i].module != last)
				lose(b, last = s->pages[i].module);
			result = SYMBOLICATE_LOAD;
		}
	return result;
}

/* Takes pages from memory, or makes them if the module's text is in memory, of up to *most bytes in all; *most: what is
 * left of it. *missing: how many are left. */
static enum symbolicate_result make_pages(
        struct batch *b, struct page_get *pages, size_t count, uint64_t *most, size_t *missing)
{
	struct page_cache *cache = modules_cache(b->in->modules);
	size_t had = 0;
	*missing = 0;
	for (size_t i = 0; i < count; i++) {
		struct page_get *g = &pages[i];
		if ((g->page = module_page(cache, g->module, g->kind, g->number)))
			had++;
		else if (clock_now() >= b->symbols->deadline)
			return SYMBOLICATE_TOO_LATE;
		else if (module_make_page(cache, g->module, g->kind, g->number, &g->page))
			return SYMBOLICATE_NO_MEMORY;
		else if (g->page)
			modules_made_page(b->in->modules, g->module, g->number, g->page);
		uint64_t len = g->page ? g->page->len : 0;
		if (len > *most)
			return SYMBOLICATE_TOO_LARGE;
		*most -= len;
		*missing += !g->page;
		if (!step_on(b, i))
			return SYMBOLICATE_GONE;
	}
	b->stats->cache_count += count;
	b->stats->cache_hits += had;
	metric_add(M_CACHE_PAGE_PROCESS, (int64_t)had);
	metric_add(M_CACHE_PAGE_NONE, (int64_t)(count - had - *missing));
	return SYMBOLICATE_OK;
}

/* Gets the pages from `from` on: from memory or a module's text, the rest in one multiget from memcached. TOO_LARGE:
 * they have more than `most` bytes in all. */
static enum symbolicate_result fetch_pages(struct batch *b, size_t from, uint64_t most)
{
	struct page_cache *cache = modules_cache(b->in->modules);
	struct page_get *pages = b->symbols->pages + from;
	size_t count = b->symbols->page_count - from, open, found = 0, n = 0;
	uint64_t bytes = 0;
	enum symbolicate_result result = make_pages(b, pages, count, &most, &open);
	if (result || !open)
		return result;
	int64_t start = clock_now();
	struct mc_client *client = modules_memcached(b->in->modules);
	struct page_get **missing = malloc(open * sizeof *missing);
	bool all = true;
	if (client && missing) {
		for (size_t i = 0; i < count; i++)
			if (!pages[i].page)
				missing[n++] = &pages[i];
		all = page_memcached_pages(client, missing, n, most, b->symbols->deadline, &bytes);
	}
	for (size_t i = 0; i < n; i++)
		if (missing[i]->page) {
			module_put_page(cache, missing[i]->module, missing[i]->number, missing[i]->page);
			found++;
		}
	free(missing);
	page_cache_evict(cache);
	b->stats->cache_hits += found;
	b->stats->cache_bytes += bytes;
	b->stats->cache_time += clock_now() - start;
	metric_add(M_CACHE_PAGE_MEMCACHED, (int64_t)found);
	metric_add(M_CACHE_PAGE_NONE, (int64_t)(open - found));
	return all ? lose_missing(b, from) : SYMBOLICATE_TOO_LARGE;
}

/* ---- places ---- */

static struct hot_key hot_key_of(const struct batch *b, const struct place *p)
{
	return (struct hot_key){
	        p->module->hash, p->module->map->generation, p->address, p->lookups->offset, b->in->functions_only};
}

/* With its text, if that is kept. An address that would overflow becomes the last one. False if out of memory. */
static bool add_place(struct batch *b, const struct lookup *l)
{
	struct symbols *s = b->symbols;
	struct place *p = &b->places[b->count++];
	const struct module_want *w = &b->in->wants[l->want];
	if (!array_reserve(&s->hot, &s->hot_cap, s->hot_count + (size_t)1, sizeof *s->hot))
		return false;
	*p = (struct place){l, 1, w->module, .page = NO_PAGE};
	p->address = l->offset > UINT64_MAX - w->image_base ? UINT64_MAX : l->offset + w->image_base;
	const struct hot_key key = hot_key_of(b, p);
	struct hot_frame *hot = hot_frames_get(b->in->hot, &key, &p->wanted);
	if ((p->hot = hot))
		s->hot[s->hot_count++] = hot;
	return true;
}

/* False if out of memory. */
static bool find_places(struct batch *b, const struct lookup *lookups, size_t count)
{
	uint32_t had = b->symbols->hot_count;
	b->count = 0;
	for (size_t i = 0; i < count; i++)
		if (i && lookups[i].want == lookups[i - 1].want && lookups[i].offset == lookups[i - 1].offset)
			b->places[b->count - 1].count++;
		else if (!add_place(b, &lookups[i]))
			return false;
	uint32_t hits = b->symbols->hot_count - had;
	metric_add(M_CACHE_FRAME_PROCESS, hits);
	metric_add(M_CACHE_FRAME_NONE, b->in->hot ? (int64_t)b->count - hits : 0);
	return true;
}

/* Keeps the text of a symbol that was just looked up. */
static void keep_hot(const struct batch *b, const struct place *p)
{
	const struct symbol *symbol = p->symbol;
	const struct hot_key key = hot_key_of(b, p);
	struct hot_frame *f = symbol->size <= UINT32_MAX ? hot_frame_new(&key, (uint32_t)symbol->size) : NULL;
	if (!f)
		return;
	f->found = symbol->answer.found;
	(key.function_only ? put_v4_head : put_v5_tail)(f->text, symbol->offset, &symbol->answer);
	hot_frames_add(b->in->hot, f);
	hot_frame_unref(f);
}

static bool is_in_page(const struct page_get *g, const struct place *p)
{
	const struct offmap *map = p->module->map;
	return g->module == p->module && p->address >= map->code_first[g->number] &&
	       (g->number + 1 == map->code_count || p->address < map->code_first[g->number + 1]);
}

static bool want_code_pages(struct batch *b)
{
	struct symbols *s = b->symbols;
	size_t first = s->page_count;
	for (struct place *p = b->places; p < b->places + b->count; p++) {
		if (p->hot)
			continue;
		/* mostly it is that of the place before */
		if (s->page_count == first || !is_in_page(&s->pages[s->page_count - 1], p)) {
			int64_t page = offmap_code_page(p->module->map, p->address);
			if (page < 0) /* below the first symbol */
				continue;
			if (!add_page(s, p->module, PAGE_CODE, (uint32_t)page))
				return false;
		}
		p->page = s->page_count - 1;
	}
	return true;
}

/* The symbol and the inlined calls lie behind one another, since whoever writes them comes to them in another order and
 * waits for each part of memory. Keeps only what is written, because max_reply bounds just that. */
static enum err look_up_place(struct batch *b, struct place *p)
{
	struct symbols *s = b->symbols;
	struct symbol *symbol = p->symbol = arena_alloc(s->arena, sizeof *symbol);
	if (!symbol)
		return ERR_NO_MEMORY;
	*symbol = (struct symbol){.offset = p->lookups->offset, .hot = p->hot, .answer.found = p->hot && p->hot->found};
	if (p->page == NO_PAGE)
		return ERR_OK;
	const struct page *page = s->pages[p->page].page;
	return b->in->functions_only ? offmap_lookup_function(page, p->address, &symbol->answer)
	                             : offmap_lookup(page, p->address, s->arena, &symbol->answer);
}

/* Looks up places of these lookups: as many as fit into one batch, at least one. */
static enum symbolicate_result look_up(struct batch *b, const struct lookup *lookups, size_t count)
{
	struct symbols *s = b->symbols;
	uint32_t from = s->page_count;
	if (!find_places(b, lookups, count) || !want_code_pages(b))
		return SYMBOLICATE_NO_MEMORY;
	enum symbolicate_result result = fetch_pages(b, from, UINT64_MAX);
	if (result)
		return result;
	size_t i, used = s->arena->used;
	for (i = 0; i < b->count && s->arena->used - used < BATCH_BYTES; i++) {
		struct place *p = &b->places[i];
		if (!step_on(b, i))
			return SYMBOLICATE_GONE;
		enum err err = look_up_place(b, p);
		if (err == ERR_CORRUPT) {
			lose(b, p->module);
			return SYMBOLICATE_LOAD;
		}
		if (err)
			return SYMBOLICATE_NO_MEMORY;
	}
	b->count = i;
	return SYMBOLICATE_OK;
}

/* ---- strings ---- */

/* Calls `visit` for each string of an answer, until one fails. */
static enum err each_string(struct batch *b, const struct place *p,
        enum err (*visit)(struct batch *b, const struct place *p, struct offmap_string *s))
{
	struct offmap_answer *a = &p->symbol->answer;
	enum err err = visit(b, p, &a->frame.function);
	if (!err)
		err = visit(b, p, &a->frame.file);
	for (uint32_t i = 0; i < a->inline_count && !err; i++) {
		err = visit(b, p, &a->inlines[i].function);
		if (!err)
			err = visit(b, p, &a->inlines[i].file);
	}
	return err;
}

/* Adds the page of an external string to the set, unless it is there, and notes its index. */
static enum err want_string(struct batch *b, const struct place *p, struct offmap_string *s)
{
	if (!s->external)
		return ERR_OK;
	int64_t page = offmap_string_page(p->module->map, s->external);
	s->page = NO_PAGE; /* resolve_string takes the map for corrupt */
	if (page < 0)
		return ERR_OK;
	uint64_t key = (uint64_t)p->lookups->want << 32 | (uint32_t)page, index = map64_get(&b->strings, key);
	if (!index) {
		if (!add_page(b->symbols, p->module, PAGE_STRINGS, (uint32_t)page))
			return ERR_NO_MEMORY;
		index = b->symbols->page_count;
		if (!map64_put(&b->strings, key, index))
			return ERR_NO_MEMORY;
	}
	s->page = (uint32_t)index - 1;
	return ERR_OK;
}

static enum err resolve_string(struct batch *b, const struct place *p, struct offmap_string *s)
{
	(void)p;
	if (!s->external)
		return ERR_OK;
	return s->page == NO_PAGE ? ERR_CORRUPT : offmap_string_lookup(b->symbols->pages[s->page].page, s->external, s);
}

/* Fetches the string pages of the answers, and replaces ids by bytes. A page above twice OFFMAP_PAGE_SIZE is one
 * string, which will be written: pages that have more bytes than that and the rest of the reply give no reply. */
static enum symbolicate_result resolve(struct batch *b)
{
	struct symbols *s = b->symbols;
	size_t from = s->page_count;
	for (size_t i = 0; i < b->count; i++)
		if (each_string(b, &b->places[i], want_string))
			return SYMBOLICATE_NO_MEMORY;
	uint64_t most = s->max_size - s->size + (s->page_count - from) * UINT64_C(2) * OFFMAP_PAGE_SIZE;
	enum symbolicate_result result = fetch_pages(b, from, most);
	if (result)
		return result;
	for (size_t i = 0; i < b->count; i++) {
		enum err err = each_string(b, &b->places[i], resolve_string);
		if (err == ERR_CORRUPT) {
			lose(b, b->places[i].module);
			return SYMBOLICATE_LOAD;
		}
		if (err)
			return SYMBOLICATE_NO_MEMORY;
		if (!step_on(b, i))
			return SYMBOLICATE_GONE;
	}
	return SYMBOLICATE_OK;
}

/* ---- what is kept of a batch ---- */

static enum err own_string(struct batch *b, const struct place *p, struct offmap_string *s)
{
	(void)p;
	uint8_t *copy = s->len ? arena_alloc(b->symbols->arena, s->len) : NULL;
	if (s->len && !copy)
		return ERR_NO_MEMORY;
	if (copy)
		memcpy(copy, s->data, s->len);
	s->data = copy;
	return ERR_OK;
}

/* Drops the pages from `from` on. String pages before them are no longer known either: they would be added again. */
static void leave_pages(struct batch *b, uint32_t from)
{
	drop_pages(b->symbols, from);
	map64_reset(&b->strings);
}

/* Keeps the pages from `from` on or, if they would exceed max_pages, copies the strings and releases them. */
static bool settle_pages(struct batch *b, uint32_t from)
{
	struct symbols *s = b->symbols;
	uint64_t bytes = 0;
	for (size_t i = from; i < s->page_count; i++)
		bytes += s->pages[i].page->len;
	if (atomic_fetch_add(&b->work->page_bytes, bytes) + bytes <= s->max_pages)
		return true;
	atomic_fetch_sub(&b->work->page_bytes, bytes);
	for (size_t i = 0; i < b->count; i++)
		if (each_string(b, &b->places[i], own_string))
			return false;
	leave_pages(b, from);
	return true;
}

/* Gives each lookup its symbol, and counts them in *done. */
static enum symbolicate_result measure(struct batch *b, size_t *done)
{
	struct symbols *s = b->symbols;
	uint64_t before = s->size;
	*done = 0;
	for (const struct place *p = b->places; p < b->places + b->count; p++) {
		struct symbol *symbol = p->symbol;
		symbol->size = symbol->hot ? symbol->hot->len
		                           : (b->in->functions_only ? v4_head_size : v5_tail_size)(
		                                     symbol->offset, &symbol->answer);
		if (p->wanted)
			keep_hot(b, p);
		for (size_t i = 0; i < p->count; i++)
			b->in->symbol_of[p->lookups[i].frame] = symbol;
		b->stats->found += symbol->answer.found ? p->count : 0;
		s->size += p->count * symbol->size;
		s->largest = symbol->size > s->largest ? symbol->size : s->largest;
		*done += p->count;
	}
	uint64_t more = s->size - before;
	return atomic_fetch_add(&b->work->size, more) + more > s->max_size ? SYMBOLICATE_TOO_LARGE : SYMBOLICATE_OK;
}

/* ---- batches ---- */

static bool batch_init(struct batch *b, struct work *w, struct symbols *symbols, struct symbolicate_stats *stats,
        const struct yield *y, bool alone)
{
	size_t most = w->in->lookup_count < BATCH ? w->in->lookup_count : BATCH;
	*b = (struct batch){.in = w->in, .work = w, .symbols = symbols, .stats = stats, .yield = y, .alone = alone};
	b->places = arena_alloc(symbols->arena, most * sizeof *b->places);
	return b->places;
}

/* Some of the lookups, at least one. Pages that were not found are asked for again if the lookups are done again. */
static enum symbolicate_result answer_some(struct batch *b, const struct lookup *lookups, size_t count, size_t *done)
{
	struct symbols *s = b->symbols;
	uint32_t from = s->page_count;
	if (clock_now() >= s->deadline)
		return SYMBOLICATE_TOO_LATE;
	enum symbolicate_result result = look_up(b, lookups, count);
	if (!result)
		result = resolve(b);
	if (!result)
		result = measure(b, done);
	if (!result && !settle_pages(b, from))
		result = SYMBOLICATE_NO_MEMORY;
	if (result)
		leave_pages(b, from);
	return result;
}

/* How many of the lookups come before the first in a module that was lost. */
static size_t count_kept(const struct batch *b, const struct lookup *lookups, size_t count)
{
	size_t n = 0;
	while (n < count && b->in->wants[lookups[n].want].module)
		n++;
	return n;
}

/* One that fails counts for nothing: it may be done again. */
static enum symbolicate_result answer_batch(struct batch *b, size_t number)
{
	enum symbolicate_result result = SYMBOLICATE_OK;
	const uint64_t size = b->symbols->size, found = b->stats->found;
	struct lookup *lookups = b->in->lookups + number * BATCH;
	size_t left = b->in->lookup_count - number * BATCH, count = left < BATCH ? left : BATCH, lost = 0;
	for (size_t at = 0, done; at < count && !result; at += done) {
		size_t kept = count_kept(b, lookups + at, count - at);
		lost += done = !kept;
		result = kept ? answer_some(b, lookups + at, kept, &done) : SYMBOLICATE_OK;
	}
	if (!result && lost)
		result = SYMBOLICATE_LOAD;
	if (result) {
		atomic_fetch_sub(&b->work->size, b->symbols->size - size);
		b->symbols->size = size;
		b->stats->found = found;
	}
	b->work->done[number] = !result;
	if (!result && b->symbols != b->in->symbols)
		metric_add(M_LOOKUPS_SHARED, (int64_t)count);
	return result;
}

/* Batches that nobody has taken, one after the other. */
static enum symbolicate_result answer_batches(struct batch *b)
{
	enum symbolicate_result result = SYMBOLICATE_OK;
	struct work *w = b->work;
	while (!result) {
		if (!yield_now(b->yield))
			return SYMBOLICATE_GONE;
		size_t number = atomic_fetch_add(&w->next, 1);
		if (number >= w->batches)
			break;
		result = answer_batch(b, number);
	}
	return result;
}

/* On a helper's thread. What he cannot do is left. */
static void help_out(struct help_work *help, const struct yield *y)
{
	struct work *w = (struct work *)help;
	const struct symbols *s = w->in->symbols;
	struct batch b = {0};
	struct symbols_share *share = calloc(1, sizeof *share);
	if (!share)
		return;
	arena_init(&share->arena, SIZE_MAX);
	arena_charge(&share->arena, ACCOUNT_REPLIES, UINT64_MAX);
	symbols_init(&share->symbols, &share->arena, s->max_size, s->max_pages, s->deadline);
	if (batch_init(&b, w, &share->symbols, &share->stats, y, false))
		answer_batches(&b);
	map64_release(&b.strings);
	share->next = atomic_load(&w->shares);
	while (!atomic_compare_exchange_weak(&w->shares, &share->next, share))
		;
}

static void take_shares(struct work *w)
{
	struct symbols *s = w->in->symbols;
	struct symbolicate_stats *stats = w->in->stats;
	s->shares = atomic_load(&w->shares);
	for (const struct symbols_share *share = s->shares; share; share = share->next) {
		s->size += share->symbols.size;
		s->largest = share->symbols.largest > s->largest ? share->symbols.largest : s->largest;
		stats->found += share->stats.found;
		stats->cache_count += share->stats.cache_count;
		stats->cache_hits += share->stats.cache_hits;
		stats->cache_bytes += share->stats.cache_bytes;
		stats->cache_time += share->stats.cache_time;
	}
}

/* With help, as far as all goes well; the rest then alone. Goes on when a page is lost, so that all modules that have
 * lost one are loaded together. */
static enum symbolicate_result answer_all(struct batch *b)
{
	struct work *w = b->work;
	const struct help *h = &b->in->help;
	enum symbolicate_result result = SYMBOLICATE_OK;
	if (h->offer && b->in->lookup_count >= SHARED_LEAST) {
		b->alone = false;
		h->offer(h->arg, &w->help);
		result = answer_batches(b);
		atomic_store(&w->next, w->batches);
		h->take_back(h->arg, &w->help);
		take_shares(w);
		b->alone = true;
	}
	if (result == SYMBOLICATE_GONE)
		return result;
	bool lost = false;
	result = SYMBOLICATE_OK;
	for (size_t i = 0; i < w->batches && (!result || result == SYMBOLICATE_LOAD); i++) {
		result = w->done[i] ? SYMBOLICATE_OK : answer_batch(b, i);
		lost = lost || result == SYMBOLICATE_LOAD;
	}
	return result || !lost ? result : SYMBOLICATE_LOAD;
}

enum symbolicate_result symbolicate(const struct symbolication *in)
{
	enum symbolicate_result result = SYMBOLICATE_NO_MEMORY;
	struct work w = {.help = {.run = help_out}, .in = in, .batches = (in->lookup_count + BATCH - 1) / BATCH};
	struct batch b = {0};
	w.done = arena_calloc(in->symbols->arena, w.batches, sizeof *w.done);
	if (w.done && batch_init(&b, &w, in->symbols, in->stats, &in->yield, true) &&
	        sort_lookups(in->lookups, in->lookup_count, in->symbols->arena, &in->yield))
		result = answer_all(&b);
	map64_release(&b.strings);
	return result;
}
