/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a symbol file and the pages made of them: the same from whatever pieces the text came in, in whatever
 * order, by however many threads, and with the answers of the plain reader of the fuzzer. The
 * linker sends allocations through alloc_fail.c (--wrap).
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

#include "alloc_fail.h"
#include "indexed_map.h"
#include "map/flat.h"
#include "offmap_tools.h"
#include "plain_map.h"
#include "plain_sym.h"
#include "seed.h"
#include "sym/symbol_scan.h"
#include "sym/line.h"
#include "records/pages.h"
#include "sym/reader.h"
#include "sym/text_scan.h"

static struct str no_id = {"", 0};

bool __real_flatten(struct flattener *f, struct func_records *records, struct flat *out);
bool __wrap_flatten(struct flattener *f, struct func_records *records, struct flat *out);

static unsigned funcs_flattened;
static uint64_t records_flattened; /* their lines and ranges */

bool __wrap_flatten(struct flattener *f, struct func_records *records, struct flat *out)
{
	funcs_flattened++;
	records_flattened += records->line_count + records->range_count;
	return __real_flatten(f, records, out);
}

static struct symreader *read_of(struct str text, size_t chunk)
{
	struct symreader *x = symreader_new(no_id, 0);
	struct error e;
	assert_non_null(x);
	for (size_t at = 0, n; at < text.len; at += n) {
		n = text.len - at < chunk ? text.len - at : chunk;
		uint8_t *exact = malloc(n);
		assert_non_null(exact);
		memcpy(exact, text.data + at, n);
		enum err err = symreader_feed(x, exact, n, &e);
		free(exact);
		if (err) {
			assert_int_equal(err, ERR_CORRUPT);
			symreader_free(x);
			return NULL;
		}
	}
	enum err err = symreader_finish(x, &e);
	assert_true(!err || err == ERR_CORRUPT);
	if (!err)
		return x;
	symreader_free(x);
	return NULL;
}

static struct offmap *map_of(struct str text, const struct indexed_how *how)
{
	struct error e;
	struct offmap *m = indexed_map(text, no_id, how, &e);
	assert_non_null(m);
	return m;
}

/* ---- the pass ---- */

static void make_lines(struct buffer *t, uint64_t *seed)
{
	static const char *const starts[] = {"FUNC ", "FILE ", "PUBLIC ", "INLINE ", "INLINE_ORIGIN ", "INLINE\t",
	        "INFO ", "STACK ", "F00 ", "f00 ", "1", " ", "\t", "", "\r", "I", "IN", "INL", "INLINE", "S", "P",
	        "PUB", "FI", "FU", "F", "\x01", "\x80", "\xff", "MODULE "};
	for (unsigned i = 0; i < 60; i++) {
		text_add(t, "%s", starts[next_random(seed) % (sizeof starts / sizeof *starts)]);
		for (unsigned n = next_random(seed) % 40; n; n--)
			text_add(t, "%c", "FPIS0 \r\x80"[next_random(seed) % 8]);
		text_add(t, "\n");
	}
}

