/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "cache/page_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/permits.h"
#include "map/value.h"
#include "sym/symmap.h"

enum {
	SHARDS = 32,
	CHAINS = 256, /* of a shard at first */
	IN_USE_TICKS = 3,
	SWEPT = 32, /* pages while their module is locked */
};

LIST_HEAD(module_chain, module);

struct shard {
	pthread_mutex_t lock; /* guards the chains; a module's own lock is taken inside it, never the other way round.
	                         Warm requests wait for both, so neither is held for long */
	struct module_chain *chains;
	uint32_t chain_count, count; /* a power of two; modules, as many at most as chains where there is memory */
};

struct page_cache {
	struct shard shards[SHARDS];
	uint64_t budget;
	_Atomic int64_t bytes;   /* of the modules in the cache */
	_Atomic int64_t charged; /* of maps being built */
	pthread_mutex_t evicting;
	unsigned hand; /* shard that the clock comes to next, under evicting */
	atomic_uint tick;
	pthread_mutex_t listing;         /* taken inside a shard's lock */
	TAILQ_HEAD(, module) unfinished; /* in the order in which they were added; some may be finished by now */
};

struct page_cache *page_cache_new(uint64_t budget)
{
	struct page_cache *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->budget = budget;
	pthread_mutex_init(&c->evicting, NULL);
	pthread_mutex_init(&c->listing, NULL);
	TAILQ_INIT(&c->unfinished);
	bool good = true;
	for (struct shard *s = c->shards; s < c->shards + SHARDS; s++) {
		pthread_mutex_init(&s->lock, NULL);
		s->chains = calloc(CHAINS, sizeof *s->chains);
		s->chain_count = s->chains ? CHAINS : 0;
		good = good && s->chains;
	}
	if (good)
		return c;
	page_cache_free(c);
	return NULL;
}

static struct shard *shard_of(struct page_cache *c, const struct module_hash *hash)
{
	return &c->shards[hash->bytes[0] % SHARDS];
}

/* The first byte has chosen the shard. */
static struct module_chain *chain_of(struct shard *s, const struct module_hash *hash)
{
	uint32_t bits;
	memcpy(&bits, hash->bytes + 1, sizeof bits);
	return &s->chains[bits & (s->chain_count - 1)];
}

/* Makes room for one more module. Without memory the chains become longer. */
static void grow_chains(struct shard *s)
{
	struct module *m;
	struct shard twice = {.chain_count = 2 * s->chain_count};
	if (++s->count <= s->chain_count || !(twice.chains = calloc(twice.chain_count, sizeof *twice.chains)))
		return;
	for (uint32_t i = 0; i < s->chain_count; i++)
		while ((m = LIST_FIRST(&s->chains[i]))) {
			LIST_REMOVE(m, chain);
			LIST_INSERT_HEAD(chain_of(&twice, &m->hash), m, chain);
		}
	free(s->chains);
	s->chains = twice.chains;
	s->chain_count = twice.chain_count;
}

/* ---- modules ---- */

static uint64_t root_bytes(const struct offmap *m)
{
	return sizeof(struct module) + sizeof *m + m->code_file_len +
	       m->code_count * (sizeof *m->code + sizeof *m->code_first) +
	       m->string_count * (sizeof *m->strings + sizeof *m->string_first);
}

static uint64_t page_bytes(const struct page *p)
{
	return sizeof *p + p->len;
}

struct module *module_new(const struct module_hash *hash, struct offmap *map, enum life life)
{
	struct module *m = calloc(1, sizeof *m);
	if (!m) {
		offmap_free(map);
		return NULL;
	}
	m->hash = *hash;
	m->since = clock_now();
	m->map = map;
	m->bytes = root_bytes(map);
	for (uint32_t i = 0; i < map->code_count; i++)
		m->bytes += map->code[i] ? page_bytes(map->code[i]) : 0;
	for (uint32_t i = 0; i < map->string_count; i++)
		m->bytes += map->strings[i] ? page_bytes(map->strings[i]) : 0;
	pthread_mutex_init(&m->lock, NULL);
	atomic_init(&m->refs, 1);
	atomic_init(&m->used, true);
	atomic_init(&m->life, life);
	account_add(ACCOUNT_PAGES, (int64_t)root_bytes(map));
	return m;
}

void module_ref(struct module *m)
{
	atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
}

