/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in the form that writers use are read many at a time (text_scan.c), all other lines one by one (line.c).
 * Lines are read in place within the chunk; only a line that the chunk's end cuts is copied.
 */
#include <config.h>

#include "sym/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "sym/line.h"
#include "sym/text_scan.h"

enum { LINES_AT_ONCE = 64, USUAL_RANGES = 64 };

struct symreader_state {
	struct text_hash *hash;
	const struct symtext_scan *scan;
	char *id;
	size_t id_len;
	uint8_t *carry; /* the start of a line whose end has not arrived */
	uint32_t carry_len, carry_cap;
	uint64_t carry_place;
	uint64_t *ranges;
	uint32_t ranges_cap; /* counted in numbers, two per range */
	bool skipping;       /* the rest of a line that is too long is being skipped */
	bool seen_module;
	bool in_func;                  /* the next records belong to the symbol added last */
	uint64_t func_place, func_end; /* its text so far: bytes from the start of all */
	uint64_t mark_at;              /* the first of its records at or after this place is marked */
};

struct symreader *symreader_new(struct str id, uint32_t page_text)
{
	struct symreader *x = calloc(1, sizeof *x);
	struct symreader_state *s = x ? x->state = calloc(1, sizeof *s) : NULL;
	if (s) {
		x->records = records_new(page_text);
		s->hash = text_hash_new();
		s->id = malloc(id.len + 1);
		s->scan = symtext_scan_best();
	}
	if (!s || !x->records || !s->hash || !s->id ||
	        !array_reserve(&s->ranges, &s->ranges_cap, (size_t)2 * USUAL_RANGES, sizeof *s->ranges)) {
		symreader_free(x);
		return NULL;
	}
	memcpy(s->id, id.data, id.len);
	s->id_len = id.len;
	return x;
}

struct symreader *symreader_of(struct records *records)
{
	struct symreader *x = calloc(1, sizeof *x);
	if (x)
		x->records = records;
	else
		records_free(records);
	return x;
}

static void free_state(struct symreader_state *s)
{
	if (!s)
		return;
	text_hash_free(s->hash);
	free(s->id);
	free(s->carry);
	free(s->ranges);
	free(s);
}

void symreader_free(struct symreader *x)
{
	if (!x)
		return;
	free_state(x->state);
	records_free(x->records);
	free(x->code_file);
	free(x);
}

uint64_t symreader_bytes(const struct symreader *x)
{
	const struct symreader_state *s = x->state;
	return sizeof *x + (s ? sizeof *s + s->carry_cap + s->ranges_cap * (uint64_t)sizeof *s->ranges : 0) +
	       x->code_file_len + records_bytes(x->records);
}

static void set_code_id(struct symreader *x, struct str id)
{
	snprintf(x->code_id, sizeof x->code_id, "%.*s", id.len < sizeof x->code_id ? (int)id.len : 0, id.data);
}

/* Of an ELF file the line has no name. False if out of memory. */
static bool set_code_file(struct symreader *x, struct str id, struct str name)
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

static enum err no_module(const uint8_t *at, const uint8_t *end, struct error *e)
{
	return error_set(e, ERR_CORRUPT, "no MODULE line at the start%s", line_foreign(at, end));
}

static enum err read_module(struct symreader *x, struct line l, struct error *e)
{
	struct symreader_state *s = x->state;
	struct str id;
	if (!line_read_module(l, &id))
		return no_module(l.at, l.end, e);
	if (s->id_len && !line_is_module_id(id, (struct str){s->id, s->id_len}))
		return error_set(e, ERR_CORRUPT, "MODULE line has another debug id");
	s->seen_module = true;
	return ERR_OK;
}

/* ---- symbols; each returns false without memory ---- */

/* The text up to here belongs to the symbol added last. */
static inline void extend_func(struct symreader_state *s, uint64_t end)
{
	if (s->in_func)
		s->func_end = end;
}