/* Every instruction set finds the lines that the plain loop finds, and reads nothing behind the end. */
static void test_scans(void **state)
{
	uint64_t seed = seed_of(1);
	(void)state;
	for (unsigned run = 0; run < rounds(300); run++) {
		struct buffer t = text_new();
		make_lines(&t, &seed);
		uint8_t *exact = malloc(t.len), *end = exact + t.len;
		assert_non_null(exact);
		memcpy(exact, t.data, t.len);
		for (const uint8_t *at = exact; at < end; at = (uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1) {
			const uint8_t *plain = symbol_scan_by(0)(at, end);
			for (unsigned which = 1; which < SYMBOL_SCANS; which++)
				if (symbol_scan_by(which))
					assert_ptr_equal(symbol_scan_by(which)(at, end), plain);
		}
		free(exact);
		buffer_release(&t);
	}
	assert_null(symbol_scan_by(SYMBOL_SCANS));
}

static void add_field(struct buffer *t, bool hex, uint64_t *seed)
{
	static const char bytes[] = "/:@GZ`gz{ \t\r\n\x7f\x80\xb0\xff", digits[] = "0123456789abcdefABCDEF";
	for (unsigned n = next_random(seed) % 30 ? 1 + next_random(seed) % 8 : next_random(seed) % 18; n; n--)
		text_add(t, "%c", digits[next_random(seed) % (hex ? 22 : 10)]);
	if (next_random(seed) % 60 == 0 && t->len)
		t->data[t->len - 1] = (uint8_t)bytes[next_random(seed) % sizeof bytes]; /* NUL, too */
}

/* Records, most of them in the form that writers give. */
static void make_records(struct buffer *t, bool inlined, uint64_t *seed)
{
	for (unsigned i = 0; i < 60; i++) {
		unsigned fields = inlined ? 4 + 2 * (1 + next_random(seed) % 5) : 4;
		fields += next_random(seed) % 50 ? 0 : next_random(seed) % 3 - 1;
		for (unsigned k = 0; k < fields; k++) {
			text_add(t, k ? next_random(seed) % 99 ? " " : "  " : "");
			add_field(t, inlined ? k >= 4 : k < 2, seed);
		}
		text_add(t, next_random(seed) % 20 ? "\n" : next_random(seed) % 2 ? "\r\n" : " \n");
	}
}

/* What the plain reader reads of a record others read, too, or refuse; and not behind the end. */
static void check_record(const struct symtext_scan *plain, const struct symtext_scan *other, const uint8_t *at,
        const uint8_t *end, unsigned *read)
{
	struct record_line want = {0}, got = {0};
	const uint8_t *want_at = at, *got_at = at;
	uint32_t numbers[4], again[4], n = 12, k = 12, room = next_random(&(uint64_t){(uintptr_t)(end - at)}) % 3 * 6;
	uint64_t ranges[12], others[12];
	bool usual = plain->lines(&want_at, end, end, &want, 1);
	if (other->lines(&got_at, end, end, &got, 1)) {
		assert_true(usual);
		assert_ptr_equal(want_at, got_at);
		assert_memory_equal(&want, &got, sizeof want);
		++*read;
	} else {
		assert_ptr_equal(got_at, at);
	}
	const uint8_t *next = plain->inlined(at, end, numbers, ranges, &n);
	const uint8_t *other_next = other->inlined(at, end, again, others, &k);
	if (other_next) {
		assert_ptr_equal(next, other_next);
		assert_int_equal(n, k);
		assert_memory_equal(numbers, again, sizeof numbers);
		assert_memory_equal(ranges, others, n * sizeof *ranges);
		++*read;
	}
	k = room;
	assert_true(!other->inlined(at, end, again, others, &k) || k <= room);
}

static void test_record_scans(void **state)
{
	uint64_t seed = seed_of(2);
	(void)state;
	for (unsigned run = 0; run < rounds(400); run++) {
		struct buffer t = text_new();
		make_records(&t, run % 2, &seed);
		uint8_t *exact = malloc(t.len), *end = exact + t.len;
		assert_non_null(exact);
		memcpy(exact, t.data, t.len);
		for (unsigned which = 0; which < SYMTEXT_SCANS; which++) {
			const struct symtext_scan *scan = symtext_scan_by(which);
			unsigned read = 0;
			for (const uint8_t *at = exact; at < end && scan;
			        at = (uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1)
				check_record(symtext_scan_by(0), scan, at, end, &read);
			assert_true(!scan || read > 15);
		}
		free(exact);
		buffer_release(&t);
	}
	assert_null(symtext_scan_by(SYMTEXT_SCANS));
}

static void assert_definition(
        const struct records *x, const struct record_definitions *d, uint64_t id, const char *text)
{
	const struct record_definition *found = records_find(d, id);
	assert_non_null(found);
	assert_false(found->external);
	assert_true(str_equal((struct str){x->texts + found->at, found->len}, str_from(text)));
}

static void test_what_is_noted(void **state)
{
	static const char text[] = "MODULE Linux x86_64 0 a\n"            /* 0 */
	                           "FILE 1 a.c\n"                         /* 24 */
	                           "1 1 1 1\n"                            /* 35: no function's */
	                           "INLINE_ORIGIN 3 -1 in\n"              /* 43 */
	                           "FUNC 20 10 0 second\n"                /* 65 */
	                           "20 10 1 1\n"                          /* 85 */
	                           "STACK CFI 20\n"                       /* 95 */
	                           "junk\n"                               /* 108 */
	                           "STACK CFI 21\n"                       /* 113 */
	                           "FUNC x\n"                             /* 126 */
	                           "20 10 1 1\n"                          /* 133: no function's */
	                           "PUBLIC 10 0 first\n"                  /* 143 */
	                           "FILE 1 b.c\n"                         /* 161 */
	                           "FUNC m fffffffffffffff0 100 0\n"      /* 172 */
	                           "INLINE 0 1 1 3 fffffffffffffff1 1\n"; /* 202 */
	(void)state;
	struct symreader *x = read_of(str_from(text), 1000);
	assert_non_null(x);
	const struct records *r = x->records;
	assert_int_equal(r->symbol_count, 3);
	assert_int_equal(r->funcs, 2);
	assert_int_equal(r->publics, 1);
	assert_int_equal(r->lines, 1);
	assert_int_equal(r->inlines, 1);
	assert_int_equal(x->damaged, 4);
	assert_int_equal(x->text_bytes, sizeof text - 1);
	static const struct {
		uint64_t addr, size, text;
		bool is_public, has_lines;
	} expected[] = {{0x10, 0, 161 - 143, true, false}, {0x20, 0x10, 113 - 65, false, true},
	        {UINT64_C(0xfffffffffffffff0), 0x10, sizeof text - 1 - 172, false, false}};
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(r->symbols[i].addr, expected[i].addr);
		assert_int_equal(r->symbols[i].size, expected[i].size);
		assert_int_equal(r->symbols[i].text, expected[i].text);
		assert_int_equal(r->symbols[i].is_public, expected[i].is_public);
		assert_int_equal(r->symbols[i].has_lines, expected[i].has_lines);
	}
	assert_definition(r, &r->files, 1, "b.c");
	assert_definition(r, &r->origins, 3, "in");
	assert_null(records_find(&r->files, 0));
	assert_null(records_find(&r->files, 3));
	assert_null(records_find(&r->origins, UINT64_MAX));
	symreader_free(x);
}

/* A line that is too long to be read still says whose the records behind it are. */
static void test_lines_that_are_too_long(void **state)
{
	static const struct {
		const char *line;
		bool is_record; /* of the function before it */
	} lines[] = {
	        {"FUNC 20 10 0 ", false}, {"PUBLIC 20 0 ", false}, {"INLINE 0 1 0 0 0 8 ", true}, {"0 8 1 ", true}};
	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		for (size_t chunk = 1000; chunk; chunk = chunk == SIZE_MAX ? 0 : SIZE_MAX) {
			struct buffer t = text_new();
			text_add(&t, "MODULE a b 0 c\n");
			uint64_t start = t.len;
			text_add(&t, "FUNC 0 10 0 f\n0 8 1 0\n");
			uint64_t before = t.len;
			text_add(&t, "%s", lines[i].line);
			for (unsigned k = 0; k <= BREAKPAD_LINE_MAX; k += 64)
				text_add(&t, "%064u", 0);
			text_add(&t, "\n8 8 2 0\n");
			uint64_t after = t.len;
			text_add(&t, "FUNC 40 10 0 g\n");
			struct symreader *x = read_of(text_str(&t), chunk);
			assert_non_null(x);
			const struct records *r = x->records;
			assert_int_equal(r->symbol_count, 2);
			assert_int_equal(r->text - r->symbols[1].text, (lines[i].is_record ? after : before) - start);
			assert_int_equal(r->lines, lines[i].is_record ? 2 : 1);
			assert_int_equal(x->damaged, lines[i].is_record ? 1 : 2);
			symreader_free(x);
			buffer_release(&t);
		}
}

/* Ids that are far apart take a search, and the last definition holds there, too. */
static void test_sparse_ids(void **state)
{
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE a b 0 c\nPUBLIC 0 0 p\n");
	for (unsigned i = 0; i < 1000; i++)
		text_add(&t, "FILE %" PRIu64 " name%u\n", i % 500 * UINT64_C(0x100000001), i);
	struct symreader *x = read_of(text_str(&t), 100);
	char name[16];
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof name, "name%u", i + 500);
		assert_definition(x->records, &x->records->files, i * UINT64_C(0x100000001), name);
		assert_null(records_find(&x->records->files, i * UINT64_C(0x100000001) + 1));
	}
	symreader_free(x);
	buffer_release(&t);
}

