/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a symbol are varints (signed ones are zigzag), which depend on nothing before the symbol:
 *
 *   name     length << 1, place in names; or 1, and the string's id << 1 if a string page has it, or, of a part whose
 *            name is a definition, that one's id << 1 | 1
 *
 * then
 *
 *   END      0
 *   a call   ranges << 3 | CALL or CALL_NO_FILE; depth; signed line of the call; its file; the name's id;
 *            of each range the signed distance of its start from the start of the one before, and its size
 *   a line   size << 3 | LINE | GAP | FILE; with GAP, the signed distance of its start from the end of the line before;
 *            signed line; with FILE, the file's id: otherwise it is that of the line before
 *
 * Lines are relative to those of the record before of the same kind. Only what lies within the symbol is kept, but all
 * is counted.
 *
 * Or, for a part of a function that is flat already:
 *
 *   where    the distance from the function's start; the function's size, 0 for a return pad that has none
 *   nodes    how many; of each its distance from its parent, the id of its name, signed file and line of the call
 *   segments how many; of each size of the one before << 2 | NODE | FILE; signed line; with NODE, the signed node; with
 *            FILE, the signed file
 *
 * A function with much text is cut at addresses of its own records: those that the reader marked, or all if it has more
 * than RECORDS_EXACT_PAGES times what a page may have, or more addresses than a page can have.
 */
#include <config.h>

#include "records/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "map/flat.h"

enum { END = 0, CALL = 1, CALL_NO_FILE = 2, LINE = 4, GAP = 1, FILE_CHANGES = 2, KIND_BITS = 3 };
enum { NODE_CHANGES = 1, SEGMENT_FILE = 2 };
enum { PART_TEXT = 5 };               /* two bytes of a part weigh as much as so many of text */
#define SIZE_MOST (UINT64_C(1) << 60) /* of a line; the rest of a larger one follows */

struct records_state {
	struct record_symbol *symbol; /* the last of all; another address when that array grows */
	uint64_t end, file, start;    /* of the last line, and of the last range */
	uint32_t line, call_line;
	uint64_t last_name; /* place of the name of the last part */
	uint64_t kept;      /* of the symbol's records: edges of lines and ranges */
	uint64_t *events;   /* addresses where a segment of the function may start */
	uint32_t event_count, events_cap;
};

struct records *records_new(uint32_t page_text)
{
	struct records *r = calloc(1, sizeof *r);
	if (!r || !(r->state = calloc(1, sizeof *r->state))) {
		free(r);
		return NULL;
	}
	r->page_text = page_text ? page_text : RECORDS_PAGE_TEXT;
	return r;
}

static void free_state(struct records *r)
{
	if (r->state)
		free(r->state->events);
	free(r->state);
	r->state = NULL;
}

void records_free(struct records *r)
{
	if (!r)
		return;
	free_state(r);
	free(r->symbols);
	free(r->bytes);
	name_store_release(&r->names);
	free(r->files.all);
	free(r->files.dense);
	free(r->origins.all);
	free(r->origins.dense);
	free(r->origin_files.all);
	free(r->origin_files.dense);
	free(r->texts);
	free(r->strings);
	free(r->string_first);
	free(r->cut_funcs);
	free(r->cuts);
	free(r);
}

uint64_t records_bytes(const struct records *r)
{
	uint64_t definitions = (uint64_t)r->files.cap + r->origins.cap + r->origin_files.cap,
	         dense = (uint64_t)r->files.dense_count + r->origins.dense_count + r->origin_files.dense_count,
	         events = r->state ? r->state->events_cap : 0;
	return sizeof *r + r->symbol_cap * (uint64_t)sizeof *r->symbols + r->cap + name_store_bytes(&r->names) +
	       definitions * sizeof(struct record_definition) + dense * sizeof(uint32_t) + r->texts_cap +
	       r->string_cap * (uint64_t)sizeof *r->strings + r->string_page_count * (uint64_t)sizeof *r->string_first +
	       r->cut_func_cap * (uint64_t)sizeof *r->cut_funcs + (r->cut_cap + events) * sizeof *r->cuts;
}

bool records_full(const struct records *r)
{
	const uint32_t most = UINT32_C(3) << 30; /* arrays do not grow much beyond that */
	return r->len >= most || r->texts_len >= most || r->symbol_count == INT32_MAX;
}

bool records_may_take(const struct records *r, uint64_t bytes)
{
	return !r->grow || r->grow(r->grow_arg, bytes);
}

