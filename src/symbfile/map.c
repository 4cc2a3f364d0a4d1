/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges and pads come in any order and from several files, so all are kept until the end: each string once, in the
 * records that are made; line tables and frames of pads as varints. Then they are sorted and swept.
 *
 * The sweep visits all addresses where an answer may change: where ranges start and end, where lines of the deepest
 * range start, and before and after return pads. It maintains the chain: for each depth the range that covers the
 * address, outermost first. Ranges of the same depth hide each other: the one that started last is on top of a stack.
 *
 * The outermost range names the function. As long as that is the same symbol, segments and nodes go to one flat
 * function, which then goes to the records as a part. A return pad is a one-byte segment of it, or a part of its own if
 * the pad's outermost frame is another function.
 *
 * A node belongs to one place in one chain, so a range that spans many ranges above it has many nodes. If a file's
 * ranges nest, there is one node per range; a file crafted to need more gets short chains.
 */
#include <config.h>

#include "symbfile/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/bit_tree.h"
#include "base/hash.h"
#include "base/map64.h"
#include "base/search.h"
#include "base/varint.h"
#include "records/pages.h"

enum {
	STRING_MAX = 1 << 20,    /* bytes; a longer string is cut, so that a page can hold it escaped */
	STRING_MEAN = 4096,      /* each use of a string writes it again. So strings */
	STRINGS_FREE = 64 << 20, /* are cut to STRING_MEAN if, after this many bytes, their mean is above it */
	NAME_TIMES = 16,         /* a long name that comes again more often goes to a string page */
	PLAIN_DEPTHS = 1 << 16,  /* depths below this need no renumbering */
	CHARGE_STEP = 1 << 20,   /* smallest change that is charged, in bytes */
	PART_SEGMENTS = 1024,    /* a part with more, */
	PART_NODES = 80000,      /* or with more nodes, ends before its function does */
};

#define PARENTS_FILE UINT32_MAX /* a call_file that is that of the record around */

enum {
	CHAIN_MAX = 10000, /* most frames at an address; deeper ones are left out */
	CHAIN_SHORT = 8,   /* the same, once ranges that do not nest have cost too much */
	NODES_PER_RANGE = 4,
	NODES_FREE = 4096, /* too much means more than this many nodes for each range, plus this many */
};

/* A range, or one more piece of it. Strings are slots of the map, 0: none. */
struct range_record {
	uint64_t va, length; /* length > 0; va + length is at most 2^64 */
	uint64_t lines;      /* offset of the next line in the blob */
	uint32_t lines_left;
	uint32_t offset, line; /* the line at the sweep's position; 0 before the first */
	uint32_t depth;        /* as in the file; once sorted, its rank among the depths that occur */
	uint32_t func, file, call_file, call_line;
	union {
		uint32_t arrival; /* until sorted: order of arrival */
		uint32_t below;   /* in the sweep: the record of this depth that it hides, + 1; 0: none */
	};
	uint32_t symbol; /* for a function: index + 1 */
};

struct pad_record {
	uint64_t va;
	uint64_t frames; /* offset in the blob, which is in order of arrival: count, then function, file and line of
	                    each */
};

/* A function: pieces that adjoin or overlap. */
struct range_symbol {
	uint64_t start, size;
	uint32_t file; /* of the piece that ends last */
};

struct map_string {
	uint64_t check;          /* more of its hash */
	struct record_name name; /* as the name of a part; its slot is the id of any other string */
	uint32_t times;          /* as a name, after another one */
};

struct symbfile_map {
	struct offmap_options options;
	struct map_string *slots;
	uint32_t slot_count, slot_cap;
	struct map64 by_hash;           /* slots */
	uint64_t salt;                  /* so that nobody can choose strings with equal hashes */
	uint64_t strings, string_bytes; /* received */
	uint32_t last_name;
	struct range_record *ranges;
	struct pad_record *pads;
	struct range_symbol *symbols;
	size_t range_count, pad_count, symbol_count;
	uint32_t range_cap, pad_cap, symbol_cap;
	uint8_t *blob; /* varints */
	uint64_t blob_len, blob_cap;
	uint32_t depths; /* how many there are */
	uint64_t funcs, inlines, lines;
	uint64_t charged;
	bool failed, too_large;
	struct records *out; /* has the strings from the beginning */
	uint64_t tables;     /* bytes that the sweep takes besides */
};

static position range_end(const struct range_record *r)
{
	return (position)r->va + r->length;
}

