/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges and pads come in any order and from several files, so all are kept until the end: each string once; line
 * tables and frames of pads as varints. Then they are sorted and swept (symbfile/sweep.c).
 */
#include <config.h>

#include "symbfile/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/varint.h"
#include "records/pages.h"
#include "symbfile/records.h"

enum {
	STRING_MAX = 1 << 20,    /* bytes; a longer string is cut, so that a page can hold it escaped */
	STRING_MEAN = 4096,      /* each use of a string writes it again. So strings */
	STRINGS_FREE = 64 << 20, /* are cut to STRING_MEAN if, after this many bytes, their mean is above it */
	PLAIN_DEPTHS = 1 << 16,  /* depths below this need no renumbering */
	CHARGE_STEP = 1 << 20,   /* smallest change that is charged, in bytes */
};

struct symbfile_map *symbfile_map_new(const struct offmap_options *options)
{
	struct symbfile_map *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->options = *options;
	m->slot_count = 1; /* slot 0: none */
	arena_init(&m->texts, SIZE_MAX);
	/* without a salt, only the defence against chosen strings is weaker */
	if (getrandom(&m->salt, sizeof m->salt, GRND_NONBLOCK) < 0)
		m->salt = (uintptr_t)m;
	m->slot_cap = 64;
	m->slots = calloc(m->slot_cap, sizeof *m->slots);
	m->table_size = 64;
	m->table = calloc(m->table_size, sizeof *m->table);
	if (!m->slots || !m->table) {
		symbfile_map_free(m);
		return NULL;
	}
	return m;
}

/* Leaves only what is charged. */
static void free_records(struct symbfile_map *m)
{
	arena_release(&m->texts);
	free(m->slots);
	free(m->table);
	free(m->ranges);
	free(m->pads);
	free(m->blob);
	free(m->symbols);
	*m = (struct symbfile_map){.options = m->options, .charged = m->charged};
}

void symbfile_map_free(struct symbfile_map *m)
{
	if (!m)
		return;
	free_records(m);
	offmap_charge(&m->options, ACCOUNT_RECORDS, 0, -(int64_t)m->charged);
	free(m);
}

bool symbfile_map_count(struct symbfile_map *m, uint64_t more)
{
	uint64_t bytes = m->texts.used + (uint64_t)m->slot_cap * sizeof *m->slots +
	                 (uint64_t)m->table_size * sizeof *m->table + m->blob_len + m->range_count * sizeof *m->ranges +
	                 m->pad_count * sizeof *m->pads + m->symbol_count * sizeof *m->symbols + m->tables +
	                 (m->out ? records_bytes(m->out) : 0) + more;
	int64_t change = (int64_t)(bytes - m->charged);
	bool fits = !m->too_large && (!m->options.memory_max || bytes <= m->options.memory_max);
	if (fits && llabs(change) >= CHARGE_STEP &&
	        (fits = offmap_charge(&m->options, ACCOUNT_RECORDS, m->charged, change)))
		m->charged = bytes;
	m->too_large = !fits;
	return fits;
}

/* ---- strings ---- */

static bool grow_table(struct symbfile_map *m)
{
	uint32_t size = 2 * m->table_size;
	uint32_t *grown = size ? calloc(size, sizeof *grown) : NULL;
	if (!grown)
		return false;
	for (uint32_t slot = 1; slot < m->slot_count; slot++) {
		uint32_t at = (uint32_t)m->slots[slot].hash & (size - 1);
		while (grown[at])
			at = (at + 1) & (size - 1);
		grown[at] = slot;
	}
	free(m->table);
	m->table = grown;
	m->table_size = size;
	return true;
}

static bool add_slot(struct symbfile_map *m, struct str s, uint64_t hash)
{
	struct map_string slot = {.hash = hash, .len = (uint32_t)s.len};
	if (!array_reserve(&m->slots, &m->slot_cap, m->slot_count + 1, sizeof *m->slots) ||
	        !(slot.text = arena_alloc(&m->texts, slot.len)))
		return false;
	memcpy(slot.text, s.data, s.len);
	m->slots[m->slot_count++] = slot;
	return true;
}

