/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To make a page, each symbol of its spans is read from the records, flattened and encoded, as far as it answers within
 * the page. A flattened function is kept until an address past its end comes up, because it may answer again after
 * functions that lie within it. `kept` is a stack, like the sweep's. If it takes too much memory, the outermost
 * functions are dropped, and read again when they come up.
 *
 * Strings are named by slots, which live as long as the kept functions: an id has the same slot in all of them. The
 * choice of slots does not influence the bytes of pages.
 */
#include <config.h>

#include "records/pages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/map64.h"
#include "base/search.h"
#include "base/utf8.h"
#include "map/encode.h"
#include "map/flat.h"

enum {
	KEPT_BYTES = 64 << 20,  /* kept functions, without the largest, may take this and a quarter of the text: all is
	                           read a few times */
	SPARE_BYTES = 64 << 10, /* largest flat that is reused */
	LARGE_TEXT = 1 << 20,   /* a function of this size is kept in `large`, not read again for every page */
	RECORD_BYTES = 24,      /* memory per byte of text while one function is read */
	IDLE_BYTES = 16 << 20,  /* larger buffers are freed when a page is done */
	SLOTS_MAX = 2048,       /* plus twice the number that kept functions may name */
	RECENT_FILES = 64,      /* a power of two */
	NODES_PER_RECORD = 64,  /* that may be repeated, see repeats_too_much */
};

#define FILE_OF_CALLER UINT32_MAX /* in place of a slot: the call does not say its file */

enum { SLOT_FILES, SLOT_ORIGINS, SLOT_NAMES, SLOT_FILES_OF_ORIGINS, SLOT_KINDS };

struct recent_file {
	uint64_t id;
	uint32_t slot; /* 0: none */
};

struct kept {
	uint32_t symbol;
	struct flat *flat;
};

struct sympages {
	const struct records *x;
	const struct symspans *s;
	struct encoder *encoder;
	struct flattener flattener;
	struct name_store_reader names;
	struct func_records records;
	struct string_table strings;
	struct map64 slots[SLOT_KINDS];          /* by slot_key; those of origins' files by the slot of the origin */
	uint64_t salt;                           /* so that nobody can choose ids that collide */
	struct recent_file recent[RECENT_FILES]; /* files by the lower bits of their ids: most are found here */
	struct kept *kept;                       /* [kept_base, kept_count), ascending by symbol */
	uint32_t kept_base, kept_count, kept_cap;
	struct kept large; /* the large function that answered last and is not in `kept`; its flat may be NULL */
	uint64_t kept_bytes, kept_names; /* of all: bytes, and how many slots they may name */
	uint64_t largest_flat;           /* bytes of the largest function so far */
	struct flat *spare;              /* for the next function; may be NULL */
	struct flat of_public;
	uint8_t *escaped;
	uint32_t escaped_cap;
};

static void reset_slots(struct sympages *m)
{
	m->strings.count = 1;
	m->strings.texts_len = 0;
	memset(m->recent, 0, sizeof m->recent);
	for (unsigned i = 0; i < SLOT_KINDS; i++)
		map64_reset(&m->slots[i]);
}

struct sympages *sympages_new(const struct records *x, const struct symspans *s)
{
	struct sympages *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->x = x;
	m->s = s;
	m->names.names = &x->names;
	m->encoder = encoder_new();
	m->strings.cap = 64;
	m->strings.slots = calloc(m->strings.cap, sizeof *m->strings.slots);
	if (getrandom(&m->salt, sizeof m->salt, GRND_NONBLOCK) <= 0)
		m->salt = (uintptr_t)m;
	if (!m->encoder || !m->strings.slots) {
		sympages_free(m);
		return NULL;
	}
	reset_slots(m);
	return m;
}

static void free_slots(struct sympages *m)
{
	for (unsigned i = 0; i < SLOT_KINDS; i++)
		map64_release(&m->slots[i]);
	free(m->strings.texts);
	m->strings.texts = NULL;
	m->strings.texts_cap = 0;
}

void sympages_free(struct sympages *m)
{
	if (!m)
		return;
	for (uint32_t i = m->kept_base; i < m->kept_count; i++)
		flat_free(m->kept[i].flat);
	flat_free(m->spare);
	flat_free(m->large.flat);
	free(m->kept);
	encoder_free(m->encoder);
	flattener_release(&m->flattener);
	name_store_reader_release(&m->names);
	func_records_release(&m->records);
	free_slots(m);
	free(m->strings.slots);
	free(m->of_public.name);
	free(m->escaped);
	free(m);
}

