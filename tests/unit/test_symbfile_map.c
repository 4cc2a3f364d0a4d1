/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps of symbfiles: the answers of the reference to real programs, and a slow plain reader of the same records (a scan
 * over all of them for each address) against thousands of small random sets.
 */
#include <config.h>

#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/bit_tree.h"
#include "base/utf8.h"
#include "map/value.h"
#include "offmap_tools.h"
#include "seed.h"
#include "symbfile/map.h"

typedef unsigned __int128 position;

/* ---- a set of records, which own nothing ---- */

enum { RANGES_MAX = 1024, PADS_MAX = 256 };

struct record_set {
	struct symbfile_range ranges[RANGES_MAX];
	struct symbfile_pad pads[PADS_MAX];
	size_t range_count, pad_count;
};

static void feed_range(struct symbfile_map *m, const struct symbfile_range *r)
{
	struct symbfile_sink sink = symbfile_map_sink(m);
	struct error e;
	assert_int_equal(sink.range(sink.arg, r, &e), ERR_OK);
}

static void feed_pad(struct symbfile_map *m, const struct symbfile_pad *p)
{
	struct symbfile_sink sink = symbfile_map_sink(m);
	struct error e;
	assert_int_equal(sink.pad(sink.arg, p, &e), ERR_OK);
}

static struct symbfile_map *new_map(void)
{
	struct symbfile_map *m = symbfile_map_new(&plain_options);
	assert_non_null(m);
	return m;
}

static struct offmap *finish(struct symbfile_map *m)
{
	struct offmap *map;
	assert_int_equal(symbfile_map_all(m, &map), ERR_OK);
	symbfile_map_free(m);
	return map;
}

static struct offmap *build(const struct record_set *r)
{
	struct symbfile_map *m = new_map();
	for (size_t i = 0; i < r->range_count; i++)
		feed_range(m, &r->ranges[i]);
	for (size_t i = 0; i < r->pad_count; i++)
		feed_pad(m, &r->pads[i]);
	return finish(m);
}

/* ---- the plain reader ---- */

static position end_of(const struct symbfile_range *r)
{
	position end = (position)r->va + r->length;
	return end > (position)1 << 64 ? (position)1 << 64 : end;
}

static bool covers(const struct symbfile_range *r, uint64_t address)
{
	return r->va <= address && address < end_of(r);
}

/* Of two ranges of one depth, that come in this order, the second answers. */
static bool hides(const struct symbfile_range *first, const struct symbfile_range *second)
{
	return second->va > first->va || (second->va == first->va && end_of(second) <= end_of(first));
}

/* The covering range of the least depth above `depth` (-1: of all). */
static const struct symbfile_range *next_covering(const struct record_set *r, uint64_t address, int64_t depth)
{
	const struct symbfile_range *best = NULL;
	for (size_t i = 0; i < r->range_count; i++) {
		const struct symbfile_range *one = &r->ranges[i];
		if (!covers(one, address) || one->depth <= depth)
			continue;
		if (!best || one->depth < best->depth || (one->depth == best->depth && hides(best, one)))
			best = one;
	}
	return best;
}

static uint32_t line_of(const struct symbfile_range *r, uint64_t address)
{
	uint32_t line = 0;
	for (size_t i = 0; i < r->line_count && r->lines[i].offset <= address - r->va; i++)
		line = r->lines[i].line;
	return line;
}

static const struct symbfile_pad *find_pad(const struct record_set *r, uint64_t address)
{
	for (size_t i = r->pad_count; i--;)
		if (r->pads[i].va == address && r->pads[i].count)
			return &r->pads[i];
	return NULL;
}

/* The first range of depth 0 with this name behind `last` (NULL: of all), in the order of their starts; of an equal
 * start the longer comes first. */
static const struct symbfile_range *next_piece(
        const struct record_set *r, struct str name, const struct symbfile_range *last)
{
	const struct symbfile_range *next = NULL;
	for (size_t i = 0; i < r->range_count; i++) {
		const struct symbfile_range *one = &r->ranges[i];
		if (one->depth || !one->length || !str_equal(one->func, name) || one == last)
			continue;
		bool behind = !last || (hides(last, one) && (!hides(one, last) || one > last));
		if (behind && (!next || !hides(next, one)))
			next = one;
	}
	return next;
}