static void assert_same_bytes(const void *a, const void *b, size_t n)
{
	if (n)
		assert_memory_equal(a, b, n);
}

static void assert_same_definitions(const struct record_definitions *a, const struct record_definitions *b)
{
	assert_int_equal(a->count, b->count);
	for (uint32_t i = 0; i < a->count; i++) {
		assert_int_equal(a->all[i].id, b->all[i].id);
		assert_int_equal(a->all[i].at, b->all[i].at);
		assert_int_equal(a->all[i].len, b->all[i].len);
		assert_int_equal(a->all[i].external, b->all[i].external);
	}
}

static void assert_same_names(const struct name_store *a, const struct name_store *b)
{
	assert_int_equal(a->count, b->count);
	for (uint32_t i = 0; i < a->count; i++) {
		assert_int_equal(a->blocks[i].len, b->blocks[i].len);
		assert_memory_equal(a->blocks[i].data, b->blocks[i].data, a->blocks[i].len);
	}
}

static void assert_same_records(const struct symreader *x, const struct symreader *y)
{
	assert_int_equal(!x, !y);
	if (!x)
		return;
	const struct records *a = x->records, *b = y->records;
	assert_int_equal(a->symbol_count, b->symbol_count);
	assert_same_bytes(a->symbols, b->symbols, a->symbol_count * sizeof *a->symbols);
	assert_int_equal(a->len, b->len);
	assert_same_bytes(a->bytes, b->bytes, a->len);
	assert_same_names(&a->names, &b->names);
	assert_same_definitions(&a->files, &b->files);
	assert_same_definitions(&a->origins, &b->origins);
	assert_int_equal(a->texts_len, b->texts_len);
	assert_same_bytes(a->texts, b->texts, a->texts_len);
	assert_int_equal(a->string_count, b->string_count);
	for (uint32_t i = 0; i < a->string_count; i++)
		assert_int_equal(a->strings[i].place, b->strings[i].place);
	assert_int_equal(a->string_page_count, b->string_page_count);
	assert_same_bytes(a->string_first, b->string_first, a->string_page_count * sizeof *a->string_first);
	assert_int_equal(a->cut_count, b->cut_count);
	assert_same_bytes(a->cuts, b->cuts, a->cut_count * sizeof *a->cuts);
	assert_int_equal(a->lines, b->lines);
	assert_int_equal(a->inlines, b->inlines);
	assert_int_equal(x->damaged, y->damaged);
	assert_int_equal(x->generation, y->generation);
	assert_int_equal(x->code_file_len, y->code_file_len);
	assert_string_equal(x->code_id, y->code_id);
}

static void release_text(struct str text)
{
	free((char *)(uintptr_t)text.data);
}

static struct str read_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	size_t len = (size_t)ftell(f);
	rewind(f);
	char *data = malloc(len + 1);
	assert_non_null(data);
	assert_int_equal(fread(data, 1, len, f), len);
	fclose(f);
	return (struct str){data, len};
}

/* The kept cases in pieces of every size. */
static void test_chunks(void **state)
{
	const char *top = getenv("srcdir");
	char pattern[4096];
	glob_t found;
	unsigned files = 0;
	(void)state;
	snprintf(pattern, sizeof pattern, "%s/tests/data/sym/*.sym", top ? top : ".");
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct str text = read_text(found.gl_pathv[i]);
		struct symreader *whole = read_of(text, SIZE_MAX);
		for (size_t chunk = 1; chunk < text.len; chunk += 1 + chunk * slowness() / 64) {
			struct symreader *x = read_of(text, chunk);
			assert_same_records(whole, x);
			symreader_free(x);
		}
		symreader_free(whole);
		release_text(text);
		files++;
	}
	globfree(&found);
	assert_in_range(files, 50, 1000);
}

/* Lines as short as they can be, of which most is noted. */
static void test_bytes(void **state)
{
	static const struct {
		const char *keyword, *rest;
	} lines[] = {{"FUNC ", "1 0"}, {"PUBLIC ", "0"}, {"FILE ", "a"}, {"INLINE_ORIGIN ", "b"}, {"FILE 1", "a"}};
	(void)state;
	for (unsigned what = 0; what < sizeof lines / sizeof *lines; what++)
		for (unsigned n = 1000; n < rounds(150000); n = 2 * n + 77) {
			struct buffer t = text_new();
			text_add(&t, "MODULE a b 0 c\nPUBLIC 0 0\n");
			for (unsigned i = 0; i < n; i++)
				text_add(&t, "%s%u %s\n", lines[what].keyword, i, lines[what].rest);
			struct symreader *x = read_of(text_str(&t), 1 << 16);
			assert_in_range(symreader_bytes(x), 4 * n, 6 * t.len + (1 << 20));
			symreader_free(x);
			buffer_release(&t);
		}
}

