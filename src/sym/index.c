/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a function's records are only skipped, up to the next line that starts with a blank or a letter that begins
 * a keyword. All other lines are read here, and those that belong to no function are counted as damaged.
 *
 * Lines are read in place within the chunk; only a line that the chunk's end cuts is copied.
 */
#include <config.h>

#include "sym/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/search.h"
#include "sym/index_scan.h"
#include "sym/line.h"

struct symindex_state {
	struct text_hash *hash;
	symindex_scan *scan;
	char *id;
	size_t id_len;
	uint8_t *carry; /* the start of a line whose end has not arrived */
	uint32_t carry_len, carry_cap;
	uint64_t carry_place;
	bool skipping; /* the rest of a line that is too long is being skipped */
	bool seen_module;
	bool in_func;       /* the next records belong to the symbol added last */
	bool sorted;        /* the symbols are, so far */
	uint64_t last_addr; /* address of the symbol added last */
};

struct symindex *symindex_new(struct str id)
{
	struct symindex *x = calloc(1, sizeof *x);
	struct symindex_state *s = x ? x->state = calloc(1, sizeof *s) : NULL;
	if (s) {
		s->hash = text_hash_new();
		s->id = malloc(id.len + 1);
		s->scan = symindex_scan_best();
		s->sorted = true;
	}
	if (!s || !s->hash || !s->id) {
		symindex_free(x);
		return NULL;
	}
	memcpy(s->id, id.data, id.len);
	s->id_len = id.len;
	return x;
}

static void free_state(struct symindex_state *s)
{
	if (!s)
		return;
	text_hash_free(s->hash);
	free(s->id);
	free(s->carry);
	free(s);
}

void symindex_free(struct symindex *x)
{
	if (!x)
		return;
	free_state(x->state);
	free(x->symbols);
	free(x->files.all);
	free(x->files.dense);
	free(x->origins.all);
	free(x->origins.dense);
	free(x->texts);
	free(x->strings);
	free(x->string_first);
	free(x->code_file);
	free(x);
}

uint64_t symindex_bytes(const struct symindex *x)
{
	uint64_t definitions = (uint64_t)x->files.cap + x->origins.cap;
	uint64_t dense = (uint64_t)x->files.dense_count + x->origins.dense_count;
	return sizeof *x + (x->state ? sizeof *x->state + x->state->carry_cap : 0) +
	       x->symbol_cap * (uint64_t)sizeof *x->symbols + definitions * sizeof(struct symindex_definition) +
	       dense * sizeof(uint32_t) + x->texts_cap + x->string_cap * (uint64_t)sizeof *x->strings +
	       x->string_page_count * (uint64_t)sizeof *x->string_first + x->code_file_len;
}

/* ---- records; each returns false without memory ---- */

/* Notes a text that goes into a string page. */
static bool add_string(struct symindex *x, uint64_t place, size_t len)
{
	if (x->string_count == UINT32_MAX - 1)
		return false;
	if (!array_reserve(&x->strings, &x->string_cap, x->string_count + 1, sizeof *x->strings))
		return false;
	x->strings[x->string_count++] = (struct symindex_string){place, (uint32_t)len};
	return true;
}

static bool add_definition(
        struct symindex *x, struct symindex_definitions *d, uint64_t id, struct str name, uint64_t place)
{
	struct symindex_definition new = {.id = id, .at = x->texts_len};
	if (d->count == UINT32_MAX)
		return false;
	if (!array_reserve(&d->all, &d->cap, d->count + 1, sizeof *d->all))
		return false;
	if (name.len > OFFMAP_SHORT_STRING) {
		if (!add_string(x, place, name.len))
			return false;
		new.string = x->string_count;
		new.external = true;
	} else {
		if (name.len > UINT32_MAX - x->texts_len)
			return false;
		if (!array_reserve(&x->texts, &x->texts_cap, x->texts_len + (uint32_t)name.len, sizeof *x->texts))
			return false;
		if (name.len)
			memcpy(x->texts + x->texts_len, name.data, name.len);
		x->texts_len += (uint32_t)name.len;
		new.len = (uint8_t)name.len;
	}
	d->all[d->count++] = new;
	if (id > d->highest)
		d->highest = id;
	return true;
}