/* "+0x10/0x40": in the function of depth 0 that covers, with all its pieces, or in the outermost range. Pieces overlap,
 * or adjoin and have different files. */
static void add_extent(const struct record_set *r, uint64_t address, bool is_pad, struct buffer *out)
{
	const struct symbfile_range *own = next_covering(r, address, -1), *piece = NULL, *last = NULL;
	bool found = false;
	if (!own || (is_pad && own->depth)) {
		text_add(out, "+0x0/?");
		return;
	}
	position start = own->va, end = end_of(own);
	while (!own->depth && (piece = next_piece(r, own->func, piece))) {
		struct str none = {"", 0}, a = last && last->has_file ? last->file : none,
		           b = piece->has_file ? piece->file : none;
		bool goes_on = last && (end > piece->va || (end == piece->va && !str_equal(a, b)));
		if (!goes_on && found)
			break;
		if (!goes_on)
			start = piece->va;
		if (!goes_on || end_of(piece) > end) {
			end = end_of(piece);
			last = piece;
		}
		found = found || piece == own;
	}
	text_add(out, "+0x%" PRIx64 "/0x%" PRIx64, address - (uint64_t)start, (uint64_t)(end - start));
}

static void add_escaped(struct buffer *out, struct str s)
{
	assert_true(buffer_reserve(out, 6 * s.len + 1));
	out->len += json_escape(out->data + out->len, (const uint8_t *)s.data, s.len);
}

/* frames: innermost first, as describe() has them. */
static void add_frames(const struct record_set *r, uint64_t address, bool is_pad, const struct symbfile_frame *frames,
        size_t count, struct buffer *out)
{
	for (size_t i = 0; i < count; i++) {
		add_escaped(out, frames[i].func);
		if (i + 1 == count)
			add_extent(r, address, is_pad, out);
		text_add(out, frames[i].file.len ? " " : " ?");
		add_escaped(out, frames[i].file);
		if (frames[i].line)
			text_add(out, ":%" PRIu32, frames[i].line);
		if (i + 1 < count)
			text_add(out, " < ");
	}
	if (!count)
		text_add(out, "-");
}

static void plain_answer(const struct record_set *r, uint64_t address, struct buffer *out)
{
	struct symbfile_frame frames[64];
	size_t count = 0;
	const struct symbfile_pad *pad = find_pad(r, address);
	if (pad) {
		for (; count < pad->count; count++)
			frames[count] = pad->frames[pad->count - 1 - count];
	} else {
		const struct symbfile_range *chain[64], *one = NULL;
		size_t n = 0;
		while ((one = next_covering(r, address, one ? (int64_t)one->depth : -1)))
			chain[n++] = one;
		for (size_t i = n; i--; count++) {
			const struct symbfile_range *inner = i + 1 < n ? chain[i + 1] : NULL;
			frames[count] = (struct symbfile_frame){chain[i]->func, {"", 0}, 0};
			frames[count].line = inner ? inner->call_line : line_of(chain[i], address);
			if (inner && inner->has_call_file)
				frames[count].file = inner->call_file;
			else if (chain[i]->has_file)
				frames[count].file = chain[i]->file;
		}
	}
	add_frames(r, address, pad, frames, count, out);
}

static void assert_plain_answer(const struct record_set *r, const struct offmap *m, uint64_t address)
{
	struct buffer expected = text_new();
	plain_answer(r, address, &expected);
	assert_true(buffer_append(&expected, "", 1));
	assert_answer(m, address, (const char *)expected.data);
	buffer_release(&expected);
}

/* ---- the reference's answers ---- */

static json_t *read_lines(const char *folder, const char *file)
{
	char path[1024];
	json_t *lines = json_array();
	snprintf(path, sizeof path, "%s/%s", folder, file);
	FILE *f = fopen(path, "r");
	for (json_t *line; f && (line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL));)
		json_array_append_new(lines, line);
	if (f)
		fclose(f);
	return lines;
}

static uint64_t address_of(const json_t *line, const char *key)
{
	return strtoull(json_string_value(json_object_get(line, key)), NULL, 16);
}