/* What is kept of a line that has not ended is counted, too. */
static void test_bytes_of_a_line_in_pieces(void **state)
{
	enum { PIECE = 10000, OF_MALLOC = 8 << 10 };
	char name[PIECE];
	struct error e;
	(void)state;
	memset(name, 'f', sizeof name);
	alloc_watch();
	struct symreader *x = symreader_new(str_from(""), 0);
	assert_non_null(x);
	struct str start = str_from("MODULE a b 0 c\nFUNC 0 1 0 ");
	assert_int_equal(symreader_feed(x, (const uint8_t *)start.data, start.len, &e), ERR_OK);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(symreader_feed(x, (const uint8_t *)name, sizeof name, &e), ERR_OK);
		assert_in_range(symreader_bytes(x), alloc_held() - OF_MALLOC, alloc_held() + OF_MALLOC);
	}
	symreader_free(x);
	alloc_watched();
}

/* ---- answers ---- */

/* FUNCs, PUBLICs, lines and INLINEs all over a few addresses, so that all of these can be asked for. */
static struct buffer make_crowd(uint64_t *seed)
{
	struct buffer t = text_new();
	unsigned symbols = 1 + next_random(seed) % 60, space = 1u << (3 + next_random(seed) % 8), ids = 6;
	bool sorted = next_random(seed) % 2;
	uint32_t at = 0;
	text_add(&t, "MODULE Linux x86_64 0 crowd\n");
	for (unsigned i = 0; i < ids; i++)
		text_add(&t, "FILE %u f%u%0*u\nINLINE_ORIGIN %u o%u%0*u\n", i, i, i % 2 ? 90 : 1, 0, i, i,
		        i % 3 ? 1 : 90, 0);
	for (unsigned i = 0; i < symbols; i++) {
		uint32_t size = next_random(seed) % 3 ? next_random(seed) % 32 : next_random(seed) % (2 * space);
		at = sorted ? at + next_random(seed) % 3 * (next_random(seed) % 16) : next_random(seed) % space;
		if (next_random(seed) % 4 == 0) {
			text_add(&t, "PUBLIC %x 0 p%u\n", at, i);
			continue;
		}
		text_add(&t, "FUNC %x %x 0 f%u\n", at, size, i);
		for (unsigned n = next_random(seed) % 4; n; n--)
			text_add(&t, "INLINE %u %u %u %u %x %x\n", next_random(seed) % 3, n, next_random(seed) % ids,
			        next_random(seed) % ids, at + next_random(seed) % (size + 1), next_random(seed) % 9);
		for (unsigned n = next_random(seed) % 6; n; n--)
			text_add(&t, "%x %x %u %u\n", at + next_random(seed) % (size + 1), next_random(seed) % 9,
			        next_random(seed) % 50, next_random(seed) % ids);
		if (next_random(seed) % 8 == 0)
			text_add(&t, "nothing\nFILE %u again%u\n", next_random(seed) % ids, i);
	}
	return t;
}

/* The answers of the plain reader for n offsets, evenly of [from, to). */
static void check_answers(
        const struct buffer *t, const struct offmap *m, uint64_t from, uint64_t to, unsigned n, bool nearest)
{
	struct plain_sym *plain = plain_sym_new(text_str(t));
	struct buffer want = text_new(), got = text_new();
	assert_false(plain_sym_corrupt(plain));
	assert_int_equal(plain_sym_damaged(plain), m->damaged);
	for (unsigned i = 0; i < n; i++) {
		uint64_t offset = from + (to - from) / n * i;
		buffer_reset(&want);
		buffer_reset(&got);
		plain_sym_describe(plain, offset, nearest, &want);
		plain_map_describe(m, offset, &got);
		if (want.len != got.len || memcmp(want.data, got.data, got.len) != 0)
			fail_msg("0x%" PRIx64 ": wanted\n%.*s\ngot\n%.*s", offset, (int)want.len, (char *)want.data,
			        (int)got.len, (char *)got.data);
	}
	buffer_release(&want);
	buffer_release(&got);
	plain_sym_free(plain);
}

static void test_answers(void **state)
{
	uint64_t seed = seed_of(20261122);
	(void)state;
	for (unsigned run = 0; run < rounds(400); run++) {
		struct buffer t = make_crowd(&seed);
		for (unsigned nearest = 0; nearest < 2; nearest++) {
			uint32_t page_text = run % 3 ? run % 200 : 0;
			struct indexed_how how = {.nearest = nearest, .page_text = page_text}, other = how;
			other.chunk = 1 + run % 50;
			other.shuffle = run + 1;
			other.threads = 1 + run % 3;
			struct offmap *m = map_of(text_str(&t), &how), *again = map_of(text_str(&t), &other);
			assert_same_maps(m, again);
			check_answers(&t, m, 0, 0x900, 0x900, nearest);
			offmap_free(m);
			offmap_free(again);
		}
		buffer_release(&t);
	}
}

static uint32_t largest_page(const struct offmap *m)
{
	uint32_t largest = 0;
	for (uint32_t i = 0; i < m->code_count; i++)
		if (m->code[i]->len > largest)
			largest = m->code[i]->len;
	return largest;
}

/* The same answers at n addresses of [from, to), and pages of no more than so many bytes. */
static void check_large(struct buffer *t, uint64_t from, uint64_t to, unsigned n, uint32_t page_max)
{
	for (unsigned nearest = 0; nearest < 2; nearest++) {
		struct indexed_how how = {.nearest = nearest}, other = {.nearest = nearest, .shuffle = 5, .threads = 2};
		struct offmap *m = map_of(text_str(t), &how), *again = map_of(text_str(t), &other);
		assert_same_maps(m, again);
		assert_in_range(largest_page(m), 1, page_max);
		check_answers(t, m, from, to, rounds(n) / slowness(), nearest);
		offmap_free(m);
		offmap_free(again);
	}
	buffer_release(t);
}