static uint64_t kept_max(const struct records *x)
{
	return KEPT_BYTES + x->text / 4;
}

static uint64_t slot_bytes(const struct sympages *m)
{
	uint64_t bytes = m->strings.cap * (uint64_t)sizeof *m->strings.slots + m->strings.texts_cap;
	for (unsigned i = 0; i < SLOT_KINDS; i++)
		bytes += m->slots[i].cap * sizeof(struct map64_slot);
	return bytes;
}

uint64_t sympages_bytes(const struct sympages *m)
{
	return sizeof *m + m->kept_bytes + m->kept_cap * (uint64_t)sizeof *m->kept +
	       (m->spare ? flat_bytes(m->spare) : 0) + func_records_bytes(&m->records) + slot_bytes(m) +
	       name_store_reader_bytes(&m->names) + flattener_bytes(&m->flattener) + encoder_buffer_bytes(m->encoder) +
	       m->escaped_cap + m->of_public.name_cap;
}

uint64_t sympages_kept_bytes_max(const struct records *x)
{
	return (8 << 20) + kept_max(x);
}

uint64_t sympages_page_bytes_max(const struct records *x)
{
	return RECORD_BYTES * x->largest_text;
}

/* ---- strings ---- */

/* Escapes a text into m->escaped. False if out of memory. */
static bool escape(struct sympages *m, const uint8_t *text, size_t len, uint32_t *escaped_len)
{
	if (!array_reserve(&m->escaped, &m->escaped_cap, 6 * (uint32_t)len + 16, sizeof *m->escaped))
		return false;
	*escaped_len = (uint32_t)json_escape(m->escaped, text, len);
	return true;
}

static bool set_text(struct sympages *m, struct string_slot *slot, const uint8_t *text, size_t raw_len)
{
	struct string_table *t = &m->strings;
	uint32_t len;
	if (!text || !escape(m, text, raw_len, &len) || len > UINT32_MAX - t->texts_len)
		return false;
	if (!array_reserve(&t->texts, &t->texts_cap, t->texts_len + len, sizeof *t->texts))
		return false;
	memcpy(t->texts + t->texts_len, m->escaped, len);
	slot->defined = true;
	slot->text = t->texts_len;
	slot->len = (uint16_t)len;
	t->texts_len += len;
	return true;
}

static bool define(struct sympages *m, struct string_slot *slot, const struct record_definition *d)
{
	if (d->external) {
		slot->external = slot->defined = true;
		slot->id = d->string;
		return true;
	}
	/* an INLINE_ORIGIN without a name is <unknown> */
	return !d->len || set_text(m, slot, (const uint8_t *)m->x->texts + d->at, d->len);
}

/* Different for each id. */
static uint64_t slot_key(const struct sympages *m, uint64_t id)
{
	return __builtin_bswap64((id ^ m->salt) * UINT64_C(0x9e3779b97f4a7c15)) ^ m->salt;
}

static uint32_t find_slot(struct sympages *m, uint64_t id, bool is_origin);

static inline uint32_t file_slot(struct sympages *m, uint64_t id)
{
	struct recent_file *recent = &m->recent[id % RECENT_FILES];
	if (!recent->slot || recent->id != id)
		*recent = (struct recent_file){id, find_slot(m, id, false)};
	return recent->slot;
}

/* Notes the file of an origin that has this slot. */
static bool note_file(struct sympages *m, uint64_t origin, uint32_t slot)
{
	const struct record_definition *d = records_find(&m->x->origin_files, origin);
	uint32_t file = d && d->external ? file_slot(m, d->string) : 0;
	return !d || !d->external || (file && map64_put(&m->slots[SLOT_FILES_OF_ORIGINS], slot, file));
}

/* The slot of an id, made if new; 0 if out of memory. */
static uint32_t find_slot(struct sympages *m, uint64_t id, bool is_origin)
{
	struct string_table *t = &m->strings;
	uint64_t key = slot_key(m, id);
	uint32_t known = (uint32_t)map64_get(&m->slots[is_origin], key);
	if (known)
		return known;
	if (!array_reserve(&t->slots, &t->cap, t->count + 1, sizeof *t->slots))
		return 0;
	struct string_slot *slot = &t->slots[t->count];
	const struct record_definition *d = records_find(is_origin ? &m->x->origins : &m->x->files, id);
	*slot = (struct string_slot){.is_origin = is_origin};
	if ((d && !define(m, slot, d)) || !map64_put(&m->slots[is_origin], key, t->count))
		return 0;
	uint32_t made = t->count++;
	return !is_origin || note_file(m, id, made) ? made : 0;
}