static struct str string_of(const json_t *line, const char *key)
{
	const char *text = json_string_value(json_object_get(line, key));
	return str_from(text ? text : "");
}

static uint32_t number_of(const json_t *line, const char *key)
{
	return (uint32_t)json_integer_value(json_object_get(line, key)); /* null: 0 */
}

static bool has_string(const json_t *line, const char *key)
{
	return json_is_string(json_object_get(line, key));
}

static struct symbfile_range range_of(const json_t *line)
{
	const json_t *entries = json_object_get(line, "lines");
	size_t count = json_array_size(entries);
	struct symbfile_line *lines = calloc(count + 1, sizeof *lines);
	for (size_t i = 0; i < count; i++) {
		const json_t *entry = json_array_get(entries, i);
		lines[i].offset = (uint32_t)json_integer_value(json_array_get(entry, 0));
		lines[i].line = (uint32_t)json_integer_value(json_array_get(entry, 1));
	}
	return (struct symbfile_range){.va = address_of(line, "va"),
	        .length = number_of(line, "len"),
	        .depth = number_of(line, "depth"),
	        .call_line = number_of(line, "call_line"),
	        .func = string_of(line, "func"),
	        .file = string_of(line, "file"),
	        .has_file = has_string(line, "file"),
	        .call_file = string_of(line, "call_file"),
	        .has_call_file = has_string(line, "call_file"),
	        .lines = lines,
	        .line_count = count};
}

static struct symbfile_frame *frames_of(const json_t *line, const char *key, size_t *count)
{
	const json_t *entries = json_object_get(line, key);
	*count = json_array_size(entries);
	struct symbfile_frame *frames = calloc(*count + 1, sizeof *frames);
	for (size_t i = 0; i < *count; i++) {
		const json_t *entry = json_array_get(entries, i);
		frames[i] = (struct symbfile_frame){
		        string_of(entry, "func"), string_of(entry, "file"), number_of(entry, "line")};
	}
	return frames;
}

static void load_ranges(struct record_set *r, const json_t *lines)
{
	assert_in_range(json_array_size(lines), 0, RANGES_MAX);
	for (size_t i = 0; i < json_array_size(lines); i++)
		r->ranges[r->range_count++] = range_of(json_array_get(lines, i));
}

static void load_pads(struct record_set *r, const json_t *lines)
{
	assert_in_range(json_array_size(lines), 0, PADS_MAX);
	for (size_t i = 0; i < json_array_size(lines); i++) {
		struct symbfile_pad *p = &r->pads[r->pad_count++];
		p->va = address_of(json_array_get(lines, i), "va");
		p->frames = frames_of(json_array_get(lines, i), "entries", &p->count);
	}
}

static void release_records(struct record_set *r)
{
	for (size_t i = 0; i < r->range_count; i++)
		free((void *)r->ranges[i].lines);
	for (size_t i = 0; i < r->pad_count; i++)
		free((void *)r->pads[i].frames);
	*r = (struct record_set){.range_count = 0};
}

/* The answer that a line of the reference gives; pads: the reference knows only pads. Returns whether it was used. */
static bool check_line(const struct record_set *r, const struct offmap *m, const json_t *line, bool pads)
{
	uint64_t address = address_of(line, "addr");
	bool is_pad = find_pad(r, address);
	size_t count;
	if (pads != is_pad || number_of(line, "dup") || json_is_true(json_object_get(line, "hole")))
		return false;
	struct symbfile_frame *frames = frames_of(line, "frames", &count);
	struct buffer expected = text_new();
	add_frames(r, address, is_pad, frames, count, &expected);
	assert_true(buffer_append(&expected, "", 1));
	assert_answer(m, address, (const char *)expected.data);
	assert_plain_answer(r, m, address);
	buffer_release(&expected);
	free(frames);
	return true;
}

static size_t check_lines(const struct record_set *r, const json_t *lines, bool pads)
{
	size_t used = 0;
	struct offmap *m = build(r);
	for (size_t i = 0; i < json_array_size(lines); i++)
		used += check_line(r, m, json_array_get(lines, i), pads);
	offmap_free(m);
	return used;
}

