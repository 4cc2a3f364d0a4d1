/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sym/symmap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "sym/needs.h"

enum {
	IDLE_MAX = 16,
	SCATTERED = 6, /* as often may each stretch be inflated: to compress a text takes that long */
};

struct symmap {
	struct offmap_options options;
	struct text_store_budget *budget;
	atomic_uint refs;
	struct text_store *store;
	struct symindex *index;
	struct symspans *spans;
	struct known_cuts cuts; /* of the first cut_count symbols */
	uint32_t cut_count;
	uint64_t unchecked; /* bytes of text since memory was last checked */
	/* under lock, after finishing */
	struct symneeds needs;
	pthread_mutex_t lock;
	pthread_cond_t given;
	struct symmap_maker idle[IDLE_MAX];
	unsigned idle_count, taken, taken_more; /* taken_more: of `taken`, those with `more` */
	unsigned makers_max;                    /* of the others */
	uint64_t each;                          /* that a maker may take */
	uint64_t maker_bytes, charged;          /* charged: for the text, and its index */
};

struct symmap *symmap_new(
        const struct offmap_options *options, struct block_pool *pool, struct text_store_budget *budget, struct str id)
{
	struct symmap *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->options = *options;
	m->budget = budget;
	atomic_init(&m->refs, 1);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->given, NULL);
	m->cuts.finder.page_text = SYMSPANS_PAGE_TEXT;
	if ((m->store = text_store_new(pool, budget)) && (m->index = symindex_new(id)))
		return m;
	symmap_unref(m);
	return NULL;
}

void symmap_ref(struct symmap *m)
{
	atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
}

static bool charge(struct symmap *m, uint64_t bytes)
{
	if (bytes != m->charged &&
	        !offmap_charge(&m->options, ACCOUNT_TEXTS, m->charged, (int64_t)bytes - (int64_t)m->charged))
		return false;
	m->charged = bytes;
	return true;
}

static void release_maker(struct symmap_maker *maker)
{
	sympages_free(maker->pages);
	text_store_reader_free(maker->reader);
}

void symmap_unref(struct symmap *m)
{
	if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
		return;
	atomic_fetch_sub_explicit(&m->budget->idle_makers, m->idle_count, memory_order_relaxed);
	while (m->idle_count)
		release_maker(&m->idle[--m->idle_count]);
	symneeds_release(&m->needs);
	symspans_free(m->spans);
	known_cuts_release(&m->cuts);
	symindex_free(m->index);
	text_store_free(m->store);
	charge(m, 0);
	if (m->maker_bytes)
		offmap_charge(&m->options, ACCOUNT_MAKERS, 0, -(int64_t)m->maker_bytes);
	pthread_cond_destroy(&m->given);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* ---- the text arrives ---- */

struct packed_text *symmap_packed(struct symmap *m)
{
	return text_store_packed(m->store);
}

static uint64_t held(const struct symmap *m)
{
	return sizeof *m + text_store_bytes(m->store) + symindex_bytes(m->index) + known_cuts_bytes(&m->cuts) +
	       (m->spans ? symspans_bytes(m->spans) : 0) + symneeds_bytes(&m->needs);
}

/* Charges the memory held, and what will be `ahead`. Fails if there is no room, or if that and `more` bytes would
 * exceed memory_max. */
static enum err check_memory(struct symmap *m, uint64_t ahead, uint64_t more, struct error *e)
{
	uint64_t bytes = held(m), max = m->options.memory_max;
	bool fits = !max || bytes + more <= max;
	return fits && charge(m, bytes + ahead) ? ERR_OK : error_set(e, ERR_TOO_LARGE, "too large");
}

/* Whether a page may need text of the block that the last bytes are in. */
static bool needs_block(const struct symmap *m)
{
	return symindex_needs(m->index, (m->index->text_bytes - 1) / BLOCK_SIZE * BLOCK_SIZE);
}

/* Whether the cuts of the FUNC are looked for before it is charged what that takes: no more than a few MB, most of
 * which the next one uses again. */
static bool is_cut_early(const struct symmap *m, const struct symindex_symbol *s)
{
	return cuts_are_needed(&m->cuts.finder, s) && symindex_text_of(s) <= TEXT_STORE_RECENT && s->size <= UINT32_MAX;
}

/* Looks for the cuts of large FUNCs that have ended, while their text is there as it came. */
static void note_cuts(struct symmap *m)
{
	const struct symtext text = text_store_recent(m->store);
	for (; m->cut_count + 1 < m->index->symbol_count; m->cut_count++) {
		const struct symindex_symbol *s = &m->index->symbols[m->cut_count];
		if (is_cut_early(m, s))
			known_cuts_add(&m->cuts, &text, s);
	}
}

/* After n bytes: notes cuts, and checks memory now and then. */
static enum err check_after(struct symmap *m, size_t n, struct error *e)
{
	note_cuts(m);
	m->unchecked += n;
	if (m->unchecked < BLOCK_SIZE)
		return ERR_OK;
	m->unchecked = 0;
	return check_memory(m, BLOCK_SIZE, 0, e);
}

enum err symmap_append(struct symmap *m, uint8_t *block, size_t n, struct error *e)
{
	enum err err = symindex_feed(m->index, block, n, e);
	if (!text_store_append(m->store, block, n, needs_block(m)) && !err)
		err = no_memory(e);
	return err ? err : check_after(m, n, e);
}

enum err symmap_feed(struct symmap *m, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t n; len && !err; data += n, len -= n) {
		uint8_t *to = text_store_space(m->store, &n);
		if (!to)
			return no_memory(e);
		n = n < len ? n : len;
		memcpy(to, data, n);
		err = symindex_feed(m->index, to, n, e);
		if (!err && !text_store_commit(m->store, n, needs_block(m)))
			err = no_memory(e);
		if (!err)
			err = check_after(m, n, e);
	}
	return err;
}