/* The slot of a name that several parts may share; 0 if out of memory. */
static uint32_t name_slot(struct sympages *m, const struct record_name *n)
{
	struct string_table *t = &m->strings;
	uint64_t key = slot_key(m, n->string ? UINT64_MAX - n->string : n->place);
	uint32_t known = (uint32_t)map64_get(&m->slots[SLOT_NAMES], key);
	if (known)
		return known;
	if (!array_reserve(&t->slots, &t->cap, t->count + 1, sizeof *t->slots))
		return 0;
	struct string_slot *slot = &t->slots[t->count];
	*slot = (struct string_slot){.external = n->string, .defined = n->string, .id = n->string};
	if ((!n->string && !set_text(m, slot, name_store_read(&m->names, n->place, n->len), n->len)) ||
	        !map64_put(&m->slots[SLOT_NAMES], key, t->count))
		return 0;
	return t->count++;
}

/* ---- symbols ---- */

/* Opens the symbol's records and sets the name of f. */
static bool begin_symbol(
        struct sympages *m, const struct record_symbol *symbol, struct record_reader *r, struct flat *f)
{
	uint32_t len;
	struct str name = str_from("<unknown>");
	record_reader_begin(r, m->x, symbol);
	if (r->name.len)
		name = (struct str){
		        (const char *)name_store_read(&m->names, r->name.place, r->name.string ? 0 : r->name.len),
		        r->name.string ? 0 : r->name.len};
	if (!name.data || !escape(m, (const uint8_t *)name.data, name.len, &len) ||
	        !flat_set_name(f, (char *)m->escaped, len))
		return false;
	f->name_external = r->name.string;
	f->name_slot = 0;
	f->addr = symbol->addr;
	f->size = symbol->size;
	f->is_public = symbol->is_public;
	f->has_lines = symbol->has_lines;
	f->node_count = f->segment_count = f->next_segment = 0;
	return true;
}

static bool add_line(struct sympages *m, const struct record_reader *from)
{
	struct func_records *r = &m->records;
	uint64_t last = r->line_count ? r->lines[r->line_count - 1].end : 0;
	struct line_record l = {from->start, from->end, from->line, file_slot(m, from->file)};
	if (!l.file || !array_reserve(&r->lines, &r->line_cap, r->line_count + 1, sizeof *r->lines))
		return false;
	if (l.end == l.start || l.start < last)
		r->lines_sorted = false;
	r->lines[r->line_count++] = l;
	return true;
}

static bool add_call(struct sympages *m, struct record_reader *from)
{
	const struct record_call *call = &from->call;
	struct func_records *r = &m->records;
	struct inline_record i = {call->depth, call->call_line, FILE_OF_CALLER, 0};
	if ((call->has_call_file && !(i.call_file = file_slot(m, call->call_file))) ||
	        !(i.origin = find_slot(m, call->origin, true)))
		return false;
	if (!array_reserve(&r->inlines, &r->inline_cap, r->inline_count + 1, sizeof *r->inlines) ||
	        !array_reserve(&r->ranges, &r->range_cap, r->range_count + from->ranges, sizeof *r->ranges))
		return false;
	while (from->ranges) {
		record_reader_range(from);
		if (from->range_start != from->range_end)
			r->ranges[r->range_count++] =
			        (struct inline_range){from->range_start, from->range_end, r->inline_count, call->depth};
	}
	r->inlines[r->inline_count++] = i;
	if (i.depth > r->deepest)
		r->deepest = i.depth;
	return true;
}

/* Whether the spans of a FUNC, each of which repeats the chain of inlined calls at its start, may make its pages large
 * compared with its text. */
static bool repeats_too_much(const struct sympages *m, uint32_t symbol)
{
	const struct func_records *r = &m->records;
	uint64_t spans = symspans_of(m->s, symbol),
	         depth = r->deepest < r->inline_count ? r->deepest + 1 : r->inline_count,
	         most = NODES_PER_RECORD * (spans + r->line_count + r->inline_count);
	return spans * depth > (most < OFFMAP_REPEATED_MAX ? most : OFFMAP_REPEATED_MAX);
}