static void check_program(const char *folder, size_t *lookups, size_t *pad_lookups)
{
	static struct record_set r;
	json_t *ranges = read_lines(folder, "ranges.jsonl"), *pads = read_lines(folder, "pads.jsonl");
	json_t *answers = read_lines(folder, "lookups.jsonl"), *pad_answers = read_lines(folder, "padlookups.jsonl");
	load_ranges(&r, ranges);
	size_t used = check_lines(&r, answers, false);
	assert_int_equal(used, json_array_size(answers));
	*lookups += used;
	load_pads(&r, pads);
	check_lines(&r, answers, false);
	used = check_lines(&r, pad_answers, true);
	assert_int_equal(used, r.pad_count);
	*pad_lookups += used;
	release_records(&r);
	json_decref(ranges);
	json_decref(pads);
	json_decref(answers);
	json_decref(pad_answers);
}

static void test_programs(void **state)
{
	glob_t found;
	char pattern[1024];
	size_t lookups = 0, pad_lookups = 0;
	(void)state;
	snprintf(pattern, sizeof pattern, "%s/tests/data/symbfile/*/ranges.jsonl",
	        getenv("srcdir") ? getenv("srcdir") : ".");
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		*strrchr(found.gl_pathv[i], '/') = 0;
		check_program(found.gl_pathv[i], &lookups, &pad_lookups);
	}
	globfree(&found);
	print_message("%zu lookups, %zu of pads\n", lookups, pad_lookups);
	assert_true(lookups > 1000 && pad_lookups > 100);
}

/* ---- random sets ---- */

enum { SPAN = 100, LINES_MAX = 6, FRAMES_MAX = 5 };

/* Short, far and external strings, and some that have to be escaped. */
static char long_name[1200], middle_name[101];

static struct str random_name(uint64_t *seed)
{
	const char *names[] = {"f", "f", "g", "operator\"\"_x\\", "", middle_name, long_name};
	return str_from(names[next_random(seed) % 7]);
}

static struct str random_file(uint64_t *seed)
{
	const char *files[] = {"a.c", "a.c", "b.h", "", middle_name};
	return str_from(files[next_random(seed) % 5]);
}

static void random_range(struct symbfile_range *r, struct symbfile_line *lines, uint64_t base, uint64_t *seed)
{
	static const uint32_t depths[] = {0, 0, 0, 1, 1, 2, 3, 7, UINT32_MAX - 1, UINT32_MAX};
	bool deep = next_random(seed) % 4 == 0;
	*r = (struct symbfile_range){.va = base + next_random(seed) % SPAN,
	        .length = next_random(seed) % (next_random(seed) % 2 ? 10 : 60),
	        .depth = depths[next_random(seed) % (deep ? 10 : 7)],
	        .call_line = next_random(seed) % 4,
	        .func = random_name(seed),
	        .file = random_file(seed),
	        .call_file = random_file(seed),
	        .has_file = next_random(seed) % 4,
	        .has_call_file = next_random(seed) % 4,
	        .lines = lines,
	        .line_count = next_random(seed) % (LINES_MAX + 1)};
	uint32_t offset = next_random(seed) % 3 ? 0 : next_random(seed) % 8;
	for (size_t i = 0; i < r->line_count; i++) {
		lines[i] = (struct symbfile_line){offset, next_random(seed) % 5};
		/* forwards mostly; by a sum that wraps now and then */
		offset += next_random(seed) % 6 ? next_random(seed) % 12 : UINT32_MAX - next_random(seed) % 8;
	}
}

/* Half of the pads say nearly what the ranges say. */
static void random_pad(const struct record_set *r, struct symbfile_pad *p, struct symbfile_frame *frames, uint64_t base,
        uint64_t *seed)
{
	const struct symbfile_range *one = NULL;
	*p = (struct symbfile_pad){base + next_random(seed) % SPAN, frames, next_random(seed) % (FRAMES_MAX + 1)};
	bool alike = next_random(seed) % 2;
	for (size_t i = 0; i < p->count; i++) {
		frames[i] = (struct symbfile_frame){random_name(seed), random_file(seed), next_random(seed) % 4};
		one = alike ? next_covering(r, p->va, one ? (int64_t)one->depth : -1) : NULL;
		alike = one && next_random(seed) % 8;
		if (!alike)
			continue;
		frames[i].func = one->func;
		const struct symbfile_range *inner = next_covering(r, p->va, one->depth);
		frames[i].line = inner ? inner->call_line : line_of(one, p->va);
		frames[i].file = inner && inner->has_call_file ? inner->call_file
		                 : one->has_file               ? one->file
		                                               : str_from("");
	}
}