/* ---- strings ---- */

/* Notes a text that goes into a string page. */
static bool add_string(struct records *r, struct str text)
{
	struct record_string s = {0, (uint32_t)text.len};
	if (r->string_count == UINT32_MAX - 1 || text.len > UINT32_MAX ||
	        !array_reserve(&r->strings, &r->string_cap, r->string_count + (size_t)1, sizeof *r->strings) ||
	        !name_store_add(&r->names, text.data, text.len, &s.place))
		return false;
	r->strings[r->string_count++] = s;
	return true;
}

static bool add_text(struct records *r, struct str text)
{
	if (text.len > UINT32_MAX - r->texts_len ||
	        !array_reserve(&r->texts, &r->texts_cap, r->texts_len + text.len, sizeof *r->texts))
		return false;
	if (text.len)
		memcpy(r->texts + r->texts_len, text.data, text.len);
	r->texts_len += (uint32_t)text.len;
	return true;
}

static bool add_definition(struct record_definitions *d, struct record_definition new)
{
	if (d->count == UINT32_MAX || !array_reserve(&d->all, &d->cap, d->count + (size_t)1, sizeof *d->all))
		return false;
	d->all[d->count++] = new;
	d->highest = new.id > d->highest ? new.id : d->highest;
	return true;
}

bool records_define(struct records *r, bool is_origin, uint64_t id, struct str text)
{
	struct record_definition new = {.id = id, .at = r->texts_len, .external = text.len > OFFMAP_SHORT_STRING};
	if (!(new.external ? add_string(r, text) : add_text(r, text)))
		return false;
	if (new.external)
		new.string = r->string_count;
	else
		new.len = (uint8_t)text.len;
	return add_definition(is_origin ? &r->origins : &r->files, new);
}

bool records_define_origin_file(struct records *r, uint64_t origin, const uint32_t *file)
{
	/* Files of today have none. */
	if (!file && !r->origin_files.count)
		return true;
	return add_definition(&r->origin_files,
	        (struct record_definition){.id = origin, .string = file ? *file : 0, .external = file});
}

/* ---- symbols ---- */

static inline bool reserve(struct records *r, size_t more)
{
	return array_reserve(&r->bytes, &r->cap, r->len + more, 1);
}

bool records_add_name(struct records *r, struct str text, bool external, struct record_name *name)
{
	*name = (struct record_name){.len = (uint32_t)text.len};
	if (!external)
		return name_store_add(&r->names, text.data, text.len, &name->place);
	if (!add_string(r, text))
		return false;
	name->string = r->string_count;
	return true;
}

static bool begin(struct records *r, struct record_symbol symbol, const struct record_name *name)
{
	struct records_state *s = r->state;
	if (r->symbol_count == INT32_MAX ||
	        !array_reserve(&r->symbols, &r->symbol_cap, r->symbol_count + (size_t)1, sizeof *r->symbols) ||
	        !reserve(r, (size_t)2 * VARINT_MAX))
		return false;
	symbol.at = r->len;
	s->symbol = &r->symbols[r->symbol_count++];
	*s->symbol = symbol;
	uint8_t *at = r->bytes + r->len;
	bool within = !name->string && !name->file;
	at = varint_put(at, within ? (uint64_t)name->len << 1 : 1);
	at = varint_put(at, within       ? name->place
	                    : name->file ? (uint64_t)name->file << 1 | 1
	                                 : (uint64_t)name->string << 1);
	r->len = (uint32_t)(at - r->bytes);
	return true;
}

bool records_begin(struct records *r, bool is_public, uint64_t addr, uint64_t size, struct str name)
{
	struct records_state *s = r->state;
	struct record_name n;
	if (addr && size > 0 - addr)
		size = 0 - addr;
	if (!records_add_name(r, name, name.len > OFFMAP_INLINE_NAME, &n) ||
	        !begin(r, (struct record_symbol){.addr = addr, .size = size, .is_public = is_public}, &n))
		return false;
	r->funcs += !is_public;
	r->publics += is_public;
	s->end = s->file = s->start = s->kept = 0;
	s->line = s->call_line = 0;
	s->event_count = 0;
	return true;
}

static bool add_event(struct records_state *s, uint64_t within)
{
	if (!within || within >= s->symbol->size)
		return true;
	if (!array_reserve(&s->events, &s->events_cap, s->event_count + (size_t)1, sizeof *s->events))
		return false;
	s->events[s->event_count++] = s->symbol->addr + within;
	return true;
}