/* Charges the memory held, plus `more`. False if that is above memory_max, or the account has no room. */
static bool hold(struct symbfile_map *m, uint64_t more)
{
	uint64_t bytes = (uint64_t)m->slot_cap * sizeof *m->slots + m->by_hash.cap * sizeof(struct map64_slot) +
	                 m->blob_len + m->range_count * sizeof *m->ranges + m->pad_count * sizeof *m->pads +
	                 m->symbol_count * sizeof *m->symbols + m->tables + (m->out ? records_bytes(m->out) : 0) + more;
	int64_t change = (int64_t)(bytes - m->charged);
	bool fits = !m->too_large && (!m->options.memory_max || bytes <= m->options.memory_max);
	if (fits && llabs(change) >= CHARGE_STEP &&
	        (fits = offmap_charge(&m->options, ACCOUNT_RECORDS, m->charged, change)))
		m->charged = bytes;
	m->too_large = !fits;
	return fits;
}

static bool may_grow(void *arg, uint64_t bytes)
{
	return hold(arg, bytes);
}

struct symbfile_map *symbfile_map_new(const struct offmap_options *options)
{
	struct symbfile_map *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->options = *options;
	m->slot_count = 1; /* slot 0: none */
	/* without a salt, only the defence against chosen strings is weaker */
	if (getrandom(&m->salt, sizeof m->salt, GRND_NONBLOCK) < 0)
		m->salt = (uintptr_t)m;
	m->slot_cap = 64;
	m->slots = calloc(m->slot_cap, sizeof *m->slots);
	m->out = records_new(0);
	if (!m->slots || !m->out) {
		symbfile_map_free(m);
		return NULL;
	}
	m->out->grow = may_grow;
	m->out->grow_arg = m;
	return m;
}

