/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "plain_sym.h"

#include <inttypes.h>
#include <stdlib.h>

typedef unsigned __int128 position; /* addresses and the end behind the last one */
#define TOP ((position)1 << 64)

struct definition {
	uint64_t id;
	struct str name;
	uint64_t file; /* of an origin, in the form of 2021 */
	bool has_file;
};

struct plain_func {
	uint64_t start, end_less_1; /* of one that covers nothing the second means nothing */
	bool empty, has_lines;
	struct str name;
};

struct plain_public {
	uint64_t addr;
	struct str name;
};

/* Cut to its function. */
struct plain_line {
	size_t func;
	position start, end;
	uint64_t line, file;
};

/* One range of an INLINE record. */
struct plain_range {
	size_t func, record; /* in the order of the file */
	position start, end;
	uint64_t depth, line, file, origin;
	bool has_file;
};

enum { NO_FUNC = -1 };

struct plain_sym {
	bool corrupt;
	uint64_t damaged;
	struct str code_file;
	struct definition *files, *origins;
	struct plain_func *funcs;
	struct plain_public *publics;
	struct plain_line *lines;
	struct plain_range *ranges;
	size_t file_count, origin_count, func_count, public_count, line_count, range_count, records;
	int64_t block; /* the function that records belong to */
};

/* ---- fields ---- */

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static void drop(struct str *s, size_t n)
{
	s->data += n;
	s->len -= n;
}

static void drop_blanks(struct str *s)
{
	while (s->len && blank(s->data[0]))
		drop(s, 1);
}