static uint8_t *put_line(
        uint8_t *at, struct records_state *s, uint64_t start, uint64_t end, const struct record_line *l)
{
	uint64_t size = end - start, kept = size < SIZE_MOST ? size : SIZE_MOST;
	unsigned kind = LINE | (start != s->end ? GAP : 0) | (l->file != s->file ? FILE_CHANGES : 0);
	at = varint_put(at, kept << KIND_BITS | kind);
	if (kept == SIZE_MOST)
		at = varint_put(at, size - kept);
	if (kind & GAP)
		at = varint_put(at, zigzag((int64_t)(start - s->end)));
	at = varint_put(at, zigzag((int64_t)(uint32_t)l->line - (int64_t)s->line));
	if (kind & FILE_CHANGES)
		at = varint_put(at, l->file);
	s->end = end;
	s->line = (uint32_t)l->line;
	s->file = l->file;
	return at;
}

bool records_lines(struct records *r, const struct record_line *lines, uint32_t n, bool mark)
{
	struct records_state *s = r->state;
	const uint64_t addr = s->symbol->addr, size = s->symbol->size;
	uint64_t start, end;
	if (!reserve(r, (size_t)n * 5 * VARINT_MAX))
		return false;
	uint8_t *at = r->bytes + r->len;
	r->lines += n;
	s->symbol->has_lines = true;
	for (uint32_t i = 0; i < n; i++) {
		if (!clip_to_function(addr, size, lines[i].addr, lines[i].size, &start, &end))
			continue;
		at = put_line(at, s, start, end, &lines[i]);
		s->kept += 2;
		if (mark && !(add_event(s, start) && add_event(s, end)))
			return false;
	}
	r->len = (uint32_t)(at - r->bytes);
	return true;
}

bool records_call(struct records *r, const struct record_call *c, uint64_t *ranges, uint32_t range_count, bool mark)
{
	struct records_state *s = r->state;
	uint32_t kept = 0;
	uint64_t start, end;
	if (!reserve(r, ((size_t)range_count + 5) * 2 * VARINT_MAX))
		return false;
	for (uint32_t i = 0; i < 2 * range_count; i += 2)
		if (clip_to_function(s->symbol->addr, s->symbol->size, ranges[i], ranges[i + 1], &start, &end)) {
			ranges[kept++] = start;
			ranges[kept++] = end;
		}
	uint8_t *at = r->bytes + r->len;
	at = varint_put(at, (uint64_t)(kept / 2) << KIND_BITS | (c->has_call_file ? CALL : CALL_NO_FILE));
	at = varint_put(at, c->depth);
	at = varint_put(at, zigzag((int64_t)c->call_line - s->call_line));
	if (c->has_call_file)
		at = varint_put(at, c->call_file);
	at = varint_put(at, c->origin);
	for (uint32_t i = 0; i < kept; i += 2) {
		at = varint_put(at, zigzag((int64_t)(ranges[i] - s->start)));
		at = varint_put(at, ranges[i + 1] - ranges[i]);
		s->start = ranges[i];
	}
	for (uint32_t i = 0; mark && i < kept; i++)
		if (!add_event(s, ranges[i]))
			return false;
	s->call_line = c->call_line;
	s->kept += kept;
	r->len = (uint32_t)(at - r->bytes);
	r->inlines++;
	return true;
}

/* ---- cuts ---- */

static bool mark_all(struct records *r)
{
	struct records_state *s = r->state;
	struct record_reader in;
	enum record_kind kind;
	uint64_t more = s->kept > s->events_cap ? s->kept : 0; /* and to sort them as much as they are */
	if (!records_may_take(r, (more + s->kept) * sizeof *s->events))
		return false;
	s->event_count = 0;
	record_reader_begin(&in, r, s->symbol);
	while ((kind = record_reader_next(&in))) {
		if (kind == RECORD_LINE && !(add_event(s, in.start) && add_event(s, in.end)))
			return false;
		while (kind == RECORD_CALL && in.ranges) {
			record_reader_range(&in);
			if (!add_event(s, in.range_start) || !add_event(s, in.range_end))
				return false;
		}
	}
	return true;
}