struct random_set {
	struct record_set records;
	struct symbfile_line lines[16][LINES_MAX];
	struct symbfile_frame frames[8][FRAMES_MAX];
	uint64_t base;
};

static void make_set(struct random_set *s, uint64_t *seed)
{
	static const uint64_t bases[] = {0, 0x1000, UINT64_C(0xfffffff0), UINT64_MAX - SPAN / 2};
	struct record_set *r = &s->records;
	s->base = bases[next_random(seed) % 4];
	r->range_count = next_random(seed) % 16;
	r->pad_count = next_random(seed) % 3 ? next_random(seed) % 8 : 0;
	for (size_t i = 0; i < r->range_count; i++)
		random_range(&r->ranges[i], s->lines[i], s->base, seed);
	for (size_t i = 0; i < r->pad_count; i++)
		random_pad(r, &r->pads[i], s->frames[i], s->base, seed);
	/* an empty name is "<unknown>" */
	for (size_t i = 0; i < r->range_count; i++)
		if (!r->ranges[i].func.len)
			r->ranges[i].func = str_from("<unknown>");
	for (size_t i = 0; i < r->pad_count; i++)
		for (size_t k = 0; k < r->pads[i].count; k++)
			if (!s->frames[i][k].func.len)
				s->frames[i][k].func = str_from("<unknown>");
}

static void test_random_sets(void **state)
{
	static struct random_set s;
	uint64_t seed = seed_of(1);
	(void)state;
	for (unsigned round = 0; round < rounds(4000); round++) {
		make_set(&s, &seed);
		struct offmap *m = build(&s.records);
		for (uint64_t i = 0; i < SPAN + 70; i++)
			assert_plain_answer(&s.records, m, s.base - 4 + i);
		offmap_free(m);
	}
}

/* Leaves out what only the order of arrival decides. */
static void drop_ties(struct record_set *r)
{
	size_t ranges = 0, pads = 0;
	for (size_t i = 0; i < r->range_count; i++) {
		bool tie = false;
		for (size_t k = 0; k < ranges; k++)
			tie = tie ||
			      (r->ranges[k].va == r->ranges[i].va && end_of(&r->ranges[k]) == end_of(&r->ranges[i]) &&
			              r->ranges[k].depth == r->ranges[i].depth);
		if (!tie)
			r->ranges[ranges++] = r->ranges[i];
	}
	for (size_t i = 0; i < r->pad_count; i++) {
		bool tie = false;
		for (size_t k = 0; k < pads; k++)
			tie = tie || r->pads[k].va == r->pads[i].va;
		if (!tie)
			r->pads[pads++] = r->pads[i];
	}
	r->range_count = ranges;
	r->pad_count = pads;
}

static struct offmap *build_shuffled(const struct record_set *r, uint64_t *seed)
{
	struct symbfile_map *m = new_map();
	size_t order[24], count = r->range_count + r->pad_count;
	for (size_t i = 0; i < count; i++) {
		size_t k = next_random(seed) % (i + 1);
		order[i] = order[k];
		order[k] = i;
	}
	for (size_t i = 0; i < count; i++)
		if (order[i] < r->range_count)
			feed_range(m, &r->ranges[order[i]]);
		else
			feed_pad(m, &r->pads[order[i] - r->range_count]);
	return finish(m);
}

static void test_any_order_gives_the_same_answers(void **state)
{
	static struct random_set s;
	uint64_t seed = seed_of(7);
	(void)state;
	for (unsigned round = 0; round < rounds(1000); round++) {
		make_set(&s, &seed);
		drop_ties(&s.records);
		struct offmap *m = build_shuffled(&s.records, &seed);
		for (uint64_t i = 0; i < SPAN + 70; i++)
			assert_plain_answer(&s.records, m, s.base - 4 + i);
		offmap_free(m);
	}
}

/* ---- cases ---- */

