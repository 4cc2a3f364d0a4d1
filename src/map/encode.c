/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code pages and string pages. docs/offset-map.md gives the bytes.
 *
 * A code page is built in four growing buffers (bodies, string codes, string data, far bytes) and a directory. When it
 * is closed, they are copied into a page of exact size. Pieces come in ascending address order.
 */
#include <config.h>

#include "map/encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/varint.h"
#include "map/read.h"
#include "map/value.h"

#define HUGE_SEGMENT ((uint64_t)1 << 61) /* sizes below this can be shifted by two bits */

struct bytes {
	uint8_t *data;
	uint32_t len, cap;
};

struct piece_entry {
	uint64_t address;
	uint32_t body; /* offset, and PIECE_HAS_LINES */
};

/* A node's number in the piece that was written as `piece`. */
struct node_number {
	uint32_t piece, local;
};

/* What the lines of a node are relative to: file (an index in the page) and line. */
struct node_base {
	uint32_t file, line;
	bool set;
};

struct encoder {
	/* the open code page */
	struct bytes body, codes, data, far;
	struct piece_entry *pieces;
	uint32_t piece_count, piece_cap;
	uint32_t string_count;
	uint32_t serial; /* of the open page; never reused */
	/* the open string page */
	struct bytes strings;
	uint32_t strings_held;
	/* the numbers of one piece's nodes */
	struct node_number *numbers; /* by node of the function */
	uint32_t numbers_cap, piece;
	uint32_t *order; /* node of the function, by local number */
	uint32_t order_cap;
	struct node_base *bases; /* by local number; 0 is the function */
	uint32_t bases_cap;
};

static bool reserve(struct bytes *b, size_t n)
{
	return n <= UINT32_MAX - b->len && array_reserve(&b->data, &b->cap, b->len + n, sizeof *b->data);
}

static bool append(struct bytes *b, const void *data, size_t n)
{
	if (!reserve(b, n))
		return false;
	if (n)
		memcpy(b->data + b->len, data, n);
	b->len += (uint32_t)n;
	return true;
}

struct encoder *encoder_new(void)
{
	struct encoder *e = calloc(1, sizeof *e);
	if (e)
		e->serial = 1;
	return e;
}

void encoder_free(struct encoder *e)
{
	if (!e)
		return;
	free(e->body.data);
	free(e->codes.data);
	free(e->data.data);
	free(e->far.data);
	free(e->strings.data);
	free(e->pieces);
	free(e->numbers);
	free(e->order);
	free(e->bases);
	free(e);
}

/* ---- string pages ---- */

bool encode_string(struct encoder *e, const char *text, uint32_t len)
{
	if (!reserve(&e->strings, (size_t)len + VARINT_MAX))
		return false;
	uint8_t *end = varint_put(e->strings.data + e->strings.len, len);
	memcpy(end, text, len);
	e->strings.len = (uint32_t)(end + len - e->strings.data);
	e->strings_held++;
	return true;
}

/* ---- code pages ---- */

static uint32_t page_size(const struct encoder *e)
{
	return CODE_HEADER + CODE_ENTRY * e->piece_count + e->body.len + e->codes.len + e->data.len + e->far.len;
}

static struct page *make_code_page(const struct encoder *e)
{
	struct page *p = page_new(PAGE_CODE, page_size(e));
	if (!p)
		return NULL;
	uint64_t base = e->pieces[0].address;
	uint32_t bodies = CODE_HEADER + CODE_ENTRY * e->piece_count;
	uint8_t *at = put_u64(p->bytes, base);
	at = put_u32(at, e->piece_count);
	at = put_u32(at, e->string_count);
	at = put_u32(at, bodies + e->body.len);
	at = put_u32(at, bodies + e->body.len + e->codes.len + e->data.len);
	for (uint32_t i = 0; i < e->piece_count; i++)
		at = put_u32(put_u32(at, (uint32_t)(e->pieces[i].address - base)), e->pieces[i].body + bodies);
	const struct bytes *parts[] = {&e->body, &e->codes, &e->data, &e->far};
	for (unsigned i = 0; i < 4; i++)
		if (parts[i]->len) {
			memcpy(at, parts[i]->data, parts[i]->len);
			at += parts[i]->len;
		}
	return p;
}

static void begin_code_page(struct encoder *e)
{
	e->body.len = e->codes.len = e->data.len = e->far.len = 0;
	e->piece_count = e->string_count = 0;
	e->serial++;
}

/* Adds a string whose data have been added to the open page. Returns its index from 1, or 0 if out of memory. */
static uint32_t add_code(struct encoder *e, uint8_t code)
{
	if (!reserve(&e->codes, 1))
		return 0;
	e->codes.data[e->codes.len++] = code;
	return ++e->string_count;
}