static bool add_symbol(struct symindex *x, struct symindex_symbol symbol, struct str name, uint64_t name_place)
{
	struct symindex_state *s = x->state;
	if (x->symbol_count == INT32_MAX)
		return false;
	if (!array_reserve(&x->symbols, &x->symbol_cap, x->symbol_count + 1, sizeof *x->symbols))
		return false;
	s->sorted = s->sorted && symbol.addr >= s->last_addr;
	s->last_addr = symbol.addr;
	x->symbols[x->symbol_count++] = symbol;
	return name.len <= OFFMAP_INLINE_NAME || add_string(x, name_place, name.len);
}

static void set_code_id(struct symindex *x, struct str id)
{
	snprintf(x->code_id, sizeof x->code_id, "%.*s", id.len < sizeof x->code_id ? (int)id.len : 0, id.data);
}

/* Of an ELF file the line has no name. */
static bool set_code_file(struct symindex *x, struct str id, struct str name)
{
	if (!name.len) {
		if (!x->code_file)
			set_code_id(x, id);
		return true;
	}
	char *copy = malloc(name.len);
	if (!copy)
		return false;
	memcpy(copy, name.data, name.len);
	free(x->code_file);
	x->code_file = copy;
	x->code_file_len = name.len;
	set_code_id(x, id);
	return true;
}

static enum err read_module(struct symindex *x, struct line l, struct error *e)
{
	struct symindex_state *s = x->state;
	struct str id;
	if (!line_read_module(l, &id))
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (s->id_len && !line_is_module_id(id, (struct str){s->id, s->id_len}))
		return error_set(e, ERR_CORRUPT, "MODULE line has another debug id");
	s->seen_module = true;
	return ERR_OK;
}

/* ---- lines ---- */

/* The text up to here belongs to the symbol added last. */
static void extend_records(struct symindex *x, uint64_t end)
{
	if (x->state->in_func)
		x->symbols[x->symbol_count - 1].end = end;
}

/* A line: its place in the text, and its bytes in memory. */
struct placed_line {
	const uint8_t *at, *stop; /* of its line feed */
	uint64_t place, next;     /* of the next line */
};

static uint64_t place_of(const struct placed_line *p, struct str part)
{
	return p->place + (uint64_t)((const uint8_t *)part.data - p->at);
}

/* A FUNC or PUBLIC line, damaged or not, ends the records before it. */
static bool read_symbol(struct symindex *x, const struct placed_line *p, struct line l, bool is_public)
{
	struct symindex_symbol symbol = {.place = p->place, .is_public = is_public, .end = p->next};
	struct str name;
	x->state->in_func = false;
	if (!line_read_symbol(l, is_public, &symbol.addr, &symbol.size, &name)) {
		x->damaged++;
		return true;
	}
	if (symbol.addr && symbol.size > 0 - symbol.addr)
		symbol.size = 0 - symbol.addr;
	x->state->in_func = !is_public;
	x->funcs += !is_public;
	x->publics += is_public;
	return add_symbol(x, symbol, name, place_of(p, name));
}

static bool read_definition(struct symindex *x, const struct placed_line *p, struct line l, bool is_origin)
{
	uint64_t id;
	struct str name;
	if (!line_read_definition(l, is_origin, &id, &name)) {
		x->damaged++;
		return true;
	}
	return add_definition(x, is_origin ? &x->origins : &x->files, id, name, place_of(p, name));
}

/* False if out of memory. */
static bool read_line(struct symindex *x, const struct placed_line *p)
{
	struct line l = line_content(p->at, p->stop);
	struct str id, name;
	switch (line_take_kind(&l)) {
	case LINE_FUNC:
		return read_symbol(x, p, l, false);
	case LINE_PUBLIC:
		return read_symbol(x, p, l, true);
	case LINE_ORIGIN:
		return read_definition(x, p, l, true);
	case LINE_FILE:
		return read_definition(x, p, l, false);
	case LINE_INFO:
		return !line_read_code_file(l, &id, &name) || set_code_file(x, id, name);
	case LINE_INLINE:
	case LINE_OTHER:
		x->damaged += !x->state->in_func;
		extend_records(x, p->next);
		return true;
	case LINE_BLANK:
	case LINE_STACK:
		break;
	}
	return true;
}