static void add(
        struct symbfile_map *m, uint64_t va, uint64_t length, uint32_t depth, const char *func, const char *file)
{
	struct symbfile_line line = {0, 7};
	struct symbfile_range r = {.va = va,
	        .length = length,
	        .depth = depth,
	        .func = str_from(func),
	        .file = str_from(file),
	        .has_file = true,
	        .call_line = 3,
	        .lines = &line,
	        .line_count = 1};
	feed_range(m, &r);
}

static void add_pad(struct symbfile_map *m, uint64_t va, const char *outer, uint32_t line, const char *inner)
{
	struct symbfile_frame frames[] = {
	        {str_from(outer), str_from("p.c"), line}, {str_from(inner), str_from("q.c"), 9}};
	struct symbfile_pad p = {va, frames, *inner ? 2 : 1};
	feed_pad(m, &p);
}

static void test_no_record_answers_nothing(void **state)
{
	struct offmap *m = finish(new_map()), *back;
	(void)state;
	assert_answer(m, 0, "-");
	assert_answer(m, UINT64_MAX, "-");
	struct page *root = offmap_root_encode(m);
	assert_non_null(root);
	assert_int_equal(offmap_root_decode(root->bytes, root->len, &back), ERR_OK);
	assert_answer(back, 5, "-");
	page_unref(root);
	offmap_free(m);
	offmap_free(back);
}

static void test_adjoining_pieces_are_one_function(void **state)
{
	struct symbfile_map *b = new_map();
	(void)state;
	add(b, 0x100, 0x10, 0, "f", "a.c");
	add(b, 0x110, 0x10, 0, "f", "b.h");
	add(b, 0x120, 0x10, 0, "g", "a.c");
	add(b, 0x130, 0x10, 0, "f", "a.c"); /* the cold part, elsewhere */
	add(b, 0x114, 4, 1, "inlined", "c.h");
	struct offmap *m = finish(b);
	assert_answer(m, 0x100, "f+0x0/0x20 a.c:7");
	assert_answer(m, 0x110, "f+0x10/0x20 b.h:7");
	assert_answer(m, 0x115, "inlined c.h:7 < f+0x15/0x20 b.h:3");
	assert_answer(m, 0x11f, "f+0x1f/0x20 b.h:7");
	assert_answer(m, 0x12f, "g+0xf/0x10 a.c:7");
	assert_answer(m, 0x130, "f+0x0/0x10 a.c:7");
	assert_answer(m, 0x140, "-");
	offmap_free(m);
}

/* Two static functions, or two destructors, may have one printed name. */
static void test_neighbours_of_one_name_are_two_functions(void **state)
{
	struct symbfile_map *b = new_map();
	(void)state;
	add(b, 0x100, 0x10, 0, "pick", "a.c");
	add(b, 0x110, 0x20, 0, "pick", "a.c");
	add(b, 0x130, 0x10, 0, "pick", "b.h"); /* goes on with the second */
	add(b, 0x140, 0x10, 0, "pick", "a.c");
	add(b, 0x150, 0x10, 0, "pick", "a.c");
	struct offmap *m = finish(b);
	assert_answer(m, 0x10f, "pick+0xf/0x10 a.c:7");
	assert_answer(m, 0x110, "pick+0x0/0x40 a.c:7");
	assert_answer(m, 0x14f, "pick+0x3f/0x40 a.c:7");
	assert_answer(m, 0x151, "pick+0x1/0x10 a.c:7");
	offmap_free(m);
}