static uint32_t add_external(struct encoder *e, uint32_t id)
{
	if (!reserve(&e->data, 4))
		return 0;
	put_u32(e->data.data + e->data.len, id);
	e->data.len += 4;
	return add_code(e, STRING_EXTERNAL);
}

static uint32_t add_string(struct encoder *e, const void *text, uint32_t len)
{
	if (len <= STRING_INLINE_MAX)
		return append(&e->data, text, len) ? add_code(e, (uint8_t)len) : 0;
	uint8_t data[6];
	put_u16(put_u32(data, e->far.len), (uint16_t)len);
	return append(&e->far, text, len) && append(&e->data, data, sizeof data) ? add_code(e, STRING_FAR) : 0;
}

static bool add_slot(struct encoder *e, const struct string_table *strings, uint32_t slot)
{
	struct string_slot *s = &strings->slots[slot];
	if (s->external) {
		s->local = add_external(e, s->id);
	} else if (s->defined) {
		s->local = add_string(e, strings->texts + s->text, s->len);
	} else {
		struct str unknown = str_from(s->is_origin ? "<unknown>" : "");
		s->local = add_string(e, unknown.data, (uint32_t)unknown.len);
	}
	s->page = e->serial;
	return s->local != 0;
}

/* Sets *index to the slot's string in the open page, adding it if needed; 0 for slot 0. False if out of memory. */
static inline bool local_string(struct encoder *e, const struct string_table *strings, uint32_t slot, uint32_t *index)
{
	const struct string_slot *s = &strings->slots[slot];
	if (slot && s->page != e->serial && !add_slot(e, strings, slot))
		return false;
	*index = s->local; /* slot 0 has 0 */
	return true;
}

/* Prefetches the text of a slot, which write_nodes will soon add to the page. */
static inline void fetch_text(const struct encoder *e, const struct string_table *strings, uint32_t slot)
{
	const struct string_slot *s = &strings->slots[slot];
	if (s->page != e->serial && s->defined && !s->external)
		__builtin_prefetch(strings->texts + s->text);
}

static bool local_name(struct encoder *e, const struct string_table *strings, struct flat *f, uint32_t *index)
{
	if (f->name_slot)
		return local_string(e, strings, f->name_slot, index);
	if (f->name_page != e->serial) {
		f->name_local =
		        f->name_external ? add_external(e, f->name_external) : add_string(e, f->name, f->name_len);
		f->name_page = e->serial;
	}
	*index = f->name_local;
	return *index != 0;
}

/* ---- pieces ---- */

/* Numbers a node and its ancestors, parents first, unless this piece has numbered them already. */
static bool number_node(struct encoder *e, const struct flat *f, uint32_t node, uint32_t *count)
{
	uint32_t fresh = 0;
	for (uint32_t n = node; n && e->numbers[n].piece != e->piece; n = f->nodes[n].parent)
		fresh++;
	*count += fresh;
	if (!array_reserve(&e->order, &e->order_cap, *count + 1, sizeof *e->order) ||
	        !array_reserve(&e->bases, &e->bases_cap, *count + 1, sizeof *e->bases))
		return false;
	for (uint32_t n = node, id = *count; fresh; fresh--, id--, n = f->nodes[n].parent) {
		e->numbers[n] = (struct node_number){e->piece, id};
		e->order[id] = n;
		e->bases[id].set = false;
	}
	return true;
}

static uint32_t local_node(const struct encoder *e, uint32_t node)
{
	return e->numbers[node].local; /* that of node 0 is 0 */
}

/* Gives every node of the piece its number and its base: file and line of its first segment or, if it has none, the
 * call site of its first child. */
static bool number_nodes(struct encoder *e, const struct string_table *strings, const struct flat *f, uint32_t first,
        uint32_t last, uint32_t *count)
{
	*count = 0;
	if (!array_reserve(&e->bases, &e->bases_cap, 1, sizeof *e->bases))
		return false;
	uint32_t cap = e->numbers_cap;
	if (!array_reserve(&e->numbers, &e->numbers_cap, f->node_count + 1, sizeof *e->numbers))
		return false;
	memset(e->numbers + cap, 0, (e->numbers_cap - cap) * sizeof *e->numbers);
	if (!++e->piece) {
		memset(e->numbers, 0, e->numbers_cap * sizeof *e->numbers);
		e->piece = 1;
	}
	e->bases[0].set = false;
	for (uint32_t i = first; i < last; i++) {
		const struct flat_segment *s = &f->segments[i];
		if (s->node && e->numbers[s->node].piece != e->piece && !number_node(e, f, s->node, count))
			return false;
		struct node_base *b = &e->bases[local_node(e, s->node)];
		if (!b->set) {
			*b = (struct node_base){0, s->line, true};
			if (!local_string(e, strings, s->file, &b->file))
				return false;
		}
	}
	for (uint32_t i = 1; i <= *count; i++) {
		const struct flat_node *n = &f->nodes[e->order[i]];
		struct node_base *b = &e->bases[local_node(e, n->parent)];
		fetch_text(e, strings, n->origin);
		if (!b->set) {
			*b = (struct node_base){0, n->call_line, true};
			if (!local_string(e, strings, n->call_file, &b->file))
				return false;
		}
	}
	return true;
}