/* The line that starts with these BREAKPAD_LINE_MAX bytes is too long, so it is damaged. */
static void read_long_line(struct symindex *x, const uint8_t *start)
{
	struct line l = {start, start + BREAKPAD_LINE_MAX};
	enum line_kind kind = line_take_kind(&l);
	bool record = kind == LINE_INLINE || kind == LINE_OTHER;
	x->damaged += !record || !x->state->in_func;
	if (kind == LINE_FUNC || kind == LINE_PUBLIC)
		x->state->in_func = false;
}

/* Whether the line is a STACK record with one blank, which the index ignores. Other forms are left to read_line. */
static inline bool is_stack_record(const uint8_t *at)
{
	return at[0] == 'S' && at[1] == 'T' && at[2] == 'A' && at[3] == 'C' && at[4] == 'K' && at[5] == ' ';
}

/* Reads whole lines: the last byte before end is a line feed; the first byte is at `place` in the text. */
static enum err read_lines(struct symindex *x, const uint8_t *at, const uint8_t *end, uint64_t place, struct error *e)
{
	struct symindex_state *s = x->state;
	const uint8_t *start = at;
	if (!s->seen_module) {
		const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
		enum err err = stop - at > BREAKPAD_LINE_MAX ? error_set(e, ERR_CORRUPT, "no MODULE line at the start")
		                                             : read_module(x, line_content(at, stop), e);
		if (err)
			return err;
		at = stop + 1;
	}
	while (at < end) {
		if (s->in_func) {
			const uint8_t *found = s->scan(at, end);
			if (found > at)
				extend_records(x, place + (uint64_t)(found - start));
			at = found;
			if (at == end)
				break;
		}
		struct placed_line p = {at, memchr(at, '\n', (size_t)(end - at)), place + (uint64_t)(at - start), 0};
		p.next = p.place + (uint64_t)(p.stop + 1 - at);
		at = p.stop + 1;
		if (p.stop - p.at > BREAKPAD_LINE_MAX) {
			read_long_line(x, p.at);
			extend_records(x, p.next);
		} else if (!is_stack_record(p.at) && !read_line(x, &p)) {
			return no_memory(e);
		}
	}
	return ERR_OK;
}

/* ---- chunks ---- */

/* Keeps bytes of a line that has not ended; of a long line only enough to tell its kind. */
static enum err keep_line(struct symindex *x, const uint8_t *data, size_t len, uint64_t place, struct error *e)
{
	struct symindex_state *s = x->state;
	if (!len || s->skipping)
		return ERR_OK;
	if (!s->carry_len)
		s->carry_place = place;
	bool too_long = s->carry_len + len > BREAKPAD_LINE_MAX;
	if (too_long && !s->seen_module)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (too_long)
		len = BREAKPAD_LINE_MAX - s->carry_len; /* its keyword may be cut between the two chunks */
	if (!array_reserve(&s->carry, &s->carry_cap, s->carry_len + len + 1, sizeof *s->carry))
		return no_memory(e);
	memcpy(s->carry + s->carry_len, data, len);
	s->carry_len += (uint32_t)len;
	if (too_long) {
		s->skipping = true;
		read_long_line(x, s->carry);
		s->carry_len = 0;
	}
	return ERR_OK;
}

/* Reads the line whose start was kept and which ends with these bytes; its line feed, or the end of the text, is at
 * `stop`. */
static enum err end_kept(
        struct symindex *x, const uint8_t *data, size_t len, uint64_t place, uint64_t next, struct error *e)
{
	struct symindex_state *s = x->state;
	enum err err = keep_line(x, data, len, place, e);
	if (!err && !s->skipping && s->carry_len) {
		s->carry[s->carry_len] = '\n';
		err = read_lines(x, s->carry, s->carry + s->carry_len + 1, s->carry_place, e);
	}
	if (s->skipping)
		extend_records(x, next);
	s->carry_len = 0;
	s->skipping = false;
	return err;
}

enum err symindex_feed(struct symindex *x, const uint8_t *data, size_t len, struct error *e)
{
	struct symindex_state *s = x->state;
	enum err err = ERR_OK;
	if (!len)
		return ERR_OK;
	text_hash_add(s->hash, data, len);
	uint64_t place = x->text_bytes;
	const uint8_t *at = data, *end = data + len, *last = memrchr(data, '\n', len);
	x->text_bytes += len;
	if (!last)
		return keep_line(x, data, len, place, e);
	if (s->carry_len || s->skipping) {
		at = (const uint8_t *)memchr(data, '\n', len) + 1;
		err = end_kept(x, data, (size_t)(at - 1 - data), place, place + (uint64_t)(at - data), e);
	}
	if (!err && at <= last)
		err = read_lines(x, at, last + 1, place + (uint64_t)(at - data), e);
	at = last + 1;
	return err ? err : keep_line(x, at, (size_t)(end - at), place + (uint64_t)(at - data), e);
}