static bool end_func(struct symreader *x)
{
	struct symreader_state *s = x->state;
	if (!s->in_func)
		return true;
	s->in_func = false;
	if (s->func_end > x->text_bytes) /* the last line had no line feed */
		s->func_end = x->text_bytes;
	return records_end(x->records, s->func_end - s->func_place);
}

/* Lines that lie in the text from `place` to `next`. */
struct placed_line {
	const uint8_t *at, *stop; /* of its line feed */
	uint64_t place, next;     /* of the next line */
};

/* A FUNC or PUBLIC line, damaged or not, ends the records before it. */
static bool read_symbol(struct symreader *x, const struct placed_line *p, struct line l, bool is_public)
{
	struct symreader_state *s = x->state;
	uint64_t addr, size;
	struct str name;
	if (!end_func(x))
		return false;
	if (!line_read_symbol(l, is_public, &addr, &size, &name)) {
		x->damaged++;
		return true;
	}
	s->in_func = true;
	s->func_place = s->mark_at = p->place;
	s->func_end = p->next;
	return records_begin(x->records, is_public, addr, size, name) && (!is_public || end_func(x));
}

/* ---- records ---- */

/* Whether the record that starts at this place is marked. */
static inline bool is_marked(const struct symreader_state *s, uint64_t place)
{
	return place >= s->mark_at;
}

/* A marked record ends here: the next one begins behind a line feed that is a stride away. */
static void pass_mark(struct symreader *x, uint64_t end)
{
	struct symreader_state *s = x->state;
	uint64_t page = x->records->page_text;
	s->mark_at =
	        end - s->func_place > RECORDS_EXACT_PAGES * page ? UINT64_MAX : end + page / RECORDS_STRIDE_PART + 1;
}

static bool add_call(struct symreader *x, const struct inline_fields *f, uint32_t numbers, uint64_t place, uint64_t end)
{
	struct symreader_state *s = x->state;
	const struct record_call call = {f->depth, f->call_line, f->call_file, f->origin, f->has_call_file};
	bool mark = is_marked(s, place);
	if (mark)
		pass_mark(x, end);
	return records_call(x->records, &call, s->ranges, numbers / 2, mark);
}

static inline bool is_too_long(const uint8_t *line, const uint8_t *next)
{
	return next - line > BREAKPAD_LINE_MAX + 1;
}

/* A step from *at on, which is at `place`: leaves it there if no record in the usual form begins there. */
static bool read_usual_call(struct symreader *x, const uint8_t **at, const uint8_t *end, uint64_t place)
{
	struct symreader_state *s = x->state;
	uint32_t numbers[4], count = s->ranges_cap;
	const uint8_t *line = *at, *next = s->scan->inlined(line + 7, end, numbers, s->ranges, &count);
	if (!next || is_too_long(line, next))
		return true;
	const struct inline_fields f = {numbers[0], numbers[1], numbers[2], numbers[3], true};
	*at = next;
	return add_call(x, &f, count, place, place + (uint64_t)(next - line));
}

static bool read_usual_lines(struct symreader *x, const uint8_t **at, const uint8_t *end, uint64_t place)
{
	struct symreader_state *s = x->state;
	struct record_line lines[LINES_AT_ONCE];
	const uint8_t *line = *at;
	bool mark = is_marked(s, place);
	uint64_t left = s->mark_at - place; /* up to the next that is marked */
	const uint8_t *until = mark || left > (uint64_t)(end - line) ? end : line + left;
	uint32_t n = s->scan->lines(at, until, end, lines, mark ? 1 : LINES_AT_ONCE);
	if (!n && !(n = symtext_scan_by(0)->lines(at, until, end, lines, 1)))
		return true;
	if (n == 1 && is_too_long(line, *at)) {
		*at = line;
		return true;
	}
	if (mark)
		pass_mark(x, place + (uint64_t)(*at - line));
	return records_lines(x->records, lines, n, mark);
}