static void test_pads_answer_before_ranges(void **state)
{
	struct symbfile_map *b = new_map();
	(void)state;
	add(b, 0x100, 0x40, 0, "f", "a.c");
	add(b, 0x300, 0x40, 1, "inlined", "c.h");
	add_pad(b, 0x110, "f", 4, "");
	add_pad(b, 0x120, "f", 4, "in");
	add_pad(b, 0x130, "other", 0, "in");
	add_pad(b, 0x200, "alone", 4, "in");
	add_pad(b, 0x310, "inlined", 4, "");
	add_pad(b, 0x13f, "f", 4, "first");
	add_pad(b, 0x13f, "f", 4, "last");
	add_pad(b, UINT64_MAX, "end", 1, "");
	struct offmap *m = finish(b);
	assert_answer(m, 0x10f, "f+0xf/0x40 a.c:7");
	assert_answer(m, 0x110, "f+0x10/0x40 p.c:4");
	assert_answer(m, 0x111, "f+0x11/0x40 a.c:7");
	assert_answer(m, 0x120, "in q.c:9 < f+0x20/0x40 p.c:4");
	assert_answer(m, 0x130, "in q.c:9 < other+0x30/0x40 p.c");
	assert_answer(m, 0x131, "f+0x31/0x40 a.c:7");
	assert_answer(m, 0x13f, "last q.c:9 < f+0x3f/0x40 p.c:4");
	assert_answer(m, 0x1ff, "-");
	assert_answer(m, 0x200, "in q.c:9 < alone+0x0/? p.c:4");
	assert_answer(m, 0x201, "-");
	assert_answer(m, 0x30f, "inlined+0xf/0x40 c.h:7");
	assert_answer(m, 0x310, "inlined+0x0/? p.c:4");
	assert_answer(m, 0x311, "inlined+0x11/0x40 c.h:7");
	assert_answer(m, UINT64_MAX, "end+0x0/? p.c:1");
	offmap_free(m);
}

static void test_ends_of_the_address_space(void **state)
{
	struct symbfile_map *b = new_map();
	(void)state;
	add(b, 0, 0, 0, "empty", "a.c");
	add(b, 0, UINT64_MAX, 0, "f", "a.c");
	add(b, 10, UINT64_MAX, 1, "g", "a.c");
	add(b, UINT64_MAX, UINT64_MAX, 0, "f", "a.c"); /* would be 2^64 bytes together */
	struct offmap *m = finish(b);
	assert_answer(m, 0, "f+0x0/0xffffffffffffffff a.c:7");
	assert_answer(m, 10, "g a.c:7 < f+0xa/0xffffffffffffffff a.c:3");
	assert_answer(m, UINT64_MAX - 1, "g a.c:7 < f+0xfffffffffffffffe/0xffffffffffffffff a.c:3");
	assert_answer(m, UINT64_MAX, "g a.c:7 < f+0x0/0x1 a.c:3");
	offmap_free(m);
}

/* The outermost frames stay, with the right lines. */
static void test_deeper_than_any_chain(void **state)
{
	struct symbfile_map *b = new_map();
	struct buffer got = text_new();
	unsigned frames = 1;
	(void)state;
	for (uint32_t depth = 0; depth < 20000; depth++)
		add(b, 0x100, 0x10, depth * 200000U, "f", "a.c");
	struct offmap *m = finish(b);
	describe(m, 0x108, &got);
	for (size_t i = 0; i + 3 < got.len; i++)
		frames += memcmp(got.data + i, " < ", 3) == 0;
	assert_int_equal(frames, 10000);
	assert_memory_equal(got.data, "f a.c:3 < f a.c:3 < ", 20);
	assert_answer(m, 0x110, "-");
	buffer_release(&got);
	offmap_free(m);
}

/* A cut repeats the chain: here as many nodes as 64 segments allow. */
static void test_a_piece_is_cut_where_its_chain_is_short_enough(void **state)
{
	struct symbfile_line lines[200];
	struct symbfile_range innermost = {.va = 0x1000,
	        .length = 200,
	        .depth = 4 * OFFMAP_PIECE_SEGMENTS,
	        .func = str_from("in"),
	        .lines = lines,
	        .line_count = 200};
	struct symbfile_map *b = new_map();
	(void)state;
	for (uint32_t depth = 0; depth < innermost.depth; depth++)
		add(b, innermost.va, innermost.length, depth, "f", "a.c");
	for (uint32_t i = 0; i < 200; i++)
		lines[i] = (struct symbfile_line){i, i + 1};
	feed_range(b, &innermost);
	struct offmap *m = finish(b);
	assert_int_equal(most_segments(m), OFFMAP_PIECE_SEGMENTS);
	offmap_free(m);
}