/* Functions of more text than a page takes, with small ones in them, sorted and not, are cut. */
static void test_large_functions(void **state)
{
	(void)state;
	for (unsigned what = 0; what < 8; what++) {
		struct buffer t = text_new();
		unsigned lines = what & 1 ? 70000 : 5000; /* above what is looked at here and there, and below */
		text_add(&t, "MODULE a b 0 c\nFILE 0 a.c\nINLINE_ORIGIN 0 in\nFUNC 1000 %x 0 large\n", 16 * lines);
		for (unsigned i = 0; i < lines; i++) {
			unsigned k = what & 2 ? (i * 7919u) % lines : i;
			if (i % 5 == 0)
				text_add(&t, "INLINE 0 %u 0 0 %x 8\n", i, 0x1000 + 16 * k);
			text_add(&t, "%x 10 %u 0\n", 0x1000 + 16 * k, k);
		}
		for (unsigned i = 0; what & 4 && i < 300; i++)
			text_add(&t, "FUNC %x 3 0 small%u\n%x 3 1 0\n", 0x1100 + 0x60 * i, i, 0x1100 + 0x60 * i);
		check_large(&t, 0xff0, 0x1010 + 16 * lines, 3000, 64 << 10);
	}
}

static uint32_t pages_of_function(uint64_t start)
{
	struct buffer t = text_new();
	text_add(&t, "MODULE a b 0 c\nFILE 0 a.c\nFUNC %" PRIx64 " %x 0 large\n", start, 16 * 20000);
	for (unsigned i = 0; i < 20000; i++)
		text_add(&t, "%" PRIx64 " 10 %u 0\n", start + 16 * i, i);
	struct offmap *m = map_of(text_str(&t), &(struct indexed_how){0});
	uint32_t pages = m->code_count;
	offmap_free(m);
	buffer_release(&t);
	return pages;
}

static void test_a_large_function_is_cut_alike_wherever_it_lies(void **state)
{
	(void)state;
	assert_in_range(pages_of_function(0x10000000), 2, 100);
	assert_int_equal(pages_of_function(0xf0000000), pages_of_function(0x10000000));
}

/* Addresses that one page cannot hold. */
static void test_vast_functions(void **state)
{
	(void)state;
	for (unsigned what = 0; what < 4; what++) {
		struct buffer t = text_new();
		uint64_t far = UINT64_C(0x40000000);
		text_add(&t, "MODULE a b 0 c\nFILE 0 a.c\nFUNC 1000 10 0 before\nFUNC 2000 %" PRIx64 " 0 vast\n",
		        40 * far);
		for (unsigned i = 0; i < 40; i++)
			text_add(&t, "%" PRIx64 " %x %u 0\n", 0x2000 + i * far, what & 1 ? 0x1000 : 0x40000000, i);
		if (what & 2)
			text_add(&t, "FUNC %" PRIx64 " 8 0 inner\nPUBLIC %" PRIx64 " 0 p\n", 0x2000 + 9 * far + 8,
			        50 * far);
		text_add(&t, "FUNC %" PRIx64 " %" PRIx64 " 0 last\n%" PRIx64 " 1 1 0\n", 64 * far, UINT64_MAX,
		        UINT64_MAX - 5);
		check_large(&t, 0, 80 * far, 400, 64 << 10);
	}
}

/* Functions in functions, each of which answers again behind the one in it, and one that small ones interrupt. */
static void test_nested_functions(void **state)
{
	(void)state;
	for (unsigned what = 0; what < 3; what++) {
		struct buffer t = text_new();
		unsigned n = what == 1 ? 40 : 3000, lines = what == 1 ? 600 : 3;
		text_add(&t, "MODULE a b 0 c\nFILE 0 a.c\n");
		if (what == 2) {
			text_add(&t, "FUNC 1000 %x 0 outer\n", 0x10000);
			for (unsigned i = 0; i < 900; i++)
				text_add(&t, "%x 10 %u 0\n", 0x1000 + 16 * i, i);
		}
		for (unsigned i = 0; i < n; i++) {
			uint64_t start = what == 2 ? 0x1000 + 16 * i + 4 : 0x1000 + 4 * i,
			         size = what == 2 ? 6 : 8 * (n - i);
			text_add(&t, "FUNC %" PRIx64 " %" PRIx64 " 0 f%u\n", start, size, i);
			for (unsigned k = 0; k < lines; k++)
				text_add(&t, "%" PRIx64 " 1 %u 0\n", start + size - 1 - k % size, k);
		}
		check_large(&t, 0xff0, 0x1010 + 8 * n, 4000, 128 << 10);
	}
}

/* A name that the page's index must not take for one of a string page, and the other way round, at all limits. */
static void test_long_names(void **state)
{
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE a b 0 c\n");
	unsigned n = 0;
	for (unsigned len = 62; len < 68; len++, n++)
		text_add(&t, "FILE %u %0*u\nINLINE_ORIGIN %u %0*u\n", n, len, n, n, len, n);
	text_add(&t, "FILE %u \"%060u\"\n", n++, 7);
	for (unsigned i = 0; i < n; i++)
		text_add(&t, "FUNC %x 10 0 f\nINLINE 0 1 %u %u %x 8\n%x 10 3 %u\n", 0x1000 + 16 * i, i, i,
		        0x1000 + 16 * i, 0x1000 + 16 * i, i);
	static const unsigned name_lens[] = {1022, 1023, 1024, 1025, 1026, 9000};
	for (unsigned i = 0; i < 6; i++)
		for (unsigned quotes = 0; quotes < 2; quotes++) {
			text_add(&t, i % 2 ? "FUNC %x 8 0 " : "PUBLIC %x 0 ", 0x4000 + 32 * i + 16 * quotes);
			for (unsigned k = 0; k < name_lens[i]; k++)
				text_add(&t, "%c", quotes ? '"' : 'a' + k % 26);
			text_add(&t, "\n");
		}
	check_large(&t, 0xff8, 0x4100, 0x3200 / 2, 64 << 10);
}

/* ---- bounds ---- */

