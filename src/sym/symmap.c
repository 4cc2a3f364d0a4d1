/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "sym/symmap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "sym/reader.h"

enum {
	IDLE_MAX = 16,
	CHARGE_STEP = 256 << 10, /* bytes of text, and bytes that are charged ahead */
};

struct symmap {
	struct offmap_options options;
	atomic_uint *idle_makers;
	atomic_uint refs;
	struct symreader *reader;
	struct symspans *spans;
	uint64_t unchecked; /* bytes of text since memory was last checked */
	bool refused;       /* there was no room */
	/* under lock, after finishing */
	pthread_mutex_t lock;
	pthread_cond_t given;
	struct symmap_maker idle[IDLE_MAX];
	unsigned idle_count, taken, taken_more; /* taken_more: of `taken`, those with `more` */
	unsigned makers_max;                    /* of the others */
	uint64_t each;                          /* that a maker may take */
	uint64_t maker_bytes, charged;          /* charged: for the records and spans */
};

static uint64_t held(const struct symmap *m)
{
	return sizeof *m + symreader_bytes(m->reader) + (m->spans ? symspans_bytes(m->spans) : 0);
}

static bool charge(struct symmap *m, uint64_t bytes)
{
	if (bytes != m->charged &&
	        !offmap_charge(&m->options, ACCOUNT_TEXTS, m->charged, (int64_t)bytes - (int64_t)m->charged))
		return false;
	m->charged = bytes;
	return true;
}

/* It will take so many bytes more, which may be more than was charged ahead. */
static bool grow(void *arg, uint64_t bytes)
{
	struct symmap *m = arg;
	uint64_t all = held(m) + bytes, max = m->options.memory_max;
	m->refused = all > m->charged && ((max && all > max) || !charge(m, all));
	return !m->refused;
}

static struct symmap *new_map(const struct offmap_options *options, atomic_uint *idle_makers, struct symreader *reader)
{
	struct symmap *m = reader ? calloc(1, sizeof *m) : NULL;
	if (!m) {
		symreader_free(reader);
		return NULL;
	}
	m->reader = reader;
	m->options = *options;
	m->idle_makers = idle_makers;
	m->reader->records->grow = grow;
	m->reader->records->grow_arg = m;
	atomic_init(&m->refs, 1);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->given, NULL);
	return m;
}

struct symmap *symmap_new(const struct offmap_options *options, atomic_uint *idle_makers, struct str id)
{
	return new_map(options, idle_makers, symreader_new(id, 0));
}

struct symmap *symmap_of(const struct offmap_options *options, atomic_uint *idle_makers, struct records *records)
{
	return new_map(options, idle_makers, symreader_of(records));
}

void symmap_ref(struct symmap *m)
{
	atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
}

void symmap_unref(struct symmap *m)
{
	if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
		return;
	atomic_fetch_sub_explicit(m->idle_makers, m->idle_count, memory_order_relaxed);
	while (m->idle_count)
		sympages_free(m->idle[--m->idle_count].pages);
	symspans_free(m->spans);
	symreader_free(m->reader);
	charge(m, 0);
	if (m->maker_bytes)
		offmap_charge(&m->options, ACCOUNT_MAKERS, 0, -(int64_t)m->maker_bytes);
	pthread_cond_destroy(&m->given);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* ---- the text arrives ---- */

static enum err too_large(struct error *e)
{
	return error_set(e, ERR_TOO_LARGE, "too large");
}

/* Charges the memory held, and what will be `ahead`. Fails if there is no room, or if that and `more` bytes would
 * exceed memory_max. */
static enum err check_memory(struct symmap *m, uint64_t ahead, uint64_t more, struct error *e)
{
	uint64_t bytes = held(m), max = m->options.memory_max;
	bool fits = !max || bytes + more <= max;
	return fits && charge(m, bytes + ahead) ? ERR_OK : too_large(e);
}

/* Whether memory is not short, but the map too large. */
static bool is_large(const struct symmap *m, enum err err)
{
	return err && (m->refused || (err == ERR_NO_MEMORY && records_full(m->reader->records)));
}

enum err symmap_feed(struct symmap *m, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t n; len && !err; data += n, len -= n) {
		n = len < CHARGE_STEP - m->unchecked ? len : (size_t)(CHARGE_STEP - m->unchecked);
		err = symreader_feed(m->reader, data, n, e);
		m->unchecked += n;
		if (err || m->unchecked < CHARGE_STEP)
			continue;
		m->unchecked = 0;
		err = check_memory(m, CHARGE_STEP, 0, e);
	}
	return is_large(m, err) ? too_large(e) : err;
}