/* Cuts a string that is too long, but never within a character. */
static struct str cut_string(struct symbfile_map *m, struct str s)
{
	size_t max = m->string_bytes > STRINGS_FREE + STRING_MEAN * m->strings ? STRING_MEAN : STRING_MAX;
	m->strings++;
	if (s.len > max)
		for (s.len = max; s.len > max - 3 && (s.data[s.len] & 0xc0) == 0x80;)
			s.len--;
	m->string_bytes += s.len;
	return s;
}

/* The slot of a string; 0 for an empty one. false: out of memory. */
static bool intern_text(struct symbfile_map *m, struct str s, uint32_t *slot)
{
	s = cut_string(m, s);
	*slot = 0;
	if (!s.len)
		return true;
	if (4 * (uint64_t)m->slot_count > 3 * (uint64_t)m->table_size && !grow_table(m))
		return false;
	uint64_t hash = checksum(&m->salt, sizeof m->salt, s.data, s.len);
	uint32_t at = (uint32_t)hash & (m->table_size - 1);
	for (; m->table[at]; at = (at + 1) & (m->table_size - 1)) {
		const struct map_string *known = &m->slots[m->table[at]];
		if (known->hash == hash && known->len == s.len && !memcmp(known->text, s.data, s.len)) {
			*slot = m->table[at];
			return true;
		}
	}
	if (!add_slot(m, s, hash))
		return false;
	*slot = m->table[at] = m->slot_count - 1;
	return true;
}

static bool intern_name(struct symbfile_map *m, struct str s, uint32_t *slot)
{
	return intern_text(m, s.len ? s : str_from("<unknown>"), slot);
}

/* ---- records ---- */

static bool blob_put(struct symbfile_map *m, const uint64_t *numbers, unsigned count)
{
	if (m->blob_cap - m->blob_len < count * VARINT_MAX) {
		uint64_t cap = m->blob_cap + m->blob_cap / 2 + 4096;
		uint8_t *grown = realloc(m->blob, cap);
		if (!grown)
			return false;
		m->blob = grown;
		m->blob_cap = cap;
	}
	uint8_t *at = m->blob + m->blob_len;
	for (unsigned i = 0; i < count; i++)
		at = varint_put(at, numbers[i]);
	m->blob_len = (uint64_t)(at - m->blob);
	return true;
}

static bool put_line(struct symbfile_map *m, struct range_record *r, struct symbfile_line *last, struct symbfile_line l)
{
	if (l.line == last->line)
		return true;
	const uint64_t step[] = {l.offset - last->offset, zigzag((int64_t)l.line - last->line)};
	if (!blob_put(m, step, 2))
		return false;
	*last = l;
	r->lines_left++;
	return true;
}

/* The line of an address is in the entry before the first one that starts after it. So an entry that goes back (offsets
 * wrap at 32 bits) replaces the one with the highest offset so far, and the first entry past the range ends the table.
 * The kept entries ascend. */
static bool keep_lines(struct symbfile_map *m, const struct symbfile_range *range, struct range_record *r)
{
	struct symbfile_line last = {0, 0}, held = {0, 0};
	m->lines += range->line_count;
	for (size_t i = 0; i < range->line_count; i++) {
		const struct symbfile_line *l = &range->lines[i];
		if (l->offset >= range->length)
			break;
		if (l->offset > held.offset) {
			if (!put_line(m, r, &last, held))
				return false;
			held.offset = l->offset;
		}
		held.line = l->line;
	}
	return put_line(m, r, &last, held);
}