/* Whoever misses pages of a large function here and there, others between them, reads it once. */
static void test_a_large_function_is_read_once(void **state)
{
	enum { LINES = 100000 };
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE a b 0 c\nFUNC 0 10 0 before\n0 10 1 0\nFUNC 1000 %x 0 large\n", 16 * LINES);
	for (unsigned i = 0; i < LINES; i++)
		text_add(&t, "%x 10 %u 0\n", 0x1000 + 16 * i, i);
	struct symreader *x = read_of(text_str(&t), SIZE_MAX);
	struct symspans *s = symspans_new(x->records, false);
	assert_non_null(s);
	struct sympages *m = sympages_new(x->records, s);
	assert_non_null(m);
	assert_in_range(s->page_count, 50, 1000);
	funcs_flattened = 0;
	records_flattened = 0;
	for (unsigned i = 0; i < 50; i++) {
		struct page *p = sympages_code(m, i % 2 ? 0 : 1 + i * 7919 % (s->page_count - 1));
		assert_non_null(p);
		page_unref(p);
	}
	assert_in_range(funcs_flattened, 2, 2 + 50);
	assert_in_range(records_flattened, LINES, 2 * LINES);
	sympages_free(m);
	symspans_free(s);
	symreader_free(x);
	buffer_release(&t);
}

/* So does whoever makes the pages of one that others interrupt, and that takes more memory than all others may. */
static void test_a_large_function_that_others_interrupt_is_read_once(void **state)
{
	enum { INNER = 20 };
	unsigned ranges = rounds(2000000);
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE a b 0 c\nFUNC 0 %x 0 large", 2 * ranges);
	for (unsigned i = 0; i < ranges; i++)
		text_add(&t, "%s %x 1", i % 5000 ? "" : "\nINLINE 0 1 0 0", 2 * i);
	for (unsigned i = 0; i < INNER; i++)
		text_add(&t, "\nFUNC %x 1 0 f", 1000 + 2 * i);
	struct symreader *x = read_of(text_str(&t), SIZE_MAX);
	struct symspans *s = symspans_new(x->records, false);
	assert_non_null(s);
	assert_true(symspans_of(s, 0) == INNER + 1 && symspans_of(s, 1) == 1);
	struct sympages *m = sympages_new(x->records, s);
	assert_non_null(m);
	records_flattened = 0;
	for (uint32_t i = 0; i < s->page_count; i++)
		page_unref(sympages_code(m, i));
	assert_in_range(records_flattened, ranges / 2, 2 * ranges);
	sympages_free(m);
	symspans_free(s);
	symreader_free(x);
	buffer_release(&t);
}

/* Functions whose records take much memory for their text. */
static void make_costly(struct buffer *t, unsigned what, unsigned n)
{
	text_add(t, "MODULE a b 0 c\nFUNC 0 %x 0 f\n", 8 * n);
	for (unsigned i = 0; i < n; i++)
		switch (what) {
		case 0: /* lines one behind the other */
			text_add(t, "%x 1 1 %u\n", 2 * i, i % 7);
			break;
		case 1: /* that overlap as a stair, from its upper end */
			text_add(t, "%x f0 %u 0\n", 2 * (n - 1 - i), i % 9);
			break;
		case 2: /* of one address */
			text_add(t, "0 1 1 0\n");
			break;
		case 3: /* INLINEs */
			text_add(t, "INLINE 0 1 0 0 %x 1\n", 2 * (n - i));
			break;
		case 4: /* that overlap */
			text_add(t, "INLINE 0 1 0 0 %x f0\n", 2 * (n - i));
			break;
		case 5: /* each deeper than the last */
			text_add(t, "INLINE %u 1 0 0 %x %x\n", i, i, 8 * n - 2 * i);
			break;
		case 6: /* ranges that overlap, many of one record */
			if (i % 5000 == 0)
				text_add(t, "%sINLINE 0 %u 0 0", i ? "\n" : "", i < n / 2);
			text_add(t, " %x %x", 4 * (i % (n / 2)) + (i < n / 2), i < n / 2 ? 1 : 3);
			break;
		case 7: /* that all start at one place */
			if (i % 5000 == 0)
				text_add(t, "%sINLINE 0 1 0 0 1 1", i ? "\n" : "");
			text_add(t, " 0 1");
			break;
		default: /* functions in functions */
			text_add(t, "FUNC %x %x 0 f\n%x 1 1 0\n", i, 8 * n - 2 * i, i);
		}
	text_add(t, "\n");
}

/* What one maker takes at most is within the bound that is told before. */
static void test_memory_of_pages(void **state)
{
	(void)state;
	for (unsigned what = 0; what < 9; what++) {
		struct buffer t = text_new();
		make_costly(&t, what, rounds(what == 5 ? 20000 : 300000));
		struct symreader *x = read_of(text_str(&t), SIZE_MAX);
		uint64_t bound = sympages_page_bytes_max(x->records) + (8 << 20);
		alloc_watch();
		struct symspans *s = symspans_new(x->records, false);
		struct alloc_use spans = alloc_watched();
		assert_non_null(s);
		alloc_watch();
		struct sympages *m = sympages_new(x->records, s);
		assert_non_null(m);
		uint64_t held = 0;
		for (unsigned i = 0; i < 300 && i < s->page_count; i++) {
			struct page *p = sympages_code(m, s->page_count < 300 ? i : i * (s->page_count / 300));
			assert_non_null(p);
			page_unref(p);
			held = sympages_bytes(m) > held ? sympages_bytes(m) : held;
		}
		struct alloc_use use = alloc_watched();
		print_message("%u: text %zu, spans %zu, pages %zu, of which %" PRIu64 " between two; bound %" PRIu64
		              "\n",
		        what, t.len, spans.peak, use.peak, held, bound);
		assert_true(use.peak <= bound + (what == 8 ? (64 << 20) + t.len / 4 : 0));
		assert_true(spans.peak <= 12 * t.len + (1 << 20));
		assert_true(held <= use.peak + use.peak / 4 + (1 << 20));
		sympages_free(m);
		symspans_free(s);
		symreader_free(x);
		buffer_release(&t);
	}
}