static bool write_nodes(struct encoder *e, const struct string_table *strings, const struct flat *f, uint32_t count)
{
	for (uint32_t i = 1; i <= count; i++) {
		const struct flat_node *n = &f->nodes[e->order[i]];
		uint32_t parent = local_node(e, n->parent), origin, file;
		const struct node_base *own = &e->bases[i], *above = &e->bases[parent];
		if (!local_string(e, strings, n->origin, &origin) || !local_string(e, strings, n->call_file, &file) ||
		        !reserve(&e->body, 6 * VARINT_MAX))
			return false;
		uint8_t *at = e->body.data + e->body.len;
		at = varint_put(at, (uint64_t)(i - parent) << 1 | (file != above->file));
		at = varint_put(at, origin);
		at = varint_put(at, zigzag((int64_t)n->call_line - above->line));
		if (file != above->file)
			at = varint_put(at, file);
		at = varint_put(at, own->file);
		at = varint_put(at, own->line);
		e->body.len = (uint32_t)(at - e->body.data);
	}
	return true;
}

static bool write_segments(
        struct encoder *e, const struct string_table *strings, const struct flat *f, uint32_t first, uint32_t last)
{
	uint32_t node = 0, line = e->bases[0].line, file = e->bases[0].file, highest = 0;
	uint32_t slot = UINT32_MAX, own_file = 0;
	if (!reserve(&e->body, (size_t)4 * VARINT_MAX * (last - first)))
		return false;
	uint8_t *at = e->body.data + e->body.len;
	for (uint32_t i = first; i < last; i++) {
		const struct flat_segment *s = &f->segments[i];
		uint32_t own = local_node(e, s->node);
		if (s->file != slot && !local_string(e, strings, s->file, &own_file))
			return false;
		slot = s->file;
		uint64_t size = i + 1 < last ? s[1].start - s->start : 0;
		const struct node_base *b = &e->bases[own];
		if (own == node && own_file == file) {
			at = varint_put(at, size << 2 | SEGMENT_SAME_NODE);
			at = varint_put(at, zigzag((int64_t)s->line - line));
		} else if (own > highest && own_file == b->file && s->line == b->line) {
			at = varint_put(at, size << 2 | SEGMENT_NEW_NODE);
			at = varint_put(at, own - highest);
		} else {
			bool other = own_file != b->file;
			at = varint_put(at, size << 2 | (other ? SEGMENT_NODE_FILE : SEGMENT_NODE));
			at = varint_put(at, zigzag((int64_t)own - node));
			at = varint_put(at, zigzag((int64_t)s->line - b->line));
			if (other)
				at = varint_put(at, own_file);
		}
		node = own;
		line = s->line;
		file = own_file;
		if (own > highest)
			highest = own;
	}
	e->body.len = (uint32_t)(at - e->body.data);
	return true;
}

/* The length of the nodes in bytes comes before them, so they are written first and then moved. */
static bool write_tree(
        struct encoder *e, const struct string_table *strings, const struct flat *f, uint32_t first, uint32_t last)
{
	uint32_t count;
	if (!number_nodes(e, strings, f, first, last, &count) || !reserve(&e->body, 4 * VARINT_MAX))
		return false;
	uint8_t *at = e->body.data + e->body.len;
	at = varint_put(at, e->bases[0].file);
	at = varint_put(at, e->bases[0].line);
	at = varint_put(at, count);
	e->body.len = (uint32_t)(at - e->body.data);
	if (count) {
		uint8_t length[VARINT_MAX];
		uint32_t start = e->body.len;
		if (!write_nodes(e, strings, f, count) || !reserve(&e->body, VARINT_MAX))
			return false;
		uint32_t n = e->body.len - start, prefix = (uint32_t)(varint_put(length, n) - length);
		memmove(e->body.data + start + prefix, e->body.data + start, n);
		memcpy(e->body.data + start, length, prefix);
		e->body.len += prefix;
	}
	return write_segments(e, strings, f, first, last);
}

/* Segments [first, last) of a function, which cover [from, to); endless: up to the end of the address space. */
struct part {
	uint64_t from, to;
	bool endless;
	uint32_t first, last;
};