/* Reads records in the usual form from *at on, which is at `place`; leaves *at at a line that may be something else. */
static bool read_usual(struct symreader *x, const uint8_t **at, const uint8_t *end, uint64_t place)
{
	const uint8_t *start = *at, *line;
	bool good = true;
	do {
		line = *at;
		bool call = *line == 'I' && end - line > 7 && memcmp(line, "INLINE ", 7) == 0;
		good = (call ? read_usual_call : read_usual_lines)(x, at, end, place + (uint64_t)(line - start));
	} while (good && *at > line && *at < end);
	if (*at > start)
		extend_func(x->state, place + (uint64_t)(*at - start));
	return good;
}

static bool read_ranges(struct symreader_state *s, struct line *l, uint32_t *count)
{
	uint64_t addr, size;
	for (*count = 0; line_take_range(l, &addr, &size); *count += 2) {
		if (!array_reserve(&s->ranges, &s->ranges_cap, *count + (size_t)2, sizeof *s->ranges))
			return false;
		s->ranges[*count] = addr;
		s->ranges[*count + 1] = size;
	}
	return true;
}

/* A record in any form, or a damaged line. */
static bool read_record(struct symreader *x, const struct placed_line *p, struct line l, bool is_inline)
{
	struct symreader_state *s = x->state;
	struct inline_fields f;
	uint64_t addr, size, file;
	uint32_t line, count;
	extend_func(s, p->next);
	if (s->in_func && is_inline && line_read_inline(&l, &f))
		return read_ranges(s, &l, &count) && add_call(x, &f, count, p->place, p->next);
	if (s->in_func && !is_inline && line_read_record(l, &addr, &size, &line, &file)) {
		const struct record_line one = {addr, size, line, file};
		bool mark = is_marked(s, p->place);
		if (mark)
			pass_mark(x, p->next);
		return records_lines(x->records, &one, 1, mark);
	}
	x->damaged++;
	return true;
}

/* ---- lines ---- */

static bool read_definition(struct symreader *x, struct line l, bool is_origin)
{
	struct definition_fields d;
	if (line_read_definition(l, is_origin, &d))
		return records_define(x->records, is_origin, d.id, d.name) &&
		       (!is_origin || records_define_origin_file(x->records, d.id, d.has_file ? &d.file : NULL));
	x->damaged++;
	return true;
}

/* False if out of memory. */
static bool read_line(struct symreader *x, const struct placed_line *p)
{
	struct line l = line_content(p->at, p->stop);
	struct str id, name;
	enum line_kind kind = line_take_kind(&l);
	switch (kind) {
	case LINE_FUNC:
	case LINE_PUBLIC:
		return read_symbol(x, p, l, kind == LINE_PUBLIC);
	case LINE_ORIGIN:
	case LINE_FILE:
		return read_definition(x, l, kind == LINE_ORIGIN);
	case LINE_INFO:
		return !line_read_code_file(l, &id, &name) || set_code_file(x, id, name);
	case LINE_INLINE:
	case LINE_OTHER:
		return read_record(x, p, l, kind == LINE_INLINE);
	case LINE_BLANK:
	case LINE_STACK:
		break;
	}
	return true;
}

/* The line that starts with these BREAKPAD_LINE_MAX bytes is too long, so it is damaged. */
static bool read_long_line(struct symreader *x, const uint8_t *start)
{
	struct line l = {start, start + BREAKPAD_LINE_MAX};
	enum line_kind kind = line_take_kind(&l);
	x->damaged++;
	return (kind != LINE_FUNC && kind != LINE_PUBLIC) || end_func(x);
}

/* Whether the line is a STACK record with one blank, which means nothing here. Other forms are left to read_line. */
static inline bool is_stack_record(const uint8_t *at)
{
	return at[0] == 'S' && at[1] == 'T' && at[2] == 'A' && at[3] == 'C' && at[4] == 'K' && at[5] == ' ';
}