/* The text is shared evenly, and no segment starts too far above a page's first address. */
static bool find_cuts(struct records *r, uint64_t text)
{
	struct records_state *s = r->state;
	bool vast = s->symbol->size > UINT32_MAX;
	struct record_cuts cuts = {s->symbol->at, r->cut_count, 0};
	if (text <= r->page_text && !vast)
		return true;
	if ((vast || text > RECORDS_EXACT_PAGES * (uint64_t)r->page_text) && !mark_all(r))
		return false;
	if (s->event_count)
		qsort(s->events, s->event_count, sizeof *s->events, search_order);
	uint64_t pages = text / r->page_text + 1, last = s->symbol->addr, share = s->event_count / pages + 1,
	         passed = 0;
	for (uint32_t i = 0; i < s->event_count; i++) {
		uint64_t event = s->events[i];
		if (event == last || (++passed < share && event - last <= UINT32_MAX))
			continue;
		if (!array_reserve(&r->cuts, &r->cut_cap, r->cut_count + (size_t)1, sizeof *r->cuts))
			return false;
		r->cuts[r->cut_count++] = last = event;
		passed = 0;
	}
	cuts.count = r->cut_count - cuts.first;
	if (!array_reserve(&r->cut_funcs, &r->cut_func_cap, r->cut_func_count + (size_t)1, sizeof *r->cut_funcs))
		return false;
	r->cut_funcs[r->cut_func_count++] = cuts;
	return true;
}

static void set_text(struct records *r, uint64_t text)
{
	r->state->symbol->text = text < RECORD_TEXT_MAX ? text : RECORD_TEXT_MAX;
	r->text += text;
	r->largest_text = text > r->largest_text ? text : r->largest_text;
}

bool records_end(struct records *r, uint64_t text)
{
	if (!reserve(r, 1))
		return false;
	r->bytes[r->len++] = END;
	set_text(r, text);
	return r->state->symbol->is_public || find_cuts(r, text);
}

/* ---- parts ---- */

static uint8_t *put_nodes(uint8_t *at, const struct flat *f)
{
	uint32_t line = 0, file = 0;
	at = varint_put(at, f->node_count);
	for (uint32_t i = 1; i <= f->node_count; i++) {
		const struct flat_node *n = &f->nodes[i];
		at = varint_put(at, i - n->parent);
		at = varint_put(at, n->origin);
		at = varint_put(at, zigzag((int64_t)n->call_file - file));
		at = varint_put(at, zigzag((int64_t)n->call_line - line));
		line = n->call_line;
		file = n->call_file;
	}
	return at;
}

static uint8_t *put_segments(uint8_t *at, const struct flat *f)
{
	struct flat_segment last = {f->segments[0].start, 0, 0, 0};
	at = varint_put(at, f->segment_count);
	for (uint32_t i = 0; i < f->segment_count; i++) {
		const struct flat_segment *s = &f->segments[i];
		uint64_t size = s->start - last.start;
		unsigned kind = (s->node != last.node ? NODE_CHANGES : 0) | (s->file != last.file ? SEGMENT_FILE : 0);
		at = varint_put(at, size << 2 | kind);
		at = varint_put(at, zigzag((int64_t)s->line - last.line));
		if (kind & NODE_CHANGES)
			at = varint_put(at, zigzag((int64_t)s->node - last.node));
		if (kind & SEGMENT_FILE)
			at = varint_put(at, zigzag((int64_t)s->file - last.file));
		last = *s;
	}
	return at;
}

bool records_part(struct records *r, uint64_t size, const struct record_name *name, const struct flat *f)
{
	uint64_t within = f->segments[0].start, *last = &r->state->last_name;
	bool again = r->symbol_count && *last == name->place;
	uint32_t first = r->len;
	if (!begin(r, (struct record_symbol){.addr = f->addr + within, .size = size, .is_part = true}, name) ||
	        !reserve(r, ((size_t)f->node_count + f->segment_count + 1) * 4 * VARINT_MAX))
		return false;
	uint8_t *at = r->bytes + r->len;
	at = varint_put(at, within);
	at = varint_put(at, f->size);
	at = put_nodes(at, f);
	at = put_segments(at, f);
	r->len = (uint32_t)(at - r->bytes);
	set_text(r, (r->len - first) * (uint64_t)PART_TEXT / 2 + (again || name->string ? 0 : name->len));
	*last = name->place;
	return true;
}

const struct record_cuts *records_cuts_of(const struct records *r, const struct record_symbol *s)
{
	size_t n = search_up_to(
	        r->cut_funcs, r->cut_func_count, sizeof *r->cut_funcs, offsetof(struct record_cuts, at), s->at);
	return n && r->cut_funcs[n - 1].at == s->at ? &r->cut_funcs[n - 1] : NULL;
}