/* Where a function itself is: the file of its first line. */
static uint32_t first_file(const struct func_records *r)
{
	const struct line_record *first = NULL;
	for (uint32_t i = 0; i < r->line_count; i++)
		if (!first || r->lines[i].start < first->start)
			first = &r->lines[i];
	return first ? first->file : 0;
}

/* A call that does not say its file is in that of its caller; if none is known, where the caller is called. */
static void find_callers_files(const struct sympages *m, struct flat *f, uint32_t own)
{
	for (uint32_t i = 1; i <= f->node_count; i++) {
		struct flat_node *n = &f->nodes[i];
		const struct flat_node *caller = n->parent ? &f->nodes[n->parent] : NULL;
		if (n->call_file != FILE_OF_CALLER)
			continue;
		uint32_t known = caller ? (uint32_t)map64_get(&m->slots[SLOT_FILES_OF_ORIGINS], caller->origin) : own;
		n->call_file = known || !caller ? known : caller->call_file;
	}
}

/* Reads and flattens a FUNC. */
static bool read_func(struct sympages *m, uint32_t symbol, struct flat *f)
{
	struct record_reader from;
	struct func_records *r = &m->records;
	enum record_kind kind;
	r->line_count = r->inline_count = r->range_count = r->deepest = 0;
	r->lines_sorted = true;
	if (!begin_symbol(m, &m->x->symbols[symbol], &from, f))
		return false;
	while ((kind = record_reader_next(&from)))
		if (kind == RECORD_LINE ? !add_line(m, &from) : !add_call(m, &from))
			return false;
	if (r->range_count && repeats_too_much(m, symbol))
		r->range_count = 0;
	uint32_t own = first_file(r);
	if (!flatten(&m->flattener, r, f))
		return false;
	find_callers_files(m, f, own);
	return true;
}

/* Reads a part of a function, and gives its strings slots. */
static bool read_part(struct sympages *m, const struct record_symbol *symbol, struct flat *f)
{
	struct record_reader from;
	record_reader_begin(&from, m->x, symbol);
	f->name_len = f->name_external = f->next_segment = 0;
	f->has_lines = false;
	f->name_slot = from.name.file ? file_slot(m, from.name.file) : name_slot(m, &from.name);
	if (!f->name_slot || !record_reader_part(&from, symbol, f))
		return false;
	for (uint32_t i = 1; i <= f->node_count; i++) {
		struct flat_node *n = &f->nodes[i];
		if (!(n->origin = file_slot(m, n->origin)) ||
		        (n->call_file && !(n->call_file = file_slot(m, n->call_file))))
			return false;
	}
	for (uint32_t i = 0; i < f->segment_count; i++) {
		struct flat_segment *s = &f->segments[i];
		if (s->file && !(s->file = file_slot(m, s->file)))
			return false;
	}
	const struct flat_segment *first = f->segments;
	if (f->segment_count == 1 && !first->node && !first->file && !first->line)
		f->segment_count = 0; /* only the name is known */
	return true;
}

/* ---- functions that are kept ---- */

static uint64_t names_of(const struct flat *f)
{
	return f->segment_count + 2 * (uint64_t)f->node_count + 1;
}

static void release_kept(struct sympages *m, const struct kept *k)
{
	struct flat *f = k->flat;
	if (!f)
		return;
	m->kept_bytes -= flat_bytes(f);
	m->kept_names -= names_of(f);
	if (m->spare || flat_bytes(f) > SPARE_BYTES)
		flat_free(f);
	else
		m->spare = f;
}

/* Drops the innermost kept function. */
static void pop_kept(struct sympages *m)
{
	const struct kept *top = &m->kept[--m->kept_count], old = m->large;
	if (m->x->symbols[top->symbol].text < LARGE_TEXT) {
		release_kept(m, top);
		return;
	}
	m->large = *top;
	release_kept(m, &old);
}

static void release_large(struct sympages *m)
{
	release_kept(m, &m->large);
	m->large.flat = NULL;
}

static void drop_all(struct sympages *m)
{
	while (m->kept_count > m->kept_base)
		pop_kept(m);
	release_large(m);
	m->kept_base = m->kept_count = 0;
}

static struct flat *take_flat(struct sympages *m)
{
	struct flat *f = m->spare;
	m->spare = NULL;
	return f ? f : calloc(1, sizeof *f);
}