/* Reads whole lines: the last byte before end is a line feed; the first byte is at `place` in the text. */
static enum err read_lines(struct symreader *x, const uint8_t *at, const uint8_t *end, uint64_t place, struct error *e)
{
	struct symreader_state *s = x->state;
	const uint8_t *start = at;
	if (!s->seen_module) {
		const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
		enum err err = stop - at > BREAKPAD_LINE_MAX ? no_module(at, stop, e)
		                                             : read_module(x, line_content(at, stop), e);
		if (err)
			return err;
		at = stop + 1;
	}
	while (at < end) {
		if (*at == '\n') { /* a hostile file may have nothing else */
			at++;
			continue;
		}
		bool good = !s->in_func || *at == 'S' || read_usual(x, &at, end, place + (uint64_t)(at - start));
		if (!good)
			return no_memory(e);
		if (at == end)
			break;
		struct placed_line p = {at, memchr(at, '\n', (size_t)(end - at)), place + (uint64_t)(at - start), 0};
		p.next = p.place + (uint64_t)(p.stop + 1 - at);
		at = p.stop + 1;
		if (p.stop - p.at > BREAKPAD_LINE_MAX) {
			good = read_long_line(x, p.at);
			extend_func(s, p.next);
		} else {
			good = is_stack_record(p.at) || read_line(x, &p);
		}
		if (!good)
			return no_memory(e);
	}
	return ERR_OK;
}

/* ---- chunks ---- */

/* Keeps bytes of a line that has not ended; of a long line only enough to tell its kind. */
static enum err keep_line(struct symreader *x, const uint8_t *data, size_t len, uint64_t place, struct error *e)
{
	struct symreader_state *s = x->state;
	if (!len || s->skipping)
		return ERR_OK;
	if (!s->carry_len)
		s->carry_place = place;
	bool too_long = s->carry_len + len > BREAKPAD_LINE_MAX;
	if (too_long && !s->seen_module)
		return s->carry_len ? no_module(s->carry, s->carry + s->carry_len, e) : no_module(data, data + len, e);
	if (too_long)
		len = BREAKPAD_LINE_MAX - s->carry_len; /* its keyword may be cut between the two chunks */
	if (!array_reserve(&s->carry, &s->carry_cap, s->carry_len + len + 1, sizeof *s->carry))
		return no_memory(e);
	memcpy(s->carry + s->carry_len, data, len);
	s->carry_len += (uint32_t)len;
	if (!too_long)
		return ERR_OK;
	s->skipping = true;
	s->carry_len = 0;
	return read_long_line(x, s->carry) ? ERR_OK : no_memory(e);
}

/* Reads the line whose start was kept and which ends with these bytes; its line feed, or the end of the text, is at
 * `stop`. */
static enum err end_kept(
        struct symreader *x, const uint8_t *data, size_t len, uint64_t place, uint64_t next, struct error *e)
{
	struct symreader_state *s = x->state;
	enum err err = keep_line(x, data, len, place, e);
	if (!err && !s->skipping && s->carry_len) {
		s->carry[s->carry_len] = '\n';
		err = read_lines(x, s->carry, s->carry + s->carry_len + 1, s->carry_place, e);
	}
	if (s->skipping)
		extend_func(s, next);
	s->carry_len = 0;
	s->skipping = false;
	return err;
}

enum err symreader_feed(struct symreader *x, const uint8_t *data, size_t len, struct error *e)
{
	struct symreader_state *s = x->state;
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

enum err symreader_finish(struct symreader *x, struct error *e)
{
	struct symreader_state *s = x->state;
	enum err err = ERR_OK;
	if (s->carry_len || s->skipping)
		err = end_kept(x, NULL, 0, x->text_bytes, x->text_bytes, e);
	if (err)
		return err;
	if (!s->seen_module)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (!x->records->symbol_count)
		return error_set(e, ERR_CORRUPT, "neither FUNC nor PUBLIC in the file");
	if (!end_func(x) || !records_finish(x->records))
		return no_memory(e);
	x->generation = text_hash_value(s->hash);
	free_state(s);
	x->state = NULL;
	return ERR_OK;
}