void module_unref(struct module *m)
{
	if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
		return;
	symmap_unref(m->records);
	account_add(ACCOUNT_PAGES, -(int64_t)root_bytes(m->map));
	offmap_free(m->map);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

bool module_is_cached(struct module *m)
{
	pthread_mutex_lock(&m->lock);
	bool cached = m->in_cache;
	pthread_mutex_unlock(&m->lock);
	return cached;
}

/* ---- accounts ---- */

static void account(struct page_cache *c, int64_t bytes)
{
	atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
	metric_add(M_CACHE_BYTES, bytes);
}

static int64_t over(const struct page_cache *c, uint64_t limit)
{
	return atomic_load_explicit(&c->bytes, memory_order_relaxed) +
	       atomic_load_explicit(&c->charged, memory_order_relaxed) - (int64_t)limit;
}

/* ---- what is not finished ---- */

static void list_unfinished(struct page_cache *c, struct module *m)
{
	if (!*m->label || atomic_load(&m->life) != LIFE_LOADED)
		return;
	pthread_mutex_lock(&c->listing);
	m->is_listed = true;
	TAILQ_INSERT_TAIL(&c->unfinished, m, unfinished);
	pthread_mutex_unlock(&c->listing);
}

/* Call with the lock of the list. */
static void unlist(struct page_cache *c, struct module *m)
{
	if (m->is_listed)
		TAILQ_REMOVE(&c->unfinished, m, unfinished);
	m->is_listed = false;
}

struct module *page_cache_unfinished(struct page_cache *c)
{
	struct module *m;
	pthread_mutex_lock(&c->listing);
	while ((m = TAILQ_FIRST(&c->unfinished)) && atomic_load(&m->life) != LIFE_LOADED)
		unlist(c, m);
	if (m)
		module_ref(m);
	pthread_mutex_unlock(&c->listing);
	return m;
}

/* ---- leaving the cache ---- */

/* Takes a module out of its shard, whose lock is held. Returns the bytes that this frees. */
static int64_t unlink_module(struct page_cache *c, struct module *m)
{
	LIST_REMOVE(m, chain);
	shard_of(c, &m->hash)->count--;
	pthread_mutex_lock(&m->lock);
	int64_t bytes = (int64_t)m->bytes;
	m->in_cache = false;
	account(c, -bytes);
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_lock(&c->listing);
	unlist(c, m);
	pthread_mutex_unlock(&c->listing);
	metric_add(M_CACHE_MAPS, -1);
	return bytes;
}

static struct module *find_module(struct shard *s, const struct module_hash *hash)
{
	struct module *m;
	LIST_FOREACH(m, chain_of(s, hash), chain)
		if (module_hash_equal(&m->hash, hash))
			break;
	return m;
}

int64_t page_cache_remove(struct page_cache *c, const struct module_hash *hash, const struct module *only)
{
	struct shard *s = shard_of(c, hash);
	int64_t bytes = 0;
	pthread_mutex_lock(&s->lock);
	struct module *m = find_module(s, hash);
	if (m && only && m != only)
		m = NULL;
	if (m)
		bytes = unlink_module(c, m);
	pthread_mutex_unlock(&s->lock);
	module_unref(m);
	return bytes;
}

/* ---- eviction ---- */

/* Drops a page that was not used since the clock last passed; whether it is left. */
static bool sweep_page(struct page_cache *c, struct module *m, struct page **slot)
{
	struct page *p = *slot;
	if (!p || atomic_exchange_explicit(&p->used, 0, memory_order_relaxed))
		return p;
	int64_t bytes = (int64_t)page_bytes(p);
	*slot = NULL;
	m->bytes -= (uint64_t)bytes;
	account(c, -bytes);
	metric_add(M_CACHE_EVICTED, bytes);
	page_unref(p);
	return false;
}

/* Asked for within the last ticks. */
static bool is_in_use(const struct page_cache *c, const struct module *m)
{
	unsigned tick = atomic_load_explicit(&c->tick, memory_order_relaxed);
	return tick && tick - atomic_load_explicit(&m->used_at, memory_order_relaxed) < IN_USE_TICKS;
}

/* Sweeps slots of a module, a few while its lock is held, since its readers wait for that. Adds to *left; false: the
 * module stays, or has gone meanwhile. */
static bool sweep_slots(
        struct page_cache *c, struct module *m, struct page **slots, uint32_t count, bool spares, uint32_t *left)
{
	bool stays, sweeps;
	uint32_t i = 0;
	do {
		pthread_mutex_lock(&m->lock);
		/* Looked at under the lock: whoever holds it relies on the pages that he puts there later. */
		stays = !m->in_cache || atomic_load(&m->holds) || (spares && is_in_use(c, m));
		/* what is evicted can be made, or had, again */
		sweeps = !stays && (m->records || atomic_load(&m->life) == LIFE_STORED);
		for (uint32_t n = 0; sweeps && n < SWEPT && i < count; n++)
			*left += sweep_page(c, m, &slots[i++]);
		pthread_mutex_unlock(&m->lock);
	} while (sweeps && i < count);
	return !stays;
}

/* Whether the module may be evicted as a whole. */
static bool sweep_module(struct page_cache *c, struct module *m, bool spares)
{
	uint32_t left = 0;
	return sweep_slots(c, m, m->map->code, m->map->code_count, spares, &left) &&
	       sweep_slots(c, m, m->map->strings, m->map->string_count, spares, &left) &&
	       !atomic_exchange(&m->used, false) && !left;
}

/* The nth module of *chain, with a further reference, or the first of the next chain that has any; NULL: there is none.
 */
static struct module *next_module(struct shard *s, unsigned *chain, unsigned *n)
{
	struct module *m = NULL;
	pthread_mutex_lock(&s->lock);
	for (; *chain < s->chain_count; (*chain)++, *n = 0) {
		m = LIST_FIRST(&s->chains[*chain]);
		for (unsigned i = 0; m && i < *n; i++)
			m = LIST_NEXT(m, chain);
		if (m)
			break;
	}
	if (m)
		module_ref(m);
	pthread_mutex_unlock(&s->lock);
	return m;
}

/* The shard is not locked while a module is swept: what others add or remove meanwhile may be passed over. */
static void sweep_shard(struct page_cache *c, struct shard *s, uint64_t goal, bool spares)
{
	struct module *m;
	unsigned chain = 0, n = 0;
	while (over(c, goal) > 0 && (m = next_module(s, &chain, &n))) {
		if (sweep_module(c, m, spares))
			metric_add(M_CACHE_EVICTED, page_cache_remove(c, &m->hash, m));
		else
			n++;
		module_unref(m);
	}
}

/* Runs a clock over all shards: at most three rounds, since pages that are held stay. spares: what is in use. */
static void evict_to(struct page_cache *c, uint64_t goal, bool spares)
{
	if (pthread_mutex_trylock(&c->evicting) != 0)
		return;
	for (unsigned i = 0; i < 3 * SHARDS && over(c, goal) > 0; i++)
		sweep_shard(c, &c->shards[c->hand++ % SHARDS], goal, spares);
	pthread_mutex_unlock(&c->evicting);
}

/* If the modules alone are within the budget, what is in use does not give way to what is being built. */
void page_cache_evict(struct page_cache *c)
{
	int64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
	if (over(c, c->budget) > 0)
		evict_to(c, c->budget - c->budget / 16, bytes <= (int64_t)c->budget);
}

bool page_cache_has_room(const struct page_cache *c, uint64_t bytes)
{
	return over(c, c->budget - c->budget / 16) + (int64_t)bytes <= 0;
}

void page_cache_shrink(struct page_cache *c, uint64_t bytes)
{
	uint64_t all = (uint64_t)over(c, 0);
	evict_to(c, all > bytes ? all - bytes : 0, true);
}

void page_cache_tick(struct page_cache *c)
{
	atomic_fetch_add_explicit(&c->tick, 1, memory_order_relaxed);
}

void page_cache_charge(struct page_cache *c, int64_t bytes)
{
	atomic_fetch_add_explicit(&c->charged, bytes, memory_order_relaxed);
	metric_add(M_LOADING_BYTES, bytes);
	if (bytes > 0)
		page_cache_evict(c);
}

/* ---- the table ---- */

static void note_use(const struct page_cache *c, struct module *m)
{
	unsigned tick = atomic_load_explicit(&c->tick, memory_order_relaxed);
	if (!atomic_load_explicit(&m->used, memory_order_relaxed))
		atomic_store_explicit(&m->used, true, memory_order_relaxed);
	if (atomic_load_explicit(&m->used_at, memory_order_relaxed) != tick)
		atomic_store_explicit(&m->used_at, tick, memory_order_relaxed);
}

struct module *page_cache_get(struct page_cache *c, const struct module_hash *hash)
{
	struct shard *s = shard_of(c, hash);
	pthread_mutex_lock(&s->lock);
	struct module *m = find_module(s, hash);
	if (m)
		module_ref(m);
	pthread_mutex_unlock(&s->lock);
	if (m)
		note_use(c, m);
	return m;
}

void page_cache_add(struct page_cache *c, struct module *m)
{
	struct shard *s = shard_of(c, &m->hash);
	pthread_mutex_lock(&s->lock);
	struct module *old = find_module(s, &m->hash);
	if (old)
		unlink_module(c, old);
	module_ref(m);
	/* who loaded it holds it; it is in use when somebody asks for it again */
	atomic_store(&m->used_at, atomic_load_explicit(&c->tick, memory_order_relaxed) - IN_USE_TICKS);
	grow_chains(s);
	LIST_INSERT_HEAD(chain_of(s, &m->hash), m, chain);
	list_unfinished(c, m);
	pthread_mutex_lock(&m->lock);
	m->in_cache = true;
	account(c, (int64_t)m->bytes);
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_unlock(&s->lock);
	metric_add(M_CACHE_MAPS, 1);
	module_unref(old);
}

void page_cache_free(struct page_cache *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		for (uint32_t k = 0; k < c->shards[i].chain_count; k++)
			while (!LIST_EMPTY(&c->shards[i].chains[k]))
				page_cache_remove(c, &LIST_FIRST(&c->shards[i].chains[k])->hash, NULL);
		free(c->shards[i].chains);
		pthread_mutex_destroy(&c->shards[i].lock);
	}
	pthread_mutex_destroy(&c->evicting);
	pthread_mutex_destroy(&c->listing);
	free(c);
}