/* Each function has a name, files and origins of its own, all in one page now and then in many. */
static void make_distinct(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE a b 0 c\n");
	for (unsigned i = 0; i < n; i++)
		text_add(t, "FILE %u %0*u.c\nINLINE_ORIGIN %u origin_%u\n", i, 20 + i % 50, i, i, i);
	for (unsigned i = 0; i < n; i++)
		text_add(t, "FUNC %x 30 0 function_%0*u\nINLINE 0 1 %u %u %x 8\n%x 30 1 %u\n", i * 0x40, 10 + i % 90, i,
		        i, i, i * 0x40, i * 0x40, i);
}

/* One function, whose calls are of functions of as many files: in the form of 2021, which says that once for each. */
static void make_files_of_origins(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE a b 0 c\n");
	for (unsigned i = 0; i < n; i++)
		text_add(t, "FILE %u %u.c\nINLINE_ORIGIN %u %u o%u\n", i, i, i, i, i);
	text_add(t, "FUNC 0 %x 0 f\n", 8 * n);
	for (unsigned i = 0; i < n; i++)
		text_add(t, "INLINE 0 1 %u %x 4\n", i, 8 * i);
}

/* Functions that lie in others, some of them large, so that they are kept, dropped, and spare. */
static void make_kept(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE a b 0 c\nFILE 0 f\n");
	for (unsigned i = 0; i < n; i++) {
		text_add(t, "FUNC %x %x 0 f%u\n", i * 0x40, i % 100 ? 0x30 + i % 7 * 0x40 : 0x40 * n, i);
		for (unsigned j = 0; j < (i % 1000 ? 3 : 3000); j++)
			text_add(t, "%x 8 %u 0\n", i * 0x40 + j * 8, j);
	}
}

/* Functions of some 50 KB in memory, each in all before it; and small ones behind them. */
static void make_deep(struct buffer *t, unsigned n)
{
	text_add(t, "MODULE a b 0 c\nFILE 0 f\n");
	for (unsigned i = 0; i < n; i++) {
		text_add(t, "FUNC %x %x 0 f%u\n", i * 0x2000, (n - i) * 0x2000, i);
		for (unsigned j = 0; j < 1500; j++)
			text_add(t, "%x 4 %u 0\n", i * 0x2000 + j * 4, j);
	}
	for (unsigned i = 0; i < 2000; i++)
		text_add(t, "FUNC %x 8 0 small%u\n%x 8 1 0\n", n * 0x2000 + i * 8, i, n * 0x2000 + i * 8);
}

/* After each page a maker counts what it holds, as malloc does; and it lets go what it need not keep. */
static void check_counted(const struct buffer *t, uint64_t most, uint64_t last)
{
	enum { UNCOUNTED = 64 << 10 }; /* an eighth, too: what malloc adds is guessed */
	struct symreader *x = read_of(text_str(t), SIZE_MAX);
	struct symspans *s = symspans_new(x->records, false);
	assert_non_null(s);
	assert_in_range(s->page_count, 20, UINT32_MAX);
	alloc_watch();
	struct sympages *m = sympages_new(x->records, s);
	assert_non_null(m);
	uint64_t peak = 0, held = 0;
	for (uint32_t i = 0; i < s->page_count; i++) {
		struct page *p = sympages_code(m, i);
		assert_non_null(p);
		page_unref(p);
		uint64_t counted = sympages_bytes(m);
		held = alloc_held();
		if (counted > held + held / 8 + UNCOUNTED || held > counted + counted / 8 + UNCOUNTED)
			fail_msg("page %u: %" PRIu64 " bytes are counted, %" PRIu64 " held", i, counted, held);
		peak = held > peak ? held : peak;
	}
	print_message("text %zu, %u pages, held between two at most %" PRIu64 ", at the end %" PRIu64 "\n", t->len,
	        s->page_count, peak, held);
	assert_true(peak <= most && held <= last);
	sympages_free(m);
	assert_int_equal(alloc_held(), 0);
	alloc_watched();
	symspans_free(s);
	symreader_free(x);
}

static void test_files_of_origins_are_counted(void **state)
{
	(void)state;
	struct buffer t = text_new();
	make_files_of_origins(&t, 17000);
	check_counted(&t, 16 << 20, 16 << 20);
	buffer_release(&t);
}

static void test_what_is_counted_is_held(void **state)
{
	(void)state;
	struct buffer t = text_new();
	make_distinct(&t, rounds(60000));
	check_counted(&t, 1 << 20, 1 << 20);
	t.len = 0;
	make_kept(&t, rounds(20000));
	check_counted(&t, 16 << 20, 16 << 20);
	t.len = 0;
	make_deep(&t, 150);
	check_counted(&t, 16 << 20, 5 << 20);
	buffer_release(&t);
}

/* ---- failures ---- */

struct attempt {
	struct buffer text;
	bool nearest;
};

static bool try_all(void *arg)
{
	const struct attempt *a = arg;
	struct error e;
	struct symreader *x = symreader_new(no_id, 0);
	struct symspans *s = NULL;
	struct offmap *m = NULL;
	enum err err = ERR_NO_MEMORY;
	for (size_t at = 0; x && at < a->text.len; at += 700)
		if ((err = symreader_feed(x, a->text.data + at, a->text.len - at < 700 ? a->text.len - at : 700, &e)))
			break;
	if (!err)
		err = symreader_finish(x, &e);
	if (!err)
		s = symspans_new(x->records, a->nearest);
	if (s)
		m = sympages_all(x->records, s, str_from(""));
	bool made = m != NULL;
	symspans_free(s);
	symreader_free(x);
	offmap_free(m);
	assert_true(!err || err == ERR_NO_MEMORY);
	return made;
}