/* Drops the outermost kept functions while they take too much. The largest does not count, so that only as much as the
 * bound can displace it, not each small function that interrupts it. */
static void make_room(struct sympages *m)
{
	uint64_t most = kept_max(m->x) + m->largest_flat;
	if (m->kept_bytes > most)
		release_large(m);
	while (m->kept_bytes > most && m->kept_base < m->kept_count)
		release_kept(m, &m->kept[m->kept_base++]);
	if (m->kept_base == m->kept_count) {
		m->kept_base = m->kept_count = 0;
	} else if (m->kept_base > m->kept_count / 2) {
		m->kept_count -= m->kept_base;
		memmove(m->kept, m->kept + m->kept_base, m->kept_count * sizeof *m->kept);
		m->kept_base = 0;
	}
}

static bool read_new(struct sympages *m, struct kept *k)
{
	const struct record_symbol *symbol = &m->x->symbols[k->symbol];
	k->flat = take_flat(m);
	if (!k->flat || !(symbol->is_part ? read_part(m, symbol, k->flat) : read_func(m, k->symbol, k->flat))) {
		flat_free(k->flat);
		k->flat = NULL;
		return false;
	}
	m->kept_bytes += flat_bytes(k->flat);
	if (flat_bytes(k->flat) > m->largest_flat)
		m->largest_flat = flat_bytes(k->flat);
	m->kept_names += names_of(k->flat);
	return true;
}

/* The FUNC that answers from `from` on, read if it is not kept; NULL if out of memory. */
static struct kept *take_func(struct sympages *m, uint32_t symbol, uint64_t from)
{
	struct kept k = {.symbol = symbol};
	if (m->large.flat && m->large.symbol == symbol) {
		k = m->large;
		m->large.flat = NULL;
	}
	while (m->kept_count > m->kept_base) {
		struct kept *top = &m->kept[m->kept_count - 1];
		if (top->symbol == symbol)
			return top;
		const struct record_symbol *s = &m->x->symbols[top->symbol];
		if (top->symbol < symbol && from - s->addr < s->size)
			break;
		pop_kept(m);
	}
	make_room(m);
	if (!array_reserve(&m->kept, &m->kept_cap, m->kept_count + 1, sizeof *m->kept) ||
	        (!k.flat && !read_new(m, &k))) {
		release_kept(m, &k);
		return NULL;
	}
	m->kept[m->kept_count] = k;
	return &m->kept[m->kept_count++];
}

/* Between pages: frees buffers that only a large function needed, and slots that no kept function names. */
static void tidy(struct sympages *m)
{
	if (m->strings.count > SLOTS_MAX + 2 * m->kept_names) {
		drop_all(m);
		reset_slots(m);
		if (slot_bytes(m) > IDLE_BYTES)
			free_slots(m);
	}
	if (func_records_bytes(&m->records) > IDLE_BYTES)
		func_records_release(&m->records);
	if (name_store_reader_bytes(&m->names) > IDLE_BYTES) {
		name_store_reader_release(&m->names);
		m->names.names = &m->x->names;
	}
	if (flattener_bytes(&m->flattener) > IDLE_BYTES)
		flattener_release(&m->flattener);
}

/* ---- code pages ---- */

/* The segment that covers the byte at `from`. */
static uint32_t find_segment(const struct flat *f, uint64_t from)
{
	size_t started = search_up_to(
	        f->segments, f->segment_count, sizeof *f->segments, offsetof(struct flat_segment, start), from);
	return started ? (uint32_t)started - 1 : 0;
}

static bool encode(struct sympages *m, struct flat *f, position from, position to, bool endless)
{
	uint64_t start = (uint64_t)(from - f->addr);
	f->next_segment = f->segment_count ? find_segment(f, start) : 0;
	return encode_function(m->encoder, &m->strings, f, start, endless ? start : (uint64_t)(to - f->addr), endless);
}

/* Encodes a FUNC as the answer for [from, to); past its end only with lookup = nearest. */
static bool encode_func(struct sympages *m, uint32_t symbol, position from, position to)
{
	struct kept *k = take_func(m, symbol, (uint64_t)from);
	if (!k)
		return false;
	struct flat *f = k->flat;
	const struct record_symbol *s = &m->x->symbols[symbol];
	position end = (position)s->addr + s->size, stop = end < to ? end : to;
	if (from < stop && !encode(m, f, from, stop, false))
		return false;
	if (!m->s->nearest || end >= to)
		return true;
	return encode(m, f, end > from ? end : from, to, to == ADDRESS_END);
}