bool symindex_needs(const struct symindex *x, uint64_t from)
{
	const struct symindex_state *s = x->state;
	const struct symindex_symbol *symbol = x->symbol_count ? &x->symbols[x->symbol_count - 1] : NULL;
	const struct symindex_string *string = x->string_count ? &x->strings[x->string_count - 1] : NULL;
	/* A later record makes all text since its function the function's. A line that has not ended may be a symbol or
	 * a definition, but no keyword of these begins with an S. */
	return s->in_func || (s->carry_len && s->carry[0] != 'S') || (symbol && symbol->end > from) ||
	       (string && string->place + string->len > from);
}

/* ---- the end ---- */

static int symbol_order(const void *a, const void *b)
{
	const struct symindex_symbol *x = a, *y = b;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->place < y->place ? -1 : 1;
}

/* Orders by id, then by place in the file: of equal ids the last one wins. */
static int definition_order(const void *a, const void *b, void *all)
{
	const struct symindex_definition *d = all;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (d[x].id != d[y].id)
		return d[x].id < d[y].id ? -1 : 1;
	return x < y ? -1 : 1;
}

/* Leaves one definition per id in all[], ascending by id. False if out of memory. */
static bool sort_definitions(struct symindex_definitions *d)
{
	uint32_t *order = malloc(d->count * sizeof *order), n = 0;
	struct symindex_definition *sorted = malloc(d->count * sizeof *sorted);
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
static bool finish_definitions(struct symindex_definitions *d)
{
	if (!d->count)
		return true;
	if (d->highest >= 64 + 4 * (uint64_t)d->count || d->highest >= UINT32_MAX)
		return sort_definitions(d);
	d->dense = calloc(d->highest + 1, sizeof *d->dense);
	if (!d->dense)
		return false;
	d->dense_count = (uint32_t)d->highest + 1;
	for (uint32_t i = 0; i < d->count; i++)
		d->dense[d->all[i].id] = i + 1;
	return true;
}

const struct symindex_definition *symindex_find(const struct symindex_definitions *d, uint64_t id)
{
	if (d->dense)
		return id < d->dense_count && d->dense[id] ? &d->all[d->dense[id] - 1] : NULL;
	size_t n = search_up_to(d->all, d->count, sizeof *d->all, offsetof(struct symindex_definition, id), id);
	return n && d->all[n - 1].id == id ? &d->all[n - 1] : NULL;
}

/* Cuts the string pages by the lengths of strings in the file. */
static bool cut_strings(struct symindex *x)
{
	uint32_t cap = 0;
	uint64_t filled = 0;
	for (uint32_t i = 0; i < x->string_count; i++) {
		if (!i || filled + x->strings[i].len > OFFMAP_PAGE_SIZE) {
			if (!array_reserve(&x->string_first, &cap, x->string_page_count + 1, sizeof *x->string_first))
				return false;
			x->string_first[x->string_page_count++] = i + 1;
			filled = 0;
		}
		filled += x->strings[i].len + 2;
	}
	return true;
}

enum err symindex_finish(struct symindex *x, struct error *e)
{
	struct symindex_state *s = x->state;
	enum err err = ERR_OK;
	if (s->carry_len || s->skipping)
		err = end_kept(x, NULL, 0, x->text_bytes, x->text_bytes, e);
	if (err)
		return err;
	if (!s->seen_module)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (!x->funcs && !x->publics)
		return error_set(e, ERR_CORRUPT, "neither FUNC nor PUBLIC in the file");
	if (x->symbols[x->symbol_count - 1].end > x->text_bytes)
		x->symbols[x->symbol_count - 1].end = x->text_bytes; /* the last line had no line feed */
	if (!s->sorted)
		qsort(x->symbols, x->symbol_count, sizeof *x->symbols, symbol_order);
	if (!finish_definitions(&x->files) || !finish_definitions(&x->origins) || !cut_strings(x))
		return no_memory(e);
	x->generation = text_hash_value(s->hash);
	free_state(s);
	x->state = NULL;
	return ERR_OK;
}