/* ---- the end ---- */

static int symbol_order(const void *a, const void *b)
{
	const struct record_symbol *x = a, *y = b;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->has_lines != y->has_lines)
		return x->has_lines ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

/* Orders by id, then by place in the file: of equal ids the last one wins. */
static int definition_order(const void *a, const void *b, void *all)
{
	const struct record_definition *d = all;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (d[x].id != d[y].id)
		return d[x].id < d[y].id ? -1 : 1;
	return x < y ? -1 : 1;
}

/* Leaves one definition per id in all[], ascending by id. False if out of memory. */
static bool sort_definitions(struct record_definitions *d)
{
	uint32_t *order = malloc(d->count * sizeof *order), n = 0;
	struct record_definition *sorted = malloc(d->count * sizeof *sorted);
	if (!order || !sorted) {
		free(order);
		free(sorted);
		return false;
	}
	for (uint32_t i = 0; i < d->count; i++)
		order[i] = i;
	qsort_r(order, d->count, sizeof *order, definition_order, d->all);
	for (uint32_t i = 0; i < d->count; i++)
		if (i + 1 == d->count || d->all[order[i]].id != d->all[order[i + 1]].id)
			sorted[n++] = d->all[order[i]];
	free(order);
	free(d->all);
	d->all = sorted;
	d->cap = d->count;
	d->count = n;
	return true;
}

/* Makes a table by id if ids are close together, else sorts the definitions. */
static bool finish_definitions(const struct records *r, struct record_definitions *d)
{
	bool sorts = d->highest >= 64 + 4 * (uint64_t)d->count || d->highest >= UINT32_MAX;
	if (!d->count)
		return true;
	/* a copy of all, their order, and as much to sort that */
	if (!records_may_take(r,
	            sorts ? d->count * (sizeof *d->all + 2 * sizeof(uint32_t)) : (d->highest + 1) * sizeof *d->dense))
		return false;
	if (sorts)
		return sort_definitions(d);
	d->dense = calloc(d->highest + 1, sizeof *d->dense);
	if (!d->dense)
		return false;
	d->dense_count = (uint32_t)d->highest + 1;
	for (uint32_t i = 0; i < d->count; i++)
		d->dense[d->all[i].id] = i + 1;
	return true;
}

const struct record_definition *records_find(const struct record_definitions *d, uint64_t id)
{
	if (d->dense)
		return id < d->dense_count && d->dense[id] ? &d->all[d->dense[id] - 1] : NULL;
	size_t n = search_up_to(d->all, d->count, sizeof *d->all, offsetof(struct record_definition, id), id);
	return n && d->all[n - 1].id == id ? &d->all[n - 1] : NULL;
}

/* Cuts the string pages by the lengths of strings in the file. */
static bool cut_strings(struct records *r)
{
	uint32_t cap = 0;
	uint64_t filled = 0;
	for (uint32_t i = 0; i < r->string_count; i++) {
		if (!i || filled + r->strings[i].len > OFFMAP_PAGE_SIZE) {
			if (!array_reserve(
			            &r->string_first, &cap, r->string_page_count + (size_t)1, sizeof *r->string_first))
				return false;
			r->string_first[r->string_page_count++] = i + 1;
			filled = 0;
		}
		filled += r->strings[i].len + 2;
	}
	return true;
}

/* Gives back the room that an array does not need. */
static void trim(void *array, uint32_t *cap, uint32_t count, size_t size)
{
	void *items;
	memcpy(&items, array, sizeof items);
	void *fitting = count && count < *cap ? realloc(items, count * size) : NULL;
	if (!fitting)
		return;
	memcpy(array, &fitting, sizeof fitting);
	*cap = count;
}