static void test_no_memory(void **state)
{
	struct attempt a = {.text = text_new()};
	(void)state;
	text_add(&a.text, "MODULE a b 0 c\nINFO CODE_ID 1 c.exe\nFILE 70000 a.c\nINLINE_ORIGIN 1 %0100u\n", 1);
	text_add(&a.text, "FUNC 1000 10000 0 large\n");
	for (unsigned i = 0; i < 1500; i++)
		text_add(&a.text, "INLINE 0 %u 0 1 %x 8\n%x 10 %u 70000\n", i, 0x1000 + 16 * i, 0x1000 + 16 * i, i);
	text_add(&a.text, "FUNC 2000 8 0 inner\nFUNC 2000 7 0 %0300u\n2000 1 1 1\nPUBLIC 100 0 p\nFUNC 7 0 0 empty\n",
	        1);
	for (unsigned nearest = 0; nearest < 2; nearest++) {
		a.nearest = nearest;
		assert_in_range(fail_each_allocation(try_all, &a), 30, 2000);
	}
	buffer_release(&a.text);
}

/* Pages, the last one first, by one maker; one that fails is made again. */
struct backwards {
	const struct records *records;
	struct symspans *spans;
	struct offmap *want;
};

static bool make_backwards(void *arg)
{
	const struct backwards *b = arg;
	struct sympages *pages = sympages_new(b->records, b->spans);
	bool at_once = pages != NULL;
	for (uint32_t i = b->want->code_count; pages && i--;) {
		const struct page *want = b->want->code[i];
		struct page *p = sympages_code(pages, i);
		at_once = at_once && p;
		if (!p && !(p = sympages_code(pages, i)))
			continue;
		assert_int_equal(p->len, want->len);
		assert_memory_equal(p->bytes, want->bytes, want->len);
		page_unref(p);
	}
	sympages_free(pages);
	return at_once;
}

/* A function that is kept, and whose page failed in the middle of a line, answers as before in the pages before it. */
static void test_a_page_after_one_that_lacked_memory(void **state)
{
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE a b 0 c\nFILE 0 a.c\nFUNC 1000 30 0 outer\n1000 10 1 0\n1010 20 2 0\n"
	             "FUNC 1018 8 0 inner\n1018 8 7 0\n");
	struct symreader *x = symreader_new(no_id, 1);
	assert_non_null(x);
	assert_int_equal(symreader_feed(x, t.data, t.len, NULL) || symreader_finish(x, NULL), ERR_OK);
	struct backwards b = {.records = x->records, .spans = symspans_new(x->records, false)};
	b.want = sympages_all(b.records, b.spans, str_from(""));
	assert_non_null(b.want);
	assert_int_equal(b.want->code_count, 4);
	fail_each_allocation(make_backwards, &b);
	offmap_free(b.want);
	symspans_free(b.spans);
	symreader_free(x);
	buffer_release(&t);
}

static size_t unpacked;

int __real_LZ4_decompress_safe(const char *from, char *to, int len, int cap);
int __wrap_LZ4_decompress_safe(const char *from, char *to, int len, int cap);

int __wrap_LZ4_decompress_safe(const char *from, char *to, int len, int cap)
{
	int n = __real_LZ4_decompress_safe(from, to, len, cap);
	unpacked += n > 0 ? (size_t)n : 0;
	return n;
}

/* As linkers lay functions out by how often they run. */
static void test_names_in_another_order_than_addresses(void **state)
{
	enum { FUNCS = 20000, STEP = 7919 };
	struct buffer t = text_new();
	(void)state;
	text_add(&t, "MODULE a b 0 c\nFILE 0 a.c\n");
	for (unsigned i = 0; i < FUNCS; i++) {
		unsigned at = i * STEP % FUNCS;
		text_add(&t,
		        "FUNC %x 10 0 std::vector<place_%u, allocator<place_%u>>::push_back(place_%u&&)\n%x 10 1 0\n",
		        16 * at, at, at, at, 16 * at);
	}
	struct symreader *x = symreader_new(no_id, 0);
	assert_non_null(x);
	assert_int_equal(symreader_feed(x, t.data, t.len, NULL) || symreader_finish(x, NULL), ERR_OK);
	struct symspans *s = symspans_new(x->records, false);
	unpacked = 0;
	struct offmap *m = sympages_all(x->records, s, str_from(""));
	assert_non_null(m);
	print_message("%zu bytes unpacked for each name\n", unpacked / FUNCS);
	assert_in_range(unpacked / FUNCS, 1, 9 << 10); /* a few lie in two blocks */
	offmap_free(m);
	symspans_free(s);
	symreader_free(x);
	buffer_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_scans),
	        cmocka_unit_test(test_record_scans),
	        cmocka_unit_test(test_what_is_noted),
	        cmocka_unit_test(test_lines_that_are_too_long),
	        cmocka_unit_test(test_sparse_ids),
	        cmocka_unit_test(test_chunks),
	        cmocka_unit_test(test_bytes),
	        cmocka_unit_test(test_bytes_of_a_line_in_pieces),
	        cmocka_unit_test(test_answers),
	        cmocka_unit_test(test_large_functions),
	        cmocka_unit_test(test_a_large_function_is_cut_alike_wherever_it_lies),
	        cmocka_unit_test(test_vast_functions),
	        cmocka_unit_test(test_nested_functions),
	        cmocka_unit_test(test_long_names),
	        cmocka_unit_test(test_a_large_function_is_read_once),
	        cmocka_unit_test(test_a_large_function_that_others_interrupt_is_read_once),
	        cmocka_unit_test(test_memory_of_pages),
	        cmocka_unit_test(test_what_is_counted_is_held),
	        cmocka_unit_test(test_files_of_origins_are_counted),
	        cmocka_unit_test(test_no_memory),
	        cmocka_unit_test(test_a_page_after_one_that_lacked_memory),
	        cmocka_unit_test(test_names_in_another_order_than_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