/* ---- pages ---- */

static struct page **slot_of(struct module *m, enum page_kind kind, uint32_t number)
{
	if (kind == PAGE_CODE)
		return number < m->map->code_count ? &m->map->code[number] : NULL;
	return number < m->map->string_count ? &m->map->strings[number] : NULL;
}

/* Puts a page into a slot, with a reference of its own, and releases the old one. Call with the module's lock. */
static void fill_slot(struct page_cache *c, struct module *m, struct page **slot, struct page *p)
{
	int64_t bytes = (int64_t)page_bytes(p) - (*slot ? (int64_t)page_bytes(*slot) : 0);
	page_ref(p);
	page_unref(*slot);
	*slot = p;
	m->bytes = (uint64_t)((int64_t)m->bytes + bytes);
	if (m->in_cache)
		account(c, bytes);
}

struct page *module_slot_page(struct module *m, enum page_kind kind, uint32_t number)
{
	struct page **slot = slot_of(m, kind, number), *p = NULL;
	if (!slot)
		return NULL;
	pthread_mutex_lock(&m->lock);
	if (*slot)
		page_ref(p = *slot);
	pthread_mutex_unlock(&m->lock);
	return p;
}

struct page *module_page(struct page_cache *c, struct module *m, enum page_kind kind, uint32_t number)
{
	struct page **slot = slot_of(m, kind, number), *p = module_slot_page(m, kind, number);
	if (!p)
		return NULL;
	if (p->codec != CODEC_RAW) {
		struct page *raw = page_expand(p);
		if (raw) {
			pthread_mutex_lock(&m->lock);
			if (*slot == p)
				fill_slot(c, m, slot, raw);
			pthread_mutex_unlock(&m->lock);
			page_cache_evict(c);
		}
		page_unref(p);
		return raw;
	}
	if (!atomic_load_explicit(&p->used, memory_order_relaxed))
		atomic_store_explicit(&p->used, 1, memory_order_relaxed);
	return p;
}