bool records_finish(struct records *r)
{
	bool sorted = true;
	for (uint32_t i = 1; i < r->symbol_count && sorted; i++)
		sorted = symbol_order(&r->symbols[i - 1], &r->symbols[i]) < 0;
	if (!sorted && !records_may_take(r, r->symbol_count * (uint64_t)sizeof *r->symbols)) /* as much again */
		return false;
	if (!sorted)
		qsort(r->symbols, r->symbol_count, sizeof *r->symbols, symbol_order);
	if (!finish_definitions(r, &r->files) || !finish_definitions(r, &r->origins) ||
	        !finish_definitions(r, &r->origin_files) || !cut_strings(r) || !name_store_end(&r->names))
		return false;
	trim(&r->symbols, &r->symbol_cap, r->symbol_count, sizeof *r->symbols);
	trim(&r->bytes, &r->cap, r->len, 1);
	trim(&r->files.all, &r->files.cap, r->files.count, sizeof *r->files.all);
	trim(&r->origins.all, &r->origins.cap, r->origins.count, sizeof *r->origins.all);
	trim(&r->origin_files.all, &r->origin_files.cap, r->origin_files.count, sizeof *r->origin_files.all);
	trim(&r->texts, &r->texts_cap, r->texts_len, 1);
	trim(&r->strings, &r->string_cap, r->string_count, sizeof *r->strings);
	trim(&r->cuts, &r->cut_cap, r->cut_count, sizeof *r->cuts);
	free_state(r);
	return true;
}

/* ---- reading ---- */

void record_reader_begin(struct record_reader *r, const struct records *from, const struct record_symbol *s)
{
	*r = (struct record_reader){.in = {from->bytes + s->at, from->bytes + from->len, false}};
	uint64_t name = reader_varint(&r->in), where = reader_varint(&r->in);
	if (!(name & 1)) {
		r->name = (struct record_name){.place = where, .len = (uint32_t)(name >> 1)};
	} else if (where & 1) {
		r->name.file = (uint32_t)(where >> 1);
	} else {
		const struct record_string *string = &from->strings[(where >> 1) - 1];
		r->name = (struct record_name){string->place, string->len, (uint32_t)(where >> 1), 0};
	}
}

bool record_reader_part(struct record_reader *r, const struct record_symbol *s, struct flat *f)
{
	uint64_t start = reader_varint(&r->in);
	uint32_t line = 0, file = 0, parent, origin;
	struct flat_segment last = {start, 0, 0, 0};
	f->addr = s->addr - start;
	f->size = reader_varint(&r->in);
	f->is_public = !f->size;
	f->node_count = f->segment_count = 0;
	for (uint32_t i = 1, count = (uint32_t)reader_varint(&r->in); i <= count; i++) {
		parent = i - (uint32_t)reader_varint(&r->in);
		origin = (uint32_t)reader_varint(&r->in);
		file += (uint32_t)unzigzag(reader_varint(&r->in));
		line += (uint32_t)unzigzag(reader_varint(&r->in));
		if (!flat_add_node(f, parent, origin, file, line))
			return false;
	}
	for (uint64_t left = reader_varint(&r->in); left; left--) {
		uint64_t head = reader_varint(&r->in);
		last.start += head >> 2;
		last.line += (uint32_t)unzigzag(reader_varint(&r->in));
		if (head & NODE_CHANGES)
			last.node += (uint32_t)unzigzag(reader_varint(&r->in));
		if (head & SEGMENT_FILE)
			last.file += (uint32_t)unzigzag(reader_varint(&r->in));
		if (!flat_add_segment(f, last.start, last.node, last.line, last.file))
			return false;
	}
	return true;
}

enum record_kind record_reader_next(struct record_reader *r)
{
	uint64_t head = reader_varint(&r->in), payload = head >> KIND_BITS;
	if (head & LINE) {
		if (payload == SIZE_MOST)
			payload += reader_varint(&r->in);
		r->start = r->end;
		if (head & GAP)
			r->start += (uint64_t)unzigzag(reader_varint(&r->in));
		r->end = r->start + payload;
		r->line += (uint32_t)unzigzag(reader_varint(&r->in));
		if (head & FILE_CHANGES)
			r->file = reader_varint(&r->in);
		return RECORD_LINE;
	}
	if (!head)
		return RECORD_NONE;
	r->ranges = payload;
	r->call.has_call_file = (head & (CALL | CALL_NO_FILE)) == CALL;
	r->call.depth = (uint32_t)reader_varint(&r->in);
	r->call.call_line += (uint32_t)unzigzag(reader_varint(&r->in));
	r->call.call_file = r->call.has_call_file ? (uint32_t)reader_varint(&r->in) : 0;
	r->call.origin = (uint32_t)reader_varint(&r->in);
	return RECORD_CALL;
}

void record_reader_range(struct record_reader *r)
{
	r->range_start += (uint64_t)unzigzag(reader_varint(&r->in));
	r->range_end = r->range_start + reader_varint(&r->in);
	r->ranges--;
}