/* More than a part's share of segments, and strings of all lengths. */
static void test_large_function(void **state)
{
	static struct symbfile_line lines[5000];
	struct symbfile_range r = {.va = 0x1000,
	        .length = 5000,
	        .func = str_from(long_name),
	        .file = str_from(middle_name),
	        .has_file = true,
	        .lines = lines,
	        .line_count = 5000};
	struct symbfile_map *b = new_map();
	(void)state;
	for (uint32_t i = 0; i < 5000; i++)
		lines[i] = (struct symbfile_line){i, i * i};
	feed_range(b, &r);
	static struct record_set all;
	all.ranges[0] = r;
	all.range_count = 1;
	for (uint32_t i = 1; i < 500; i++) {
		r = (struct symbfile_range){.va = 0x1000 + 10 * i, .length = 5, .depth = 1, .func = str_from("in")};
		r.call_line = i;
		feed_range(b, &r);
		all.ranges[all.range_count++] = r;
	}
	struct offmap *m = finish(b);
	assert_true(m->code_count > 1 && m->string_count);
	for (uint64_t at = 0xfff; at < 0x1000 + 5001; at++)
		assert_plain_answer(&all, m, at);
	offmap_free(m);
}

/* Longer than a page may be: cut, not within a letter. */
/* As symbol tables of C++ have them: without lines, and names are most of a page. */
static void test_long_names_make_pages_no_larger(void **state)
{
	struct symbfile_map *m = new_map();
	char name[256];
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "%0250u", i);
		feed_range(m, &(struct symbfile_range){.va = 64 * i, .length = 64, .func = str_from(name)});
	}
	struct offmap *map = finish(m);
	for (uint32_t i = 0; i < map->code_count; i++)
		assert_true(map->code[i]->len <= 20 << 10);
	offmap_free(map);
}

static void test_endless_name_is_cut(void **state)
{
	size_t len = (1 << 20) + 100;
	char *name = malloc(len + 1);
	struct buffer got = text_new();
	(void)state;
	assert_non_null(name);
	memset(name, 'a', len);
	name[len] = 0;
	memcpy(name + (1 << 20) - 1, "\xc3\xa4", 2);
	struct symbfile_map *b = new_map();
	add(b, 0x100, 0x10, 0, name, "a.c");
	struct offmap *m = finish(b);
	describe(m, 0x100, &got);
	assert_int_equal(got.len, (1 << 20) - 1 + strlen("+0x0/0x10 a.c:7"));
	buffer_release(&got);
	offmap_free(m);
	free(name);
}

static void test_bit_tree(void **state)
{
	static const uint32_t sizes[] = {1, 64, 65, 4096, 4097, 300000};
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct bit_tree t;
		uint64_t seed = seed_of(i);
		bool *plain = calloc(sizes[i], sizeof *plain);
		assert_non_null(plain);
		assert_true(bit_tree_init(&t, sizes[i]));
		for (unsigned step = 0; step < 2000; step++) {
			uint32_t at = next_random(&seed) % sizes[i];
			plain[at] = next_random(&seed) % 3 == 0;
			(plain[at] ? bit_tree_add : bit_tree_remove)(&t, at);
			uint32_t from = next_random(&seed) % sizes[i], next = from;
			while (next < sizes[i] && !plain[next])
				next++;
			assert_int_equal(bit_tree_next(&t, from), next < sizes[i] ? next : BIT_TREE_NONE);
		}
		assert_int_equal(bit_tree_next(&t, UINT32_MAX), BIT_TREE_NONE);
		bit_tree_release(&t);
		free(plain);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_programs),
	        cmocka_unit_test(test_random_sets),
	        cmocka_unit_test(test_any_order_gives_the_same_answers),
	        cmocka_unit_test(test_no_record_answers_nothing),
	        cmocka_unit_test(test_adjoining_pieces_are_one_function),
	        cmocka_unit_test(test_neighbours_of_one_name_are_two_functions),
	        cmocka_unit_test(test_pads_answer_before_ranges),
	        cmocka_unit_test(test_ends_of_the_address_space),
	        cmocka_unit_test(test_deeper_than_any_chain),
	        cmocka_unit_test(test_a_piece_is_cut_where_its_chain_is_short_enough),
	        cmocka_unit_test(test_large_function),
	        cmocka_unit_test(test_long_names_make_pages_no_larger),
	        cmocka_unit_test(test_endless_name_is_cut),
	        cmocka_unit_test(test_bit_tree),
	};
	memset(long_name, 'l', sizeof long_name - 1);
	memset(middle_name, 'm', sizeof middle_name - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