/* Leaves only what is charged. */
static void free_records(struct symbfile_map *m)
{
	records_free(m->out);
	free(m->slots);
	map64_release(&m->by_hash);
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

/* ---- strings ---- */

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

/* A name comes once more. */
static bool count_name(struct symbfile_map *m, struct str s, uint32_t slot)
{
	struct map_string *known = &m->slots[slot];
	known->times += slot != m->last_name;
	m->last_name = slot;
	return known->times < NAME_TIMES || known->name.string || s.len <= OFFMAP_SHORT_STRING ||
	       records_add_name(m->out, s, true, &known->name);
}

/* The slot of a string, which is the name of a part or any other; 0 for an empty one. false: out of memory. */
static bool intern(struct symbfile_map *m, struct str s, bool is_name, uint32_t *slot)
{
	struct map_string new = {.name.file = m->slot_count};
	uint64_t hash[2], at;
	s = cut_string(m, s);
	*slot = 0;
	if (!s.len)
		return true;
	hash_text(hash, s, m->salt ^ is_name);
	for (; (at = map64_get(&m->by_hash, hash[0])); hash[0]++)
		if (m->slots[at].check == hash[1]) {
			*slot = (uint32_t)at;
			return !is_name || count_name(m, s, *slot);
		}
	new.check = hash[1];
	if (!array_reserve(&m->slots, &m->slot_cap, m->slot_count + 1, sizeof *m->slots) ||
	        !(is_name ? records_add_name(m->out, s, s.len > OFFMAP_INLINE_NAME, &new.name)
	                  : records_define(m->out, false, m->slot_count, s)) ||
	        !map64_put(&m->by_hash, hash[0], m->slot_count))
		return false;
	m->slots[m->slot_count] = new;
	*slot = m->slot_count++;
	return true;
}

static bool intern_name(struct symbfile_map *m, struct str s, bool is_name, uint32_t *slot)
{
	return intern(m, s.len ? s : str_from("<unknown>"), is_name, slot);
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
	if (!intern_name(m, range->func, !r.depth, &r.func) ||
	        (range->has_file && !intern(m, range->file, false, &r.file)) ||
	        (range->has_call_file && !intern(m, range->call_file, false, &r.call_file)) ||
	        !keep_lines(m, range, &r))
		return false;
	return array_append(&m->ranges, &m->range_cap, &m->range_count, &r, sizeof r);
}

static enum err state_of(struct symbfile_map *m, struct error *e)
{
	if (m->failed)
		return no_memory(e);
	return hold(m, 0) ? ERR_OK : error_set(e, ERR_TOO_LARGE, "the map takes too much memory");
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
		if (!intern_name(m, f->func, !i, &func) || !intern(m, f->file, false, &file))
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

/* ---- order ---- */

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

/* Large records are sorted by pointers to them, of which qsort makes two lists; small ones are copied. */
static bool sort_records(struct symbfile_map *m)
{
	uint64_t ranges = m->range_count * 2 * sizeof(void *), pads = m->pad_count * sizeof *m->pads;
	if (!hold(m, ranges > pads ? ranges : pads))
		return false;
	if (m->range_count)
		qsort(m->ranges, m->range_count, sizeof *m->ranges, range_order);
	if (m->pad_count)
		qsort(m->pads, m->pad_count, sizeof *m->pads, pad_order);
	return true;
}

struct chain_link {
	position end;   /* the lowest end in the chain up to here */
	uint32_t range; /* index */
	uint32_t node;  /* in the flat function */
	uint32_t call_file;
	bool site_only; /* too deep for a node: `node` is the parent's, and only the place of the call is written */
};

struct range_sweep {
	struct symbfile_map *m;
	uint32_t next_range, next_pad;
	uint32_t *tops;          /* by depth: the range on top of the stack, + 1 */
	struct bit_tree covered; /* depths whose stack is not empty */
	struct chain_link *chain;
	uint32_t chain_len, chain_cap;
	uint64_t nodes;   /* nodes made for ranges so far */
	struct flat flat; /* the current part; none if it has no segments */
	uint32_t name;    /* slot */
};

/* The file and line of a frame. */
struct place {
	uint32_t file, line;
};

/* ---- the part at hand ---- */

/* Ends the current part at an address, and drops the nodes of the chain. */
static bool end_part(struct range_sweep *s, position to)
{
	struct flat *f = &s->flat;
	if (!f->segment_count)
		return true;
	const struct record_name *name = &s->m->slots[s->name].name;
	if (!records_part(s->m->out, (uint64_t)(to - f->addr) - f->segments[0].start, name, f))
		return false;
	f->segment_count = f->node_count = 0;
	s->chain_len = 0;
	return hold(s->m, 0);
}

/* Starts a part of this function at `at`, or continues the current one if it is of the same function. */
static bool start_part(struct range_sweep *s, uint64_t at, uint32_t name, struct range_symbol symbol)
{
	struct flat *f = &s->flat;
	if (f->segment_count && s->name == name && f->addr == symbol.start && f->size == symbol.size)
		return true;
	if (!end_part(s, at))
		return false;
	s->name = name;
	f->addr = symbol.start;
	f->size = symbol.size;
	f->is_public = !symbol.size;
	f->node_count = 0;
	return true;
}

static bool add_segment(struct range_sweep *s, uint64_t at, uint32_t node, struct place p)
{
	struct flat *f = &s->flat;
	struct flat_segment *last = f->segment_count ? &f->segments[f->segment_count - 1] : NULL;
	if (last && last->node == node && last->file == p.file && last->line == p.line)
		return true;
	return flat_add_segment(f, at - f->addr, node, p.line, p.file);
}

static bool add_node(struct range_sweep *s, uint32_t parent, uint32_t func, struct place call, uint32_t *node)
{
	return (*node = flat_add_node(&s->flat, parent, func, call.file, call.line));
}

/* ---- the chain ---- */

static struct range_record *chain_range(const struct range_sweep *s, uint32_t i)
{
	return &s->m->ranges[s->chain[i].range];
}

static bool is_above(const void *sweep, size_t i, uint64_t depth)
{
	return chain_range(sweep, (uint32_t)i)->depth < depth;
}

/* Pushes the ranges that start here on their stacks, and cuts the chain where they change it. */
static void open_ranges(struct range_sweep *s, uint64_t at)
{
	struct symbfile_map *m = s->m;
	for (; s->next_range < m->range_count && m->ranges[s->next_range].va == at; s->next_range++) {
		struct range_record *r = &m->ranges[s->next_range];
		r->below = s->tops[r->depth];
		s->tops[r->depth] = s->next_range + 1;
		bit_tree_add(&s->covered, r->depth);
		s->chain_len = (uint32_t)search_before(s->chain_len, is_above, s, r->depth);
	}
}

/* The range of this depth that covers the address, + 1; 0: none. */
static uint32_t covering(struct range_sweep *s, uint32_t depth, uint64_t at)
{
	uint32_t *top = &s->tops[depth];
	while (*top && range_end(&s->m->ranges[*top - 1]) <= at)
		*top = s->m->ranges[*top - 1].below;
	if (!*top)
		bit_tree_remove(&s->covered, depth);
	return *top;
}

/* A function consists of all its adjoining pieces; a range without a function stands alone. */
static struct range_symbol symbol_of(const struct symbfile_map *m, const struct range_record *r)
{
	return r->symbol ? m->symbols[r->symbol - 1] : (struct range_symbol){r->va, r->length, 0};
}

static bool add_link(struct range_sweep *s, uint64_t at, uint32_t range, bool site_only)
{
	const struct range_record *r = &s->m->ranges[range];
	struct chain_link l = {range_end(r), range, 0, r->call_file, site_only};
	if (!s->chain_len && !start_part(s, at, r->func, symbol_of(s->m, r)))
		return false;
	if (!array_reserve(&s->chain, &s->chain_cap, s->chain_len + 1, sizeof *s->chain))
		return false;
	if (s->chain_len) {
		const struct chain_link *above = &s->chain[s->chain_len - 1];
		if (above->end < l.end)
			l.end = above->end;
		if (l.call_file == PARENTS_FILE)
			l.call_file = s->m->ranges[above->range].file;
		l.node = above->node;
		if (!site_only) {
			s->nodes++;
			if (!add_node(s, above->node, r->func, (struct place){l.call_file, r->call_line}, &l.node))
				return false;
		}
	}
	s->chain[s->chain_len++] = l;
	return true;
}

/* Moves the chain to an address, which is not below the previous one. */
static bool settle_chain(struct range_sweep *s, uint64_t at)
{
	while (s->chain_len && s->chain[s->chain_len - 1].end <= at)
		s->chain_len--;
	open_ranges(s, at);
	/* Too much for one part: start another. Making the nodes of the chain again costs little. */
	const struct flat *f = &s->flat;
	bool many = f->segment_count >= PART_SEGMENTS && 16 * s->chain_len <= f->segment_count,
	     far = f->segment_count && at - f->addr - f->segments[0].start > UINT32_MAX; /* for one page */
	if ((many || far || f->node_count >= PART_NODES) && !end_part(s, at))
		return false;
	bool spent = s->nodes > NODES_FREE + (uint64_t)NODES_PER_RANGE * s->m->range_count;
	uint32_t most = spent ? CHAIN_SHORT : CHAIN_MAX;
	if (s->chain_len > most)
		s->chain_len = most;
	uint32_t depth = s->chain_len ? chain_range(s, s->chain_len - 1)->depth + 1 : 0;
	for (; s->chain_len <= most; depth++) {
		depth = bit_tree_next(&s->covered, depth);
		if (depth == BIT_TREE_NONE)
			break;
		uint32_t range = covering(s, depth, at);
		if (range && !add_link(s, at, range - 1, s->chain_len == most))
			return false;
	}
	return s->chain_len || end_part(s, at);
}

/* ---- what is written ---- */

/* Reads the lines of a range up to an address; returns where the next one starts. */
static position read_lines(struct symbfile_map *m, struct range_record *r, uint64_t at)
{
	while (r->lines_left) {
		struct reader in = {m->blob + r->lines, m->blob + m->blob_len, false};
		uint32_t offset = r->offset + (uint32_t)reader_varint(&in);
		if (offset > at - r->va)
			return (position)r->va + offset;
		r->offset = offset;
		r->line += (uint32_t)unzigzag(reader_varint(&in));
		r->lines = (uint64_t)(in.at - m->blob);
		r->lines_left--;
	}
	return ADDRESS_END;
}

/* Writes what the ranges say at an address; lowers *next to where that may change. */
static bool write_place(struct range_sweep *s, uint64_t at, position *next)
{
	const struct chain_link *last = &s->chain[s->chain_len - 1];
	struct range_record *r = &s->m->ranges[last->range];
	if (last->site_only)
		return add_segment(s, at, last->node, (struct place){last->call_file, r->call_line});
	position line_end = read_lines(s->m, r, at);
	if (line_end < *next)
		*next = line_end;
	return add_segment(s, at, last->node, (struct place){r->file, r->line});
}

/* Whether link i of the chain is this call. */
static bool same_call(const struct range_sweep *s, uint32_t i, uint32_t func, struct place call)
{
	if (i >= s->chain_len || s->chain[i].site_only)
		return false;
	const struct range_record *r = chain_range(s, i);
	return r->func == func && s->chain[i].call_file == call.file && r->call_line == call.line;
}

/* Writes a pad's frames. Uses the nodes of the chain as far as both are the same. */
static bool write_frames(struct range_sweep *s, uint64_t at, struct reader *in, uint64_t count, bool shared)
{
	struct place p = {0, 0};
	uint32_t node = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint32_t func = i ? (uint32_t)reader_varint(in) : 0; /* the first has been read already */
		if (i) {
			shared = shared && same_call(s, (uint32_t)i, func, p);
			if (shared)
				node = s->chain[i].node;
			else if (!add_node(s, node, func, p, &node))
				return false;
		}
		p.file = (uint32_t)reader_varint(in);
		p.line = (uint32_t)reader_varint(in);
	}
	return add_segment(s, at, node, p);
}

/* Of pads at the same address the last one wins. */
static bool write_pad(struct range_sweep *s, uint64_t at)
{
	struct symbfile_map *m = s->m;
	while (s->next_pad < m->pad_count && m->pads[s->next_pad].va == at)
		s->next_pad++;
	struct reader in = {m->blob + m->pads[s->next_pad - 1].frames, m->blob + m->blob_len, false};
	uint64_t count = reader_varint(&in);
	uint32_t func = (uint32_t)reader_varint(&in);
	const struct range_record *outer = s->chain_len ? chain_range(s, 0) : NULL;
	if (outer && outer->symbol && outer->func == func)
		return write_frames(s, at, &in, count, true);
	struct range_symbol symbol = {at, 0, 0};
	if (outer && outer->symbol)
		symbol = symbol_of(m, outer);
	return end_part(s, at) && start_part(s, at, func, symbol) && write_frames(s, at, &in, count, false) &&
	       end_part(s, (position)at + 1);
}

/* ---- the sweep ---- */

/* Where the settled chain may change next. */
static position next_change(const struct range_sweep *s)
{
	const struct symbfile_map *m = s->m;
	position next = s->chain_len ? s->chain[s->chain_len - 1].end : ADDRESS_END;
	if (s->next_range < m->range_count && m->ranges[s->next_range].va < next)
		next = m->ranges[s->next_range].va;
	return next;
}

static bool sweep_addresses(struct range_sweep *s)
{
	const struct symbfile_map *m = s->m;
	for (position at = 0, next; at < ADDRESS_END; at = next) {
		uint64_t address = (uint64_t)at;
		if (!settle_chain(s, address))
			return false;
		next = next_change(s);
		position pad = s->next_pad < m->pad_count ? m->pads[s->next_pad].va : ADDRESS_END;
		if (pad == at) {
			next = at + 1;
			if (!write_pad(s, address))
				return false;
		} else {
			if (pad < next)
				next = pad;
			if (s->chain_len && !write_place(s, address, &next))
				return false;
		}
	}
	return end_part(s, ADDRESS_END);
}

/* Writes what the ranges, which are sorted and have their symbols, and pads say to m->out. */
static bool sweep(struct symbfile_map *m)
{
	struct range_sweep s = {.m = m};
	m->tables = m->depths * (uint64_t)sizeof *s.tops;
	if (!hold(m, 0))
		return false;
	s.tops = calloc(m->depths, sizeof *s.tops);
	bool ok = s.tops && bit_tree_init(&s.covered, m->depths) && sweep_addresses(&s);
	free(s.flat.nodes);
	free(s.flat.segments);
	bit_tree_release(&s.covered);
	free(s.chain);
	free(s.tops);
	m->tables = 0;
	return ok;
}

/* ---- the end ---- */

/* Completes m->out. */
static bool make_records(struct symbfile_map *m)
{
	struct records *r = m->out;
	map64_release(&m->by_hash); /* sorting takes memory */
	r->funcs = m->funcs;
	r->publics = m->pad_count;
	r->lines = m->lines;
	r->inlines = m->inlines;
	return sort_records(m) && find_symbols(m) && number_depths(m) && sweep(m) && records_finish(r);
}

enum err symbfile_map_finish(struct symbfile_map *m, struct records **out)
{
	bool ok = !m->failed && make_records(m), large = m->too_large || (m->out && records_full(m->out));
	*out = ok ? m->out : NULL;
	if (ok) {
		m->out->grow = NULL;
		m->out = NULL;
	}
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
	struct symspans *s = err ? NULL : symspans_new(r, false);
	if (s)
		*out = sympages_all(r, s, (struct str){"", 0});
	symspans_free(s);
	records_free(r);
	return err ? err : *out ? ERR_OK : ERR_NO_MEMORY;
}