static bool keep_range(struct symbfile_map *m, const struct symbfile_range *range)
{
	struct range_record r = {.va = range->va,
	        .length = range->length,
	        .lines = m->blob_len,
	        .depth = range->depth,
	        .call_file = PARENTS_FILE,
	        .call_line = range->call_line,
	        .arrival = (uint32_t)m->range_count};
	if (r.va && r.length > 0 - r.va)
		r.length = 0 - r.va;
	if (!intern_name(m, range->func, &r.func) || (range->has_file && !intern_text(m, range->file, &r.file)) ||
	        (range->has_call_file && !intern_text(m, range->call_file, &r.call_file)) || !keep_lines(m, range, &r))
		return false;
	return array_append(&m->ranges, &m->range_cap, &m->range_count, &r, sizeof r);
}

static enum err state_of(struct symbfile_map *m, struct error *e)
{
	if (m->failed)
		return no_memory(e);
	return symbfile_map_count(m, 0) ? ERR_OK : error_set(e, ERR_TOO_LARGE, "the map takes too much memory");
}

static enum err add_range(void *arg, const struct symbfile_range *range, struct error *e)
{
	struct symbfile_map *m = arg;
	if (!m->failed && range->length && !keep_range(m, range))
		m->failed = true;
	*(range->depth ? &m->inlines : &m->funcs) += 1;
	return state_of(m, e);
}

static bool keep_pad(struct symbfile_map *m, const struct symbfile_pad *pad)
{
	struct pad_record p = {pad->va, m->blob_len};
	const uint64_t count = pad->count < CHAIN_MAX ? pad->count : CHAIN_MAX;
	if (!blob_put(m, &count, 1))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct symbfile_frame *f = &pad->frames[i];
		uint32_t func, file;
		if (!intern_name(m, f->func, &func) || !intern_text(m, f->file, &file))
			return false;
		const uint64_t frame[] = {func, file, f->line};
		if (!blob_put(m, frame, 3))
			return false;
	}
	return array_append(&m->pads, &m->pad_cap, &m->pad_count, &p, sizeof p);
}

/* A pad without frames says nothing and hides nothing. */
static enum err add_pad(void *arg, const struct symbfile_pad *pad, struct error *e)
{
	struct symbfile_map *m = arg;
	if (!m->failed && pad->count && !keep_pad(m, pad))
		m->failed = true;
	return state_of(m, e);
}

struct symbfile_sink symbfile_map_sink(struct symbfile_map *m)
{
	return (struct symbfile_sink){add_range, add_pad, m};
}

/* ---- the end ---- */

/* Of ranges that start at one address the longer comes first, then the earlier one, so that the one that answers comes
 * last. */