void module_put_page(struct page_cache *c, struct module *m, uint32_t number, struct page *p)
{
	struct page **slot = slot_of(m, p->kind, number);
	if (!slot)
		return;
	pthread_mutex_lock(&m->lock);
	if (!*slot)
		fill_slot(c, m, slot, p);
	pthread_mutex_unlock(&m->lock);
}

static struct symmap *text_of(struct module *m)
{
	pthread_mutex_lock(&m->lock);
	struct symmap *text = m->records;
	if (text)
		symmap_ref(text);
	pthread_mutex_unlock(&m->lock);
	return text;
}

static bool has_text(struct module *m, const struct symmap *text)
{
	pthread_mutex_lock(&m->lock);
	bool has = m->records == text;
	pthread_mutex_unlock(&m->lock);
	return has;
}

/* Makes a page from records. While this thread waited, another may have made the page, or finished them all: then the
 * records may be gone, and the page evicted, as module_make_page has it. */
static enum err make_page(struct page_cache *c, struct module *m, struct symmap *text, enum page_kind kind,
        uint32_t number, struct page **out)
{
	struct symmap_maker maker;
	permit_give();
	if (!symmap_take(text, false, &maker))
		return ERR_NO_MEMORY;
	if (!(*out = module_page(c, m, kind, number)) && (*out = symmap_make(&maker, kind, number))) {
		module_put_page(c, m, number, *out);
		page_cache_evict(c);
	}
	symmap_give(text, &maker);
	return *out || !has_text(m, text) ? ERR_OK : ERR_NO_MEMORY;
}

enum err module_make_page(
        struct page_cache *c, struct module *m, enum page_kind kind, uint32_t number, struct page **out)
{
	*out = NULL;
	if (!slot_of(m, kind, number))
		return ERR_OK;
	struct symmap *text = text_of(m);
	if (text) {
		enum err err = make_page(c, m, text, kind, number, out);
		symmap_unref(text);
		return err;
	}
	*out = module_page(c, m, kind, number); /* the last page may have been made since the caller looked */
	return ERR_OK;
}

void module_drop_records(struct module *m)
{
	pthread_mutex_lock(&m->lock);
	struct symmap *text = m->records;
	m->records = NULL;
	pthread_mutex_unlock(&m->lock);
	symmap_unref(text);
}