/* How many makers memory_max and the cores allow at once, beside one with `more`; at least one. */
static unsigned count_makers(const struct symmap *m)
{
	uint64_t max = m->options.memory_max, bytes = held(m), each = m->each, cores = cores_count();
	if (!max || bytes + (cores + 1) * each <= max)
		return (unsigned)cores;
	return bytes + 3 * each > max ? 1 : (unsigned)((max - bytes) / each - 1);
}

enum err symmap_finish(struct symmap *m, struct error *e)
{
	enum err err = m->reader->state ? symreader_finish(m->reader, e) : ERR_OK;
	const struct records *x = m->reader->records;
	if (!err)
		err = check_memory(m, 0, sympages_page_bytes_max(x), e);
	if (!err && !(m->spans = symspans_new(x, m->options.nearest)))
		err = no_memory(e);
	if (err)
		return is_large(m, err) ? too_large(e) : err;
	m->each = sympages_page_bytes_max(x) + sympages_kept_bytes_max(x);
	m->makers_max = count_makers(m);
	err = check_memory(m, 0, 0, e);
	m->options.take = NULL; /* from now on only makers come */
	return err;
}

bool symmap_code(const struct symmap *m, struct str *file, struct str *id)
{
	*file = (struct str){m->reader->code_file, m->reader->code_file_len};
	*id = str_from(m->reader->code_id);
	return file->len && id->len;
}

static struct offmap *complete(const struct symreader *r, struct offmap *map)
{
	if (!map)
		return NULL;
	memcpy(map->code_id, r->code_id, sizeof map->code_id);
	map->generation = r->generation;
	map->damaged = r->damaged;
	map->text_bytes = r->text_bytes;
	return map;
}

static struct str code_file(const struct symreader *r)
{
	return (struct str){r->code_file, r->code_file_len};
}

struct offmap *symmap_map(const struct symmap *m)
{
	return complete(m->reader, sympages_map(m->reader->records, m->spans, code_file(m->reader)));
}

struct offmap *symmap_all(const struct symmap *m)
{
	return complete(m->reader, sympages_all(m->reader->records, m->spans, code_file(m->reader)));
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
		atomic_fetch_sub_explicit(m->idle_makers, 1, memory_order_relaxed);
	}
	m->taken++;
	m->taken_more += more;
	maker->more = more;
	pthread_mutex_unlock(&m->lock);
	if (maker->pages || (maker->pages = sympages_new(m->reader->records, m->spans)))
		return true;
	symmap_give(m, maker);
	return false;
}

struct page *symmap_make(struct symmap_maker *maker, enum page_kind kind, uint32_t number)
{
	return kind == PAGE_CODE ? sympages_code(maker->pages, number) : sympages_strings(maker->pages, number);
}

static void set_bytes(struct symmap *m, struct symmap_maker *maker, uint64_t bytes)
{
	if (bytes != maker->bytes)
		offmap_charge(&m->options, ACCOUNT_MAKERS, m->maker_bytes, (int64_t)(bytes - maker->bytes));
	m->maker_bytes += bytes - maker->bytes;
	maker->bytes = bytes;
}

void symmap_charge(struct symmap *m, struct symmap_maker *maker)
{
	pthread_mutex_lock(&m->lock);
	set_bytes(m, maker, sympages_bytes(maker->pages));
	pthread_mutex_unlock(&m->lock);
}

/* Whether one more idle maker may be kept: over all texts at most as many as can work at once. */
static bool keeps_maker(struct symmap *m)
{
	if (m->idle_count == IDLE_MAX || account_left() < account_total() / 4)
		return false;
	if (atomic_fetch_add_explicit(m->idle_makers, 1, memory_order_relaxed) < cores_count())
		return true;
	atomic_fetch_sub_explicit(m->idle_makers, 1, memory_order_relaxed);
	return false;
}

void symmap_give(struct symmap *m, struct symmap_maker *maker)
{
	pthread_mutex_lock(&m->lock);
	m->taken--;
	m->taken_more -= maker->more;
	bool kept = maker->pages && keeps_maker(m);
	set_bytes(m, maker, kept ? sympages_bytes(maker->pages) : 0);
	if (kept)
		m->idle[m->idle_count++] = *maker;
	pthread_cond_signal(&m->given);
	pthread_mutex_unlock(&m->lock);
	if (!kept)
		sympages_free(maker->pages);
}