static int range_order(const void *a, const void *b)
{
	const struct range_record *x = a, *y = b;
	if (x->va != y->va)
		return x->va < y->va ? -1 : 1;
	if (x->length != y->length)
		return x->length > y->length ? -1 : 1;
	return (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

static int pad_order(const void *a, const void *b)
{
	const struct pad_record *x = a, *y = b;
	if (x->va != y->va)
		return x->va < y->va ? -1 : 1;
	return (x->frames > y->frames) - (x->frames < y->frames);
}

static int number_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Whether the piece r goes on with a function of its name: they overlap; or they adjoin and have different files, since
 * a range has one. Where the file is the same, another function of that name begins. */
static bool goes_on(const struct range_symbol *s, const struct range_record *r)
{
	position end = (position)s->start + s->size;
	return (end > r->va || (end == r->va && s->file != r->file)) && range_end(r) - s->start <= UINT64_MAX;
}

/* Joins the pieces of functions. */
static bool find_symbols(struct symbfile_map *m)
{
	uint32_t *newest = calloc(m->slot_count, sizeof *newest); /* symbol + 1 of a name */
	bool ok = newest;
	for (uint32_t i = 0; i < m->range_count && ok; i++) {
		struct range_record *r = &m->ranges[i];
		if (r->depth)
			continue;
		struct range_symbol *s = newest[r->func] ? &m->symbols[newest[r->func] - 1] : NULL;
		if (!s || !goes_on(s, r)) {
			const struct range_symbol new = {r->va, r->length, r->file};
			ok = array_append(&m->symbols, &m->symbol_cap, &m->symbol_count, &new, sizeof new);
			newest[r->func] = (uint32_t)m->symbol_count;
		} else if (range_end(r) > (position)s->start + s->size) {
			s->size = (uint64_t)(range_end(r) - s->start);
			s->file = r->file;
		}
		r->symbol = newest[r->func];
	}
	free(newest);
	return ok;
}

/* Renumbers the depths, which may be arbitrarily large, because the sweep needs small ones. */
static bool number_depths(struct symbfile_map *m)
{
	uint32_t deepest = 0, count = 0;
	for (uint32_t i = 0; i < m->range_count; i++)
		if (m->ranges[i].depth > deepest)
			deepest = m->ranges[i].depth;
	m->depths = deepest + 1;
	if (deepest < PLAIN_DEPTHS)
		return true;
	uint32_t *all = malloc(m->range_count * sizeof *all);
	if (!all)
		return false;
	for (uint32_t i = 0; i < m->range_count; i++)
		all[i] = m->ranges[i].depth;
	qsort(all, m->range_count, sizeof *all, number_order);
	for (uint32_t i = 0; i < m->range_count; i++)
		if (!i || all[i] != all[count - 1])
			all[count++] = all[i];
	for (uint32_t i = 0; i < m->range_count; i++) {
		uint32_t *place = bsearch(&m->ranges[i].depth, all, count, sizeof *all, number_order);
		m->ranges[i].depth = (uint32_t)(place - all);
	}
	m->depths = count;
	free(all);
	return true;
}

/* Sorting may take as much memory again. */
static bool sort_records(struct symbfile_map *m)
{
	uint64_t ranges = m->range_count * sizeof *m->ranges, pads = m->pad_count * sizeof *m->pads;
	if (!symbfile_map_count(m, ranges > pads ? ranges : pads))
		return false;
	if (m->range_count)
		qsort(m->ranges, m->range_count, sizeof *m->ranges, range_order);
	if (m->pad_count)
		qsort(m->pads, m->pad_count, sizeof *m->pads, pad_order);
	return true;
}

static bool may_grow(void *arg, uint64_t bytes)
{
	return symbfile_map_count(arg, bytes);
}

/* Writes the records to m->out. */
static bool make_records(struct symbfile_map *m)
{
	struct records *r = m->out = records_new(0);
	if (!r)
		return false;
	r->grow = may_grow;
	r->grow_arg = m;
	r->funcs = m->funcs;
	r->publics = m->pad_count;
	r->lines = m->lines;
	r->inlines = m->inlines;
	return sort_records(m) && find_symbols(m) && number_depths(m) && symbfile_sweep(m) && records_finish(r);
}

enum err symbfile_map_finish(struct symbfile_map *m, struct records **out)
{
	bool ok = !m->failed && make_records(m), large = m->too_large || (m->out && records_full(m->out));
	*out = ok ? m->out : NULL;
	if (!ok)
		records_free(m->out);
	else
		m->out->grow = NULL;
	free_records(m);
	offmap_charge(&m->options, ACCOUNT_RECORDS, 0, -(int64_t)m->charged);
	m->charged = 0;
	m->failed = true;
	return ok ? ERR_OK : large ? ERR_TOO_LARGE : ERR_NO_MEMORY;
}

enum err symbfile_map_all(struct symbfile_map *m, struct offmap **out)
{
	struct records *r;
	*out = NULL;
	enum err err = symbfile_map_finish(m, &r);
	struct symspans *s = err ? NULL : symspans_new(r, false, NULL, NULL);
	if (s)
		*out = sympages_all(r, s, (struct str){"", 0});
	symspans_free(s);
	records_free(r);
	return err ? err : *out ? ERR_OK : ERR_NO_MEMORY;
}