static bool write_piece(struct encoder *e, const struct string_table *strings, struct flat *f, const struct part *part)
{
	uint64_t address = f->addr + part->from;
	uint32_t name;
	if (e->piece_count && address - e->pieces[0].address > UINT32_MAX)
		return false;
	if (!array_reserve(&e->pieces, &e->piece_cap, e->piece_count + 1, sizeof *e->pieces))
		return false;
	if (!local_name(e, strings, f, &name) || !reserve(&e->body, 5 * VARINT_MAX))
		return false;
	bool whole = !part->endless && part->to == f->size;
	e->pieces[e->piece_count++] = (struct piece_entry){address, e->body.len | (f->has_lines ? PIECE_HAS_LINES : 0)};
	uint8_t *at = e->body.data + e->body.len;
	at = varint_put(at, (uint64_t)(part->last - part->first) << 3 | (whole ? PIECE_WHOLE : 0) |
	                            (part->from ? PIECE_CONTINUED : 0) | (f->is_public ? PIECE_PUBLIC : 0));
	at = varint_put(at, f->size);
	if (part->from)
		at = varint_put(at, part->from);
	at = varint_put(at, name);
	if (!whole)
		at = varint_put(at, part->endless ? 0 : part->to - part->from);
	e->body.len = (uint32_t)(at - e->body.data);
	return part->last == part->first || write_tree(e, strings, f, part->first, part->last);
}

/* A cut repeats the nodes of the chain at that point. It is allowed if these are few compared with what was written. */
static bool may_cut(const struct flat *f, uint32_t node, uint32_t segments)
{
	return segments >= OFFMAP_PIECE_SEGMENTS && (!node || f->nodes[node].depth <= 4 * segments);
}

/* A piece of segments [i, ...) up to `to` cannot end before this segment. */
static uint32_t first_cut(const struct flat *f, uint32_t i, uint64_t to)
{
	uint32_t left = f->segment_count - i, cut = i + (left < OFFMAP_PIECE_SEGMENTS ? left : OFFMAP_PIECE_SEGMENTS);
	if (f->size >= HUGE_SEGMENT)
		return i + 1;
	while (cut > i + 1 && f->segments[cut - 1].start >= to)
		cut--;
	return cut;
}

bool encode_function(
        struct encoder *e, const struct string_table *strings, struct flat *f, uint64_t from, uint64_t to, bool endless)
{
	uint32_t i = f->next_segment, last = i + 1;
	if (!f->segment_count || (from >= f->size && !f->is_public))
		return write_piece(e, strings, f, &(struct part){from, to, endless, 0, 0});
	while (i + 1 < f->segment_count && f->segments[i + 1].start <= from)
		i++;
	for (; from < to; i = last) {
		uint64_t end = to, start = f->segments[i].start;
		f->segments[i].start = from;
		for (last = first_cut(f, i, to); last < f->segment_count && f->segments[last].start < to; last++) {
			bool huge = f->segments[last].start - f->segments[last - 1].start >= HUGE_SEGMENT;
			if (huge || may_cut(f, f->segments[last].node, last - i)) {
				end = f->segments[last].start;
				break;
			}
		}
		bool written = write_piece(e, strings, f, &(struct part){from, end, end == to && endless, i, last});
		f->segments[i].start = start; /* so that the earlier part can be encoded again */
		if (!written)
			return false;
		from = end;
	}
	f->next_segment = last - 1;
	return true;
}

/* ---- single pages ---- */

void encoder_drop_open(struct encoder *e)
{
	begin_code_page(e);
	e->strings.len = e->strings_held = 0;
}

struct page *encoder_take_code(struct encoder *e)
{
	struct page *p = e->piece_count ? make_code_page(e) : NULL;
	begin_code_page(e);
	return p;
}

struct page *encoder_take_strings(struct encoder *e, uint32_t first)
{
	struct page *p = page_new(PAGE_STRINGS, STRINGS_HEADER + e->strings.len);
	if (p) {
		put_u32(put_u32(p->bytes, first), e->strings_held);
		if (e->strings.len)
			memcpy(p->bytes + STRINGS_HEADER, e->strings.data, e->strings.len);
	}
	e->strings.len = e->strings_held = 0;
	return p;
}

uint64_t encoder_buffer_bytes(const struct encoder *e)
{
	return (uint64_t)e->body.cap + e->codes.cap + e->data.cap + e->far.cap + e->strings.cap +
	       (uint64_t)e->piece_cap * sizeof *e->pieces + (uint64_t)e->numbers_cap * sizeof *e->numbers +
	       (uint64_t)e->order_cap * sizeof *e->order + (uint64_t)e->bases_cap * sizeof *e->bases;
}