/* The address of the next symbol that starts above this one, and may answer. */
static position next_address(const struct records *x, uint32_t symbol, bool nearest)
{
	size_t next = search_up_to(x->symbols, x->symbol_count, sizeof *x->symbols,
	        offsetof(struct record_symbol, addr), x->symbols[symbol].addr);
	while (next < x->symbol_count && !symspan_may_answer(&x->symbols[next], nearest))
		next++;
	return next < x->symbol_count ? x->symbols[next].addr : ADDRESS_END;
}

static bool encode_public(struct sympages *m, uint32_t symbol, position from)
{
	struct flat *f = &m->of_public;
	struct record_reader from_name;
	position end = next_address(m->x, symbol, m->s->nearest);
	if (!begin_symbol(m, &m->x->symbols[symbol], &from_name, f))
		return false;
	f->size = end == ADDRESS_END ? 0 : (uint64_t)(end - f->addr);
	return encode(m, f, from, end, end == ADDRESS_END);
}

static bool encode_spans(struct sympages *m, uint32_t number)
{
	const struct symspans *s = m->s;
	position from = s->page_first[number],
	         end = number + 1 < s->page_count ? s->page_first[number + 1] : ADDRESS_END;
	for (uint32_t i = s->page_span[number]; i < s->count && s->starts[i] < end; i++) {
		position to = i + 1 < s->count && s->starts[i + 1] < end ? s->starts[i + 1] : end;
		uint32_t symbol = s->symbols[i];
		if (s->starts[i] > from)
			from = s->starts[i];
		if (m->x->symbols[symbol].is_public ? !encode_public(m, symbol, from)
		                                    : !encode_func(m, symbol, from, to))
			return false;
	}
	return true;
}

struct page *sympages_code(struct sympages *m, uint32_t number)
{
	struct page *p = NULL;
	if (encode_spans(m, number))
		p = encoder_take_code(m->encoder);
	else
		encoder_drop_open(m->encoder);
	tidy(m);
	return p;
}

/* ---- string pages ---- */

struct page *sympages_strings(struct sympages *m, uint32_t number)
{
	const struct records *x = m->x;
	uint32_t first = x->string_first[number], len,
	         end = number + 1 < x->string_page_count ? x->string_first[number + 1] : x->string_count + 1;
	for (uint32_t i = first; i < end; i++) {
		const struct record_string *s = &x->strings[i - 1];
		const uint8_t *text = name_store_read(&m->names, s->place, s->len);
		if (!text || !escape(m, text, s->len, &len) ||
		        !encode_string(m->encoder, (const char *)m->escaped, len)) {
			encoder_drop_open(m->encoder);
			return NULL;
		}
	}
	return encoder_take_strings(m->encoder, first);
}

/* ---- whole maps ---- */

struct offmap *sympages_map(const struct records *x, const struct symspans *s, struct str code_file)
{
	struct offmap *m = offmap_new(s->page_count, x->string_page_count, 6 * code_file.len);
	if (!m)
		return NULL;
	m->funcs = x->funcs;
	m->publics = x->publics;
	m->lines = x->lines;
	m->inlines = x->inlines;
	if (m->code_count)
		memcpy(m->code_first, s->page_first, m->code_count * sizeof *m->code_first);
	if (m->string_count)
		memcpy(m->string_first, x->string_first, m->string_count * sizeof *m->string_first);
	if (code_file.len)
		m->code_file_len =
		        (uint32_t)json_escape((uint8_t *)m->code_file, (const uint8_t *)code_file.data, code_file.len);
	return m;
}

struct offmap *sympages_all(const struct records *x, const struct symspans *s, struct str code_file)
{
	struct offmap *map = sympages_map(x, s, code_file);
	struct sympages *pages = map ? sympages_new(x, s) : NULL;
	bool ok = pages != NULL;
	for (uint32_t i = 0; ok && i < map->string_count; i++)
		if ((ok = (map->strings[i] = sympages_strings(pages, i)) != NULL))
			map->raw_bytes += map->strings[i]->len;
	for (uint32_t i = 0; ok && i < map->code_count; i++)
		if ((ok = (map->code[i] = sympages_code(pages, i)) != NULL))
			map->raw_bytes += map->code[i]->len;
	sympages_free(pages);
	if (ok)
		return map;
	offmap_free(map);
	return NULL;
}