/* Leaves the blanks behind it out of the rest. */
static struct str next_field(struct str *rest)
{
	drop_blanks(rest);
	struct str field = {rest->data, 0};
	while (field.len < rest->len && !blank(rest->data[field.len]))
		field.len++;
	drop(rest, field.len);
	drop_blanks(rest);
	return field;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static bool number(struct str field, int base, uint64_t limit, uint64_t *value)
{
	position v = 0;
	for (size_t i = 0; i < field.len; i++) {
		int d = digit_value(field.data[i]);
		if (d >= base)
			return false;
		v = v * (unsigned)base + (unsigned)d;
		if (v > limit)
			return false;
	}
	*value = (uint64_t)v;
	return field.len > 0;
}

static bool hex(struct str *rest, uint64_t *value)
{
	return number(next_field(rest), 16, UINT64_MAX, value);
}

static bool decimal(struct str *rest, uint64_t limit, uint64_t *value)
{
	return number(next_field(rest), 10, limit, value);
}

static bool is(struct str field, const char *word)
{
	return str_equal(field, str_from(word));
}

/* ---- records; false: damaged ---- */

static bool covers(const struct plain_func *f, position at)
{
	return !f->empty && f->start <= at && at <= f->end_less_1;
}

static position func_end(const struct plain_func *f)
{
	return f->empty ? f->start : (position)f->end_less_1 + 1;
}

/* The part of a range that lies in a function; false: none. One without size has a place, too. */
static bool clip(const struct plain_func *f, uint64_t start, uint64_t size, position *from, position *to)
{
	*from = start;
	*to = *from + size < TOP ? *from + size : TOP;
	if (!size)
		return covers(f, start);
	if (*from < f->start)
		*from = f->start;
	if (*to > func_end(f))
		*to = func_end(f);
	return *from < *to;
}

static bool read_file(struct plain_sym *s, struct str rest)
{
	struct definition d;
	bool good = decimal(&rest, UINT64_MAX, &d.id) && rest.len;
	d.name = rest;
	if (good)
		s->files[s->file_count++] = d;
	return good;
}

static bool read_origin(struct plain_sym *s, struct str rest)
{
	struct definition d = {.has_file = false};
	if (!decimal(&rest, UINT64_MAX, &d.id))
		return false;
	d.name = rest;
	struct str first = next_field(&rest);
	bool digits = first.len > 0;
	for (size_t i = 0; i < first.len; i++) /* however many: it is dropped, not read */
		digits = digits && digit_value(first.data[i]) < 10;
	bool known = digits && rest.len;
	digits = digits || is(first, "-1");
	if (digits && rest.len)
		d.name = rest;
	d.has_file = known && decimal(&first, UINT32_MAX, &d.file);
	if (!d.name.len)
		d.name = str_from("<unknown>");
	s->origins[s->origin_count++] = d;
	return true;
}

static void skip_multiple(struct str *rest)
{
	struct str behind = *rest;
	if (is(next_field(&behind), "m"))
		*rest = behind;
}

static bool read_func(struct plain_sym *s, struct str rest)
{
	uint64_t start, size, parameters;
	skip_multiple(&rest);
	if (!hex(&rest, &start) || !hex(&rest, &size) || !hex(&rest, &parameters))
		return false;
	struct plain_func f = {.start = start, .empty = !size, .name = rest.len ? rest : str_from("<unknown>")};
	if (size)
		f.end_less_1 = size - 1 > UINT64_MAX - start ? UINT64_MAX : start + (size - 1);
	s->block = (int64_t)s->func_count;
	s->funcs[s->func_count++] = f;
	return true;
}

static bool read_public(struct plain_sym *s, struct str rest)
{
	uint64_t addr, parameters;
	skip_multiple(&rest);
	if (!hex(&rest, &addr) || !hex(&rest, &parameters))
		return false;
	s->publics[s->public_count++] = (struct plain_public){addr, rest.len ? rest : str_from("<unknown>")};
	return true;
}

static bool read_line_record(struct plain_sym *s, struct str rest)
{
	uint64_t addr = 0, size = 0;
	struct plain_line l;
	if (!hex(&rest, &addr) || !hex(&rest, &size))
		return false;
	if (!decimal(&rest, UINT32_MAX, &l.line))
		l.line = 0; /* not known */
	if (!decimal(&rest, UINT64_MAX, &l.file) || s->block == NO_FUNC)
		return false;
	l.func = (size_t)s->block;
	s->funcs[l.func].has_lines = true;
	if (clip(&s->funcs[l.func], addr, size, &l.start, &l.end))
		s->lines[s->line_count++] = l;
	return true;
}

static size_t count_fields(struct str rest)
{
	size_t n = 0;
	while (next_field(&rest).len)
		n++;
	return n;
}

static bool read_inline(struct plain_sym *s, struct str rest)
{
	size_t count = count_fields(rest);
	struct plain_range r = {.has_file = count % 2 == 0, .record = s->records};
	if (count < (r.has_file ? 6 : 5) || !decimal(&rest, UINT32_MAX, &r.depth) ||
	        !decimal(&rest, UINT32_MAX, &r.line) || (r.has_file && !decimal(&rest, UINT32_MAX, &r.file)) ||
	        !decimal(&rest, UINT32_MAX, &r.origin))
		return false;
	struct str pairs = rest;
	for (uint64_t value; pairs.len;)
		if (!hex(&pairs, &value))
			return false;
	if (s->block == NO_FUNC)
		return false;
	r.func = (size_t)s->block;
	s->records++;
	for (uint64_t addr = 0, size = 0; rest.len;) {
		hex(&rest, &addr);
		hex(&rest, &size);
		if (size && clip(&s->funcs[r.func], addr, size, &r.start, &r.end))
			s->ranges[s->range_count++] = r;
	}
	return true;
}

static bool read_info(struct plain_sym *s, struct str rest)
{
	if (is(next_field(&rest), "CODE_ID") && next_field(&rest).len && rest.len)
		s->code_file = rest;
	return true;
}

static bool read_record(struct plain_sym *s, struct str line)
{
	struct str rest = line, keyword = next_field(&rest);
	if (is(keyword, "FUNC") || is(keyword, "PUBLIC"))
		s->block = NO_FUNC;
	if (is(keyword, "FUNC"))
		return read_func(s, rest);
	if (is(keyword, "PUBLIC"))
		return read_public(s, rest);
	if (is(keyword, "FILE"))
		return read_file(s, rest);
	if (is(keyword, "INLINE_ORIGIN"))
		return read_origin(s, rest);
	if (is(keyword, "INLINE"))
		return read_inline(s, rest);
	if (is(keyword, "INFO"))
		return read_info(s, rest);
	return is(keyword, "STACK") || (!is(keyword, "MODULE") && read_line_record(s, line));
}

static bool read_module(struct str line)
{
	if (line.len > 3 && memcmp(line.data, "\xef\xbb\xbf", 3) == 0)
		drop(&line, 3);
	struct str rest = line;
	if (!line.len || blank(line.data[0]) || !is(next_field(&rest), "MODULE") || !next_field(&rest).len ||
	        !next_field(&rest).len)
		return false;
	struct str id = next_field(&rest);
	for (size_t i = 0; i < id.len; i++)
		if (digit_value(id.data[i]) > 15)
			return false;
	return id.len && rest.len;
}

/* What a line holds, and whether there was one. */
static bool next_line(struct str *text, struct str *line)
{
	if (!text->len)
		return false;
	*line = (struct str){text->data, 0};
	while (line->len < text->len && text->data[line->len] != '\n')
		line->len++;
	drop(text, line->len < text->len ? line->len + 1 : line->len);
	for (size_t i = 0; i < line->len; i++)
		if (!line->data[i])
			line->len = i;
	while (line->len && line->data[line->len - 1] == '\r')
		line->len--;
	return true;
}

static void *list(size_t count, size_t size)
{
	void *items = calloc(count, size);
	if (!items)
		abort();
	return items;
}

struct plain_sym *plain_sym_new(struct str text)
{
	struct plain_sym *s = list(1, sizeof *s);
	/* no record takes fewer than four bytes, with what parts it from the next */
	size_t most = text.len / 4 + 1;
	struct str line;
	s->files = list(most, sizeof *s->files);
	s->origins = list(most, sizeof *s->origins);
	s->funcs = list(most, sizeof *s->funcs);
	s->publics = list(most, sizeof *s->publics);
	s->lines = list(most, sizeof *s->lines);
	s->ranges = list(most, sizeof *s->ranges);
	s->block = NO_FUNC;
	s->corrupt = !next_line(&text, &line) || !read_module(line);
	while (!s->corrupt && next_line(&text, &line)) {
		drop_blanks(&line);
		if (line.len && !read_record(s, line))
			s->damaged++;
	}
	s->corrupt = s->corrupt || (!s->func_count && !s->public_count);
	return s;
}

void plain_sym_free(struct plain_sym *s)
{
	free(s->files);
	free(s->origins);
	free(s->funcs);
	free(s->publics);
	free(s->lines);
	free(s->ranges);
	free(s);
}

bool plain_sym_corrupt(const struct plain_sym *s)
{
	return s->corrupt;
}

uint64_t plain_sym_damaged(const struct plain_sym *s)
{
	return s->damaged;
}

struct str plain_sym_code_file(const struct plain_sym *s)
{
	return s->code_file;
}

/* ---- offsets ---- */

static int offset_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void around(uint64_t *all, size_t *count, position at)
{
	for (int step = -1; step <= 1; step++)
		all[(*count)++] = (uint64_t)(at + (position)step);
}

size_t plain_sym_offsets(const struct plain_sym *s, uint64_t *offsets, size_t max)
{
	size_t count = 0, kept = 0;
	uint64_t *all = list(6 * (s->func_count + s->public_count + s->line_count + s->range_count + 1), sizeof *all);
	around(all, &count, 0);
	for (size_t i = 0; i < s->func_count; i++) {
		around(all, &count, s->funcs[i].start);
		around(all, &count, func_end(&s->funcs[i]));
	}
	for (size_t i = 0; i < s->public_count; i++)
		around(all, &count, s->publics[i].addr);
	for (size_t i = 0; i < s->line_count; i++) {
		around(all, &count, s->lines[i].start);
		around(all, &count, s->lines[i].end);
	}
	for (size_t i = 0; i < s->range_count; i++) {
		around(all, &count, s->ranges[i].start);
		around(all, &count, s->ranges[i].end);
	}
	qsort(all, count, sizeof *all, offset_order);
	size_t step = count / max + 1;
	for (size_t i = 0; i < count; i += step)
		if (!kept || offsets[kept - 1] != all[i])
			offsets[kept++] = all[i];
	free(all);
	return kept;
}

/* ---- text ---- */

static void put(struct buffer *out, const void *data, size_t n)
{
	if (!buffer_append(out, data, n))
		abort();
}

static void must(bool good)
{
	if (!good)
		abort();
}

/* How many bytes at p are one character of UTF-8 (RFC 3629, table of section 4); 0: none. */
static size_t character(const uint8_t *p, size_t n)
{
	size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
	if (len > n || (p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	bool wrong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	             (p[0] == 0xf4 && p[1] > 0x8f);
	return wrong ? 0 : len;
}

/* As the inside of a JSON string. */
static void put_name(struct buffer *out, struct str name)
{
	static const char letters[] = "btnvfr"; /* from 8 on; there is no \v */
	const uint8_t *p = (const uint8_t *)name.data;
	for (size_t i = 0, len; i < name.len; i += len ? len : 1) {
		len = character(p + i, name.len - i);
		if (!len) {
			put(out, "\xef\xbf\xbd", 3);
		} else if (p[i] == '"' || p[i] == '\\') {
			put(out, "\\", 1);
			put(out, p + i, 1);
		} else if (p[i] >= 8 && p[i] <= 13 && p[i] != 11) {
			put(out, "\\", 1);
			put(out, &letters[p[i] - 8], 1);
		} else if (p[i] < 0x20) {
			must(buffer_printf(out, "\\u%04x", p[i]));
		} else {
			put(out, p + i, len);
		}
	}
}

/* ---- lookup ---- */

/* The greatest start, then with lines, then the first. */
static bool better(const struct plain_func *f, const struct plain_func *than)
{
	if (!than || f->start != than->start)
		return !than || f->start > than->start;
	return f->has_lines && !than->has_lines;
}

static const struct plain_func *find_func(const struct plain_sym *s, uint64_t offset, bool nearest)
{
	const struct plain_func *best = NULL;
	for (size_t i = 0; i < s->func_count; i++) {
		const struct plain_func *f = &s->funcs[i];
		if ((nearest ? f->start <= offset : covers(f, offset)) && better(f, best))
			best = f;
	}
	for (size_t i = 0; nearest && best && i < s->public_count; i++)
		if (best->start < s->publics[i].addr && s->publics[i].addr <= offset)
			return NULL;
	return best;
}

/* FUNCs without size are ignored, but for the nearest symbol. */
static bool counts(const struct plain_func *f, bool nearest)
{
	return nearest || !f->empty;
}

static const struct plain_public *find_public(const struct plain_sym *s, uint64_t offset, bool nearest)
{
	const struct plain_public *best = NULL;
	for (size_t i = 0; i < s->public_count; i++)
		if (s->publics[i].addr <= offset && (!best || s->publics[i].addr > best->addr))
			best = &s->publics[i];
	for (size_t i = 0; best && i < s->func_count; i++)
		if (counts(&s->funcs[i], nearest) && best->addr <= s->funcs[i].start && s->funcs[i].start <= offset)
			return NULL;
	return best;
}

static const struct definition *find_definition(const struct definition *list_, size_t count, uint64_t id)
{
	while (count--)
		if (list_[count].id == id)
			return &list_[count];
	return NULL;
}

static const struct str *find_name(const struct definition *list_, size_t count, uint64_t id)
{
	const struct definition *d = find_definition(list_, count, id);
	return d ? &d->name : NULL;
}

static void put_place(const struct plain_sym *s, bool known, uint64_t file, uint64_t line, struct buffer *out)
{
	const struct str *name = known ? find_name(s->files, s->file_count, file) : NULL;
	if (name)
		put_name(out, *name);
	put(out, "\n", 1);
	must(buffer_printf(out, "%" PRIu64 "\n", name ? line : 0));
}

static const struct plain_line *find_line(const struct plain_sym *s, size_t func, uint64_t offset)
{
	const struct plain_line *best = NULL;
	bool best_covers = false;
	for (size_t i = 0; i < s->line_count; i++) {
		const struct plain_line *l = &s->lines[i];
		bool here = l->end > offset;
		if (l->func != func || l->start > offset || (best_covers && !here))
			continue;
		if (best && best_covers == here && l->start <= best->start)
			continue;
		best = l;
		best_covers = here;
	}
	return best;
}

static const struct plain_range *find_range(const struct plain_sym *s, size_t func, uint64_t depth, uint64_t offset)
{
	for (size_t i = 0; i < s->range_count; i++) {
		const struct plain_range *r = &s->ranges[i];
		if (r->func == func && r->depth == depth && r->start <= offset && offset < r->end)
			return r;
	}
	return NULL;
}

/* The file of the call at a depth: in the form of 2021 that of the function that it is in, or where that is called. */
static bool find_call_file(const struct plain_sym *s, size_t func, uint64_t depth, uint64_t offset, uint64_t *file)
{
	const struct plain_range *call = find_range(s, func, depth, offset);
	const struct plain_line *first = NULL;
	if (call->has_file) {
		*file = call->file;
		return true;
	}
	if (depth) {
		const struct definition *d =
		        find_definition(s->origins, s->origin_count, find_range(s, func, depth - 1, offset)->origin);
		if (!d || !d->has_file)
			return find_call_file(s, func, depth - 1, offset, file);
		*file = d->file;
		return true;
	}
	for (size_t i = 0; i < s->line_count; i++)
		if (s->lines[i].func == func && (!first || s->lines[i].start < first->start))
			first = &s->lines[i];
	*file = first ? first->file : 0;
	return first;
}

/* Where frame `depth` of a function is: the call of the next one in, or the line. */
static void put_site(const struct plain_sym *s, size_t func, uint64_t depth, uint64_t offset, struct buffer *out)
{
	const struct plain_range *call = find_range(s, func, depth, offset);
	const struct plain_line *line = call ? NULL : find_line(s, func, offset);
	uint64_t file = 0;
	bool known = call && find_call_file(s, func, depth, offset, &file);
	if (call)
		put_place(s, known, file, call->line, out);
	else
		put_place(s, line, line ? line->file : 0, line ? line->line : 0, out);
}

static void describe_func(const struct plain_sym *s, const struct plain_func *f, uint64_t offset, struct buffer *out)
{
	size_t func = (size_t)(f - s->funcs);
	uint64_t depth = 0;
	bool inside = covers(f, offset);
	while (inside && find_range(s, func, depth, offset))
		depth++;
	for (; inside && depth; depth--) {
		const struct plain_range *r = find_range(s, func, depth - 1, offset);
		const struct str *name = find_name(s->origins, s->origin_count, r->origin);
		put_name(out, name ? *name : str_from("<unknown>"));
		put(out, "\n", 1);
		put_site(s, func, depth, offset, out);
	}
	put_name(out, f->name);
	put(out, "\n", 1);
	if (inside)
		put_site(s, func, 0, offset, out);
	else
		put_place(s, false, 0, 0, out);
	must(buffer_printf(out, "+%" PRIx64, offset - f->start));
	must(buffer_printf(out, "/%" PRIx64 "\n", (uint64_t)(func_end(f) - f->start)));
}

static void describe_public(
        const struct plain_sym *s, const struct plain_public *p, uint64_t offset, bool nearest, struct buffer *out)
{
	position next = TOP;
	for (size_t i = 0; i < s->func_count; i++)
		if (counts(&s->funcs[i], nearest) && s->funcs[i].start > p->addr && s->funcs[i].start < next)
			next = s->funcs[i].start;
	for (size_t i = 0; i < s->public_count; i++)
		if (s->publics[i].addr > p->addr && s->publics[i].addr < next)
			next = s->publics[i].addr;
	put_name(out, p->name);
	put(out, "\n", 1);
	put_place(s, false, 0, 0, out);
	must(buffer_printf(out, "+%" PRIx64, offset - p->addr));
	if (next < TOP)
		must(buffer_printf(out, "/%" PRIx64 "\n", (uint64_t)next - p->addr));
	else
		put(out, "/?\n", 3);
}

void plain_sym_describe(const struct plain_sym *s, uint64_t offset, bool nearest, struct buffer *out)
{
	const struct plain_func *f = find_func(s, offset, nearest);
	const struct plain_public *p = f ? NULL : find_public(s, offset, nearest);
	if (f)
		describe_func(s, f, offset, out);
	else if (p)
		describe_public(s, p, offset, nearest, out);
	else
		put(out, "-\n", 2);
}