/* How many makers memory_max and the cores allow at once, beside one with `more`; at least one. */
static unsigned count_makers(const struct symmap *m)
{
	uint64_t max = m->options.memory_max, bytes = held(m), each = m->each, cores = cores_count();
	if (!max || bytes + (cores + 1) * each <= max)
		return (unsigned)cores;
	return bytes + 3 * each > max ? 1 : (unsigned)((max - bytes) / each - 1);
}

struct growth {
	struct symmap *map;
	bool refused;
};

/* The spans take so many bytes, which may be more than was charged ahead. */
static bool charge_spans(void *arg, uint64_t bytes)
{
	struct growth *g = arg;
	struct symmap *m = g->map;
	uint64_t all = held(m) + bytes, max = m->options.memory_max;
	g->refused = all > m->charged && ((max && all > max) || !charge(m, all));
	return !g->refused;
}

/* Pages read symbols in the order of their addresses. Whether that would inflate text too often. */
static bool is_scattered(const struct symmap *m)
{
	const struct symindex *x = m->index;
	const struct packed_text *packed = text_store_packed(m->store);
	uint64_t recent[TEXT_STORE_STRETCHES], misses = 0, most = SCATTERED * (x->text_bytes / PACKED_STRETCH + 1);
	memset(recent, 0xff, sizeof recent);
	for (uint32_t i = 0; i < x->symbol_count && misses <= most; i++) {
		uint64_t stretch = x->symbols[i].place / PACKED_STRETCH;
		bool had = !packed_text_has(packed, stretch);
		for (unsigned k = 0; k < TEXT_STORE_STRETCHES; k++)
			had = had || recent[k] == stretch;
		if (!had)
			recent[misses++ % TEXT_STORE_STRETCHES] = stretch;
	}
	return misses > most;
}

enum err symmap_finish(struct symmap *m, struct error *e)
{
	enum err err = symindex_finish(m->index, e);
	if (!err && (!text_store_end(m->store) || (is_scattered(m) && !text_store_unpack(m->store))))
		err = no_memory(e);
	if (!err)
		/* the spans, which are made next, take up to half as much as the index */
		err = check_memory(m, symindex_bytes(m->index) / 2, sympages_page_bytes_max(m->index), e);
	if (err)
		return err;
	struct growth growth = {.map = m};
	struct text_store_reader *reader = text_store_reader_new(m->store);
	if (reader)
		m->spans = symspans_new(m->index, text_store_reader_text(reader), m->options.nearest, 0, &m->cuts,
		        charge_spans, &growth);
	text_store_reader_free(reader);
	known_cuts_release(&m->cuts);
	if (growth.refused)
		return error_set(e, ERR_TOO_LARGE, "too large");
	if (!m->spans || !symneeds_init(&m->needs, m->index, m->spans))
		return no_memory(e);
	m->each = sympages_page_bytes_max(m->index) + sympages_kept_bytes_max(m->index);
	m->makers_max = count_makers(m);
	err = check_memory(m, 0, 0, e);
	m->options.take = NULL; /* from now on it shrinks, but for its makers */
	return err;
}

bool symmap_code(const struct symmap *m, struct str *file, struct str *id)
{
	*file = (struct str){m->index->code_file, m->index->code_file_len};
	*id = str_from(m->index->code_id);
	return file->len && id->len;
}

struct offmap *symmap_map(const struct symmap *m)
{
	return sympages_map(m->index, m->spans);
}

struct offmap *symmap_all(const struct symmap *m)
{
	struct text_store_reader *reader = text_store_reader_new(m->store);
	struct offmap *map = reader ? sympages_all(m->index, m->spans, text_store_reader_text(reader)) : NULL;
	text_store_reader_free(reader);
	return map;
}

/* ---- pages ---- */

static bool has_enough_makers(const struct symmap *m)
{
	unsigned makers = m->taken - m->taken_more;
	return makers >= m->makers_max || (makers && account_left() < m->each);
}

bool symmap_take(struct symmap *m, bool more, struct symmap_maker *maker)
{
	*maker = (struct symmap_maker){0};
	pthread_mutex_lock(&m->lock);
	while (!more && has_enough_makers(m))
		pthread_cond_wait(&m->given, &m->lock);
	if (m->idle_count) {
		*maker = m->idle[--m->idle_count];
		atomic_fetch_sub_explicit(&m->budget->idle_makers, 1, memory_order_relaxed);
	}
	m->taken++;
	m->taken_more += more;
	maker->more = more;
	pthread_mutex_unlock(&m->lock);
	if (maker->pages)
		return true;
	if ((maker->reader = text_store_reader_new(m->store)) &&
	        (maker->pages = sympages_new(m->index, m->spans, text_store_reader_text(maker->reader))))
		return true;
	symmap_give(m, maker);
	return false;
}

struct page *symmap_make(
        struct symmap_maker *maker, enum page_kind kind, uint32_t number, struct sympages_counts *counts)
{
	return kind == PAGE_CODE ? sympages_code(maker->pages, number, counts) : sympages_strings(maker->pages, number);
}

const uint32_t *symmap_order(const struct symmap *m)
{
	return m->needs.order;
}

void symmap_made(struct symmap *m, enum page_kind kind, uint32_t number)
{
	struct symneeds *n = &m->needs;
	pthread_mutex_lock(&m->lock);
	symneeds_made(n, m->index, m->spans, kind == PAGE_CODE, number);
	while (m->taken == 1 && n->idle_count)
		text_store_let_go(m->store, n->idle[--n->idle_count]);
	pthread_mutex_unlock(&m->lock);
}

static void set_bytes(struct symmap *m, struct symmap_maker *maker, uint64_t bytes)
{
	if (bytes != maker->bytes)
		offmap_charge(&m->options, ACCOUNT_MAKERS, m->maker_bytes, (int64_t)(bytes - maker->bytes));
	m->maker_bytes += bytes - maker->bytes;
	maker->bytes = bytes;
	charge(m, held(m));
}

static uint64_t bytes_of(const struct symmap_maker *maker)
{
	return sympages_bytes(maker->pages) + text_store_reader_bytes(maker->reader);
}

void symmap_charge(struct symmap *m, struct symmap_maker *maker)
{
	pthread_mutex_lock(&m->lock);
	set_bytes(m, maker, bytes_of(maker));
	pthread_mutex_unlock(&m->lock);
}

/* Whether one more idle maker may be kept: over all texts at most as many as can work at once. */
static bool keeps_maker(struct symmap *m)
{
	if (m->idle_count == IDLE_MAX || account_left() < account_total() / 4)
		return false;
	if (atomic_fetch_add_explicit(&m->budget->idle_makers, 1, memory_order_relaxed) < cores_count())
		return true;
	atomic_fetch_sub_explicit(&m->budget->idle_makers, 1, memory_order_relaxed);
	return false;
}

void symmap_give(struct symmap *m, struct symmap_maker *maker)
{
	pthread_mutex_lock(&m->lock);
	m->taken--;
	m->taken_more -= maker->more;
	bool kept = maker->pages && keeps_maker(m);
	set_bytes(m, maker, kept ? bytes_of(maker) : 0);
	if (kept)
		m->idle[m->idle_count++] = *maker;
	pthread_cond_signal(&m->given);
	pthread_mutex_unlock(&m->lock);
	if (!kept)
		release_maker(maker);
}
