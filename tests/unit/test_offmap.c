/* SPDX-License-Identifier: Apache-2.0 */
/* The offset map: the same bytes however the file arrives, the same answers in whatever order its records come. */
#include <config.h>

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz_page.h"
#include "indexed_map.h"
#include "offmap_dump.h"
#include "offmap_tools.h"
#include "seed.h"
#include "sym/line.h"

/* Every kind of record, several damaged ones, both forms of INLINE; all but the last line end in LF. */
static const char everything[] =
        "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 every thing.so\n"
        "INFO CODE_ID 5CF2591C6859000 every \"thing\".dll\n"
        "INFO GENERATOR some tool\n"
        "FILE 0 a.c\n"
        "FILE 7 dir with blanks/b.h\n"
        "FILE 4294967295 /a/path/that/is/too/long/to/lie/in/the/code/page/of/those/that/use/it/c.h\n"
        "INLINE_ORIGIN 1 -1 old form\n"
        "INLINE_ORIGIN 2 inner\n"
        "INLINE_ORIGIN 3 a_name_that_is_too_long_to_lie_in_the_code_page_of_those_that_use_it(int, char)\n"
        "\n"
        "PUBLIC m 10 0 first\n"
        "FUNC m 100 80 0 outer\n"
        "INLINE 0 5 7 2 110 40 160 8\n"
        "INLINE 1 6 3 120 10 130 8\n"
        "INLINE 1 9 0 1 148 8\n"
        "INLINE 9 9 0 1 148 x\n"
        "100 10 1 0\n"
        "110 10 2 7\n"
        "120 10 3 4294967295\n"
        "130 20 4 7 and more\n"
        "0xbad 1 1 1\n"
        "150 30 5 0\n"
        "STACK CFI INIT 100 80 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n"
        "FUNC 140 4 0 nested\n"
        "140 4 44 0\n"
        "FUNC 200 20 0\n"
        "200 8 0 0\n"
        "208 8 10 55\n"
        "FUNC x y z broken\n"
        "200 4 1 0\n"
        "FUNC 300 10 0 quote\" backslash\\ control\x01 bad\xff utf8\xc3\xa9\n"
        "300 10 4294967295 0\n"
        "PUBLIC 180 0 late\n"
        "FILE 0 renamed.c\n"
        "INLINE_ORIGIN 2 inner again\n"
        "FUNC 50 8 0 unsorted\n"
        "50 8 3 0\n"
        "PUBLIC 1000 0 last";
enum { EVERYTHING_END = 0x1010 };

/* The text with other line ends; the one missing at its end stays missing. */
static struct buffer with_ends(const char *text, const char *end)
{
	struct buffer b = text_new();
	for (const char *c = text; *c; c++)
		assert_true(*c == '\n' ? buffer_append(&b, end, strlen(end)) : buffer_append(&b, c, 1));
	return b;
}

/* ---- chunks ---- */

static void test_chunks(void **state)
{
	struct str text = str_from(everything);
	struct offmap *whole = map_build(text, &plain_options);
	(void)state;
	for (size_t chunk = 1; chunk <= 64; chunk = chunk == 1 ? 7 : chunk + 19) {
		struct error e;
		struct offmap *m = indexed_map(text, str_from(""), &(struct indexed_how){.chunk = chunk}, &e);
		assert_same_maps(whole, m);
		offmap_free(m);
	}
	for (size_t cut = 1; cut < text.len; cut++) {
		struct offmap *m = map_build_cut(text, cut, &plain_options);
		assert_same_maps(whole, m);
		offmap_free(m);
	}
	offmap_free(whole);
}

static void test_everything_is_answered(void **state)
{
	struct offmap *m = map_build(str_from(everything), &plain_options);
	(void)state;
	assert_int_equal(m->damaged, 4);
	assert_int_equal(m->funcs, 5);
	assert_int_equal(m->publics, 3);
	assert_int_equal(m->lines, 10);
	assert_int_equal(m->inlines, 3);
	assert_int_equal(m->text_bytes, strlen(everything));
	assert_int_equal(m->code_file_len, strlen("every \\\"thing\\\".dll"));
	assert_memory_equal(m->code_file, "every \\\"thing\\\".dll", m->code_file_len);
	assert_string_equal(m->code_id, "5CF2591C6859000");
	assert_answer(m, 0xf, "-");
	assert_answer(m, 0x10, "first+0x0/0x40 ?");
	assert_answer(m, 0x57, "unsorted+0x7/0x8 renamed.c:3");
	assert_answer(m, 0x58, "-");
	assert_answer(m, 0x100, "outer+0x0/0x80 renamed.c:1");
	assert_answer(m, 0x110, "inner again dir with blanks/b.h:2 < outer+0x10/0x80 dir with blanks/b.h:5");
	assert_answer(m, 0x12f,
	        "a_name_that_is_too_long_to_lie_in_the_code_page_of_those_that_use_it(int, char) "
	        "/a/path/that/is/too/long/to/lie/in/the/code/page/of/those/that/use/it/c.h:3 < inner again "
	        "dir with blanks/b.h:6 < outer+0x2f/0x80 dir with blanks/b.h:5");
	assert_answer(m, 0x143, "nested+0x3/0x4 renamed.c:44");
	assert_answer(m, 0x14f,
	        "old form dir with blanks/b.h:4 < inner again renamed.c:9 < outer+0x4f/0x80 dir with blanks/b.h:5");
	assert_answer(m, 0x150, "outer+0x50/0x80 renamed.c:5");
	assert_answer(m, 0x180, "late+0x0/0x80 ?");
	assert_answer(m, 0x200, "<unknown>+0x0/0x20 renamed.c");
	assert_answer(m, 0x208, "<unknown>+0x8/0x20 ?:10");
	assert_answer(m, 0x300,
	        "quote\\\" backslash\\\\ control\\u0001 bad\xef\xbf\xbd utf8\xc3\xa9+0x0/0x10 renamed.c:4294967295");
	assert_answer(m, 0x1000, "last+0x0/? ?");
	assert_answer(m, UINT64_MAX, "last+0xffffffffffffefff/? ?");
	offmap_free(m);
}

static void test_line_ends(void **state)
{
	static const char *const ends[] = {"\r\n", "\r\r\n"};
	struct offmap *lf = map_build(str_from(everything), &plain_options);
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct buffer text = with_ends(everything, ends[i]);
		struct offmap *m = map_build(text_str(&text), &plain_options);
		assert_same_pages(lf, m);
		assert_int_equal(lf->damaged, m->damaged);
		assert_true(lf->generation != m->generation);
		for (size_t cut = 1; cut < text.len; cut += 3) {
			struct offmap *parts = map_build_cut(text_str(&text), cut, &plain_options);
			assert_same_maps(m, parts);
			offmap_free(parts);
		}
		offmap_free(m);
		buffer_release(&text);
	}
	offmap_free(lf);
}

/* The keyword of a line that is too long decides whether it ends the block, however the line was cut. */
static void test_long_line_is_cut(void **state)
{
	static const struct {
		const char *start;
		unsigned damaged;
		bool ends;
	} cases[] = {{"FUNC 3000 10 0 ", 2, true}, {"  FUNC 3000 10 0 ", 2, true}, {"PUBLIC 3000 0 ", 2, true},
	        {"FUNCTION 3000 10 0 ", 1, false}, {"STACK CFI ", 1, false}};
	static const char head[] = "MODULE Linux x86_64 0 a.so\nFILE 0 a.c\nFUNC 1000 10 0 a\n1000 8 5 0\n";
	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buffer text = text_new();
		text_add(&text, "%s%s", head, cases[i].start);
		for (unsigned k = 0; k <= BREAKPAD_LINE_MAX; k += 64)
			text_add(&text, "%064u", k);
		text_add(&text, "\n1008 8 6 0\nPUBLIC 2000 0 b\n");
		struct offmap *whole = map_build(text_str(&text), &plain_options);
		assert_int_equal(whole->damaged, cases[i].damaged);
		assert_answer(whole, 0x1008, cases[i].ends ? "a+0x8/0x10 a.c:5" : "a+0x8/0x10 a.c:6");
		for (size_t cut = strlen(head); cut < strlen(head) + 12; cut += slowness() == 1 ? 1 : 5) {
			struct offmap *m = map_build_cut(text_str(&text), cut, &plain_options);
			assert_same_maps(whole, m);
			offmap_free(m);
		}
		offmap_free(whole);
		buffer_release(&text);
	}
}

/* ---- golden ---- */

static void read_whole(const char *path, struct buffer *out)
{
	char bytes[4096];
	FILE *f = fopen(path, "rb");
	if (!f)
		fail_msg("cannot read %s", path);
	for (size_t n; (n = fread(bytes, 1, sizeof bytes, f));)
		assert_true(buffer_append(out, bytes, n));
	fclose(f);
}

static void write_whole(const char *path, const struct buffer *b)
{
	FILE *f = fopen(path, "wb");
	if (!f)
		fail_msg("cannot write %s", path);
	assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
	assert_int_equal(fclose(f), 0);
}

/* Whether an input of fuzz_page is a value, in today's format, of this kind. */
static bool is_kept_value(const char *path, enum page_kind kind)
{
	const uint8_t head[] = {VALUE, 'Y', 'S', 'M', '1', OFFMAP_VERSION, kind};
	struct buffer bytes = text_new();
	read_whole(path, &bytes);
	bool is = bytes.len >= sizeof head && memcmp(bytes.data, head, sizeof head) == 0;
	buffer_release(&bytes);
	return is;
}

/* Fuzzing from pages of an older format gets no further than their first bytes: tests/fuzz/run.sh page makes others. */
static void test_the_kept_pages_are_of_todays_format(void **state)
{
	const char *source = getenv("srcdir");
	char path[4096], folder[2048];
	unsigned kinds[PAGE_STRINGS + 1] = {0};
	(void)state;
	snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/page", source ? source : ".");
	DIR *inputs = opendir(folder);
	assert_non_null(inputs);
	for (struct dirent *entry; (entry = readdir(inputs));) {
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		for (unsigned kind = PAGE_ROOT; kind <= PAGE_STRINGS && entry->d_name[0] != '.'; kind++)
			kinds[kind] += is_kept_value(path, (enum page_kind)kind);
	}
	closedir(inputs);
	assert_true(kinds[PAGE_ROOT] && kinds[PAGE_CODE] && kinds[PAGE_STRINGS]);
}

static void dump_map(struct buffer *out, const struct offmap *m)
{
	struct value_id id = {.kind = PAGE_ROOT};
	struct page *root = offmap_root_encode(m);
	assert_non_null(root);
	assert_true(module_hash_make(
	        &id.module, "sym", str_from("golden.so"), str_from("0123456789ABCDEF0123456789ABCDEF0")));
	dump_value(out, &id, root);
	page_unref(root);
	id.generation = m->generation;
	id.kind = PAGE_CODE;
	for (id.number = 0; id.number < m->code_count; id.number++)
		dump_value(out, &id, m->code[id.number]);
	id.kind = PAGE_STRINGS;
	for (id.number = 0; id.number < m->string_count; id.number++)
		dump_value(out, &id, m->strings[id.number]);
}

/* SYMBOLICATED_GOLDEN=write makes the file anew: then the version of the format has to change, too. */
static void test_golden(void **state)
{
	const char *source = getenv("srcdir"), *how = getenv("SYMBOLICATED_GOLDEN");
	char path[4096];
	struct buffer text = text_new(), expected = text_new(), got = text_new();
	(void)state;
	snprintf(path, sizeof path, "%s/tests/data/offmap/golden.sym", source ? source : ".");
	read_whole(path, &text);
	struct error e;
	struct offmap *m = indexed_map(text_str(&text), str_from(""), &(struct indexed_how){0}, &e);
	assert_non_null(m);
	dump_map(&got, m);
	snprintf(path, sizeof path, "%s/tests/data/offmap/golden.txt", source ? source : ".");
	if (how && strcmp(how, "write") == 0)
		write_whole(path, &got);
	read_whole(path, &expected);
	if (!str_equal(text_str(&expected), text_str(&got))) {
		write_whole("golden.actual.txt", &got);
		fail_msg("the bytes differ from golden.txt: compare with golden.actual.txt");
	}
	assert_answer(m, 0x1028,
	        "std::map<std::string, std::pair<unsigned long, unsigned long>>::find(std::string const&) "
	        "/a/long/way/down/to/where/the/headers/of/a/large/program/are/kept/tree.h:400 < list_next list.h:31 < "
	        "list_walk list.h:30 < main+0x28/0x40 main.c:12");
	offmap_free(m);
	buffer_release(&text);
	buffer_release(&expected);
	buffer_release(&got);
}

/* ---- order ---- */

static const char *const definitions[] = {"FILE 1 a.c", "FILE 2 b.h",
        "FILE 3 /a/path/that/is/too/long/to/lie/in/the/code/page/of/those/that/use/it/c.h", "INLINE_ORIGIN 1 one",
        "INLINE_ORIGIN 2 two_two_two_two_two_two_two_two_two_two_two_two_two_two_two_two_two_two",
        "INLINE_ORIGIN 3 three"};

/* Nested, overlapping, of size 0; PUBLICs before, inside and behind. No two FUNCs start at one address: there the order
 * of the file is the rule. */
static const char *const symbols[] = {
        "PUBLIC 20 0 below",
        "FUNC 40 100 0 wide\nINLINE 0 1 1 1 40 80\nINLINE 1 2 2 2 60 20\n40 20 10 1\n60 40 11 3\n100 40 12 1",
        "FUNC 50 8 0 in_wide\n50 8 20 2",
        "FUNC 70 20 0 also_in_wide\nINLINE 0 7 3 3 78 8\n70 10 30 3\n80 10 31 1",
        "FUNC 78 4 0 deep_in_wide",
        "PUBLIC 90 0 in_func",
        "PUBLIC 78 0 hidden",
        "FUNC 120 60 0 across_the_end\n120 10 40 1\n140 40 41 2",
        "FUNC 170 0 0 empty",
        "PUBLIC 178 0 behind_empty",
        "PUBLIC 1a0 0 gap",
        "FUNC 1c0 10 0 plain\n1c0 4 50 1\n1c4 4 50 1\n1c8 8 51 2",
        "PUBLIC 1d8 0 twice",
        "FUNC 1e0 10 0 next_to",
        "FUNC 1f0 8 0 touching\n1f0 8 60 3",
        "PUBLIC 200 0 end",
};
enum {
	DEFINITIONS = sizeof definitions / sizeof *definitions,
	SYMBOLS = sizeof symbols / sizeof *symbols,
	ORDER_END = 0x210
};

static void add_definitions(struct buffer *text)
{
	for (unsigned i = 0; i < DEFINITIONS; i++)
		text_add(text, "%s\n", definitions[i]);
}

/* The symbols in an order, the definitions before the one at place `define_at` of it (SYMBOLS: behind all). */
static struct offmap *build_ordered(const unsigned *order, unsigned define_at, const struct offmap_options *options)
{
	struct buffer text = text_new();
	text_add(&text, "MODULE Linux x86_64 0 order.so\n");
	for (unsigned i = 0; i < SYMBOLS; i++) {
		if (i == define_at)
			add_definitions(&text);
		text_add(&text, "%s\n", symbols[order[i]]);
	}
	if (define_at >= SYMBOLS)
		add_definitions(&text);
	struct offmap *m = map_build(text_str(&text), options);
	buffer_release(&text);
	return m;
}

static void check_order(const struct offmap *expected, const unsigned *order, const struct offmap_options *options)
{
	static const unsigned places[] = {0, SYMBOLS / 2, SYMBOLS};
	for (unsigned i = 0; i < 3; i++) {
		struct offmap *m = build_ordered(order, places[i], options);
		assert_same_answers(expected, m, 0, ORDER_END);
		offmap_free(m);
	}
}

/* FUNCs before PUBLICs, as Breakpad's writer has them. */
static void publics_last(unsigned *order)
{
	unsigned n = 0;
	for (int public = 0; public < 2; public ++)
		for (unsigned i = 0; i < SYMBOLS; i++)
			if ((symbols[i][0] == 'P') == public)
				order[n++] = i;
	assert_int_equal(n, SYMBOLS);
}

static void check_orders(const struct offmap_options *options)
{
	unsigned sorted[SYMBOLS], order[SYMBOLS];
	uint64_t seed = seed_of(1);
	for (unsigned i = 0; i < SYMBOLS; i++)
		sorted[i] = order[i] = i;
	struct offmap *expected = build_ordered(sorted, 0, options);
	check_order(expected, sorted, options);
	for (unsigned i = 0; i < SYMBOLS; i++)
		order[i] = SYMBOLS - 1 - i;
	check_order(expected, order, options);
	publics_last(order);
	check_order(expected, order, options);
	for (unsigned round = 0; round < rounds(60); round++) {
		for (unsigned i = SYMBOLS - 1; i > 0; i--) {
			unsigned k = next_random(&seed) % (i + 1), swap = order[i];
			order[i] = order[k];
			order[k] = swap;
		}
		check_order(expected, order, options);
	}
	offmap_free(expected);
}

static void test_order(void **state)
{
	(void)state;
	check_orders(&plain_options);
	check_orders(&nearest_options);
}

/* Names that lie in string pages, of symbols that are taken out of their page again. */
static void test_long_names_of_late_file(void **state)
{
	struct buffer text = text_new(), expected = text_new();
	(void)state;
	text_add(&text, "MODULE Linux x86_64 0 long.so\n");
	for (unsigned i = 1; i <= 3; i++) {
		text_add(&text, "FUNC %x 10 0 ", i * 0x100);
		for (unsigned k = 0; k < 100; k++)
			text_add(&text, "%020u", i * 1000 + k);
		text_add(&text, "\n");
	}
	text_add(&text, "PUBLIC 10 0 late\n");
	struct offmap *m = map_build(text_str(&text), &plain_options);
	assert_answer(m, 0x10, "late+0x0/0xf0 ?");
	for (unsigned i = 1; i <= 3; i++) {
		buffer_reset(&expected);
		for (unsigned k = 0; k < 100; k++)
			text_add(&expected, "%020u", i * 1000 + k);
		text_add(&expected, "+0xf/0x10 ?%c", 0);
		assert_answer(m, i * 0x100 + 15, (const char *)expected.data);
	}
	offmap_free(m);
	buffer_release(&text);
	buffer_release(&expected);
}

static const char long_name[] = "a_long_name_a_long_name_a_long_name_a_long_name_a_long_name_a_long_name_a_long_name";
static const char other_long_name[] =
        "b_long_name_b_long_name_b_long_name_b_long_name_b_long_name_b_long_name_b_long_name";

/* A file whose FUNCs use id 1 of FILE and INLINE_ORIGIN, which is defined before as one and behind as other. Enough of
 * them for several pages, so that the first have been written when the second definition comes. */
static struct offmap *build_redefined(const char *one, const char *other, unsigned funcs)
{
	struct buffer text = text_new();
	text_add(&text, "MODULE Linux x86_64 0 redefined.so\n");
	if (one)
		text_add(&text, "FILE 1 %s\nINLINE_ORIGIN 1 %s\n", one, one);
	for (unsigned i = 0; i < funcs; i++)
		text_add(&text, "FUNC %x 10 0 name%u\nINLINE 0 %u 1 1 %x 8\n%x 10 %u 1\n", 0x1000 + 16 * i, i, i + 1,
		        0x1000 + 16 * i, 0x1000 + 16 * i, i + 2);
	if (other)
		text_add(&text, "FILE 1 %s\nINLINE_ORIGIN 1 %s\n", other, other);
	struct offmap *m = map_build(text_str(&text), &plain_options);
	buffer_release(&text);
	return m;
}

static void test_last_definition_holds(void **state)
{
	static const char *const names[] = {NULL, "short", "other", long_name, other_long_name};
	(void)state;
	for (unsigned funcs = 1; funcs < (slowness() > 1 ? 1001 : 2000); funcs += 999)
		for (unsigned one = 0; one < 5; one++)
			for (unsigned other = 1; other < 5; other++) {
				struct offmap *expected = build_redefined(names[other], NULL, funcs);
				struct offmap *m = build_redefined(names[one], names[other], funcs);
				assert_same_answers(expected, m, 0x1000, 0x1020);
				assert_same_answers(expected, m, 0x1000 + 16 * (funcs - 1), 0x1000 + 16 * funcs);
				offmap_free(m);
				offmap_free(expected);
			}
}

/* ---- page cuts ---- */

enum { CUT_SEGMENTS = 3000, CUT_BASE = 0x10000 };

/* The size of segment i: from 1 byte to more than two bytes of varint hold. */
static uint64_t segment_size(unsigned i)
{
	return i % 50 == 49 ? 100000 : i % 7 + 1;
}

/* One function of so many segments that differ in line, file and depth. */
static struct offmap *build_cut_function(uint64_t *size, bool late)
{
	struct buffer text = text_new(), inlines = text_new(), lines = text_new();
	uint64_t at = CUT_BASE;
	for (unsigned i = 0; i < CUT_SEGMENTS; i++, at += segment_size(i - 1)) {
		text_add(&lines, "%" PRIx64 " %" PRIx64 " %u %u\n", at, segment_size(i), 10 + i * 7919 % 100000, i % 3);
		for (unsigned depth = 0; depth < i % 4; depth++)
			text_add(&inlines, "INLINE %u %u %u %u %" PRIx64 " %" PRIx64 "\n", depth, i + depth + 1,
			        depth % 3, depth, at, segment_size(i));
	}
	*size = at - CUT_BASE;
	text_add(&text, "MODULE Linux x86_64 0 cut.so\nFILE 0 a.c\nFILE 1 b.c\nFILE 2 c.c\n");
	text_add(&text, "INLINE_ORIGIN 0 zero\nINLINE_ORIGIN 1 one\nINLINE_ORIGIN 2 two\n");
	text_add(&text, "FUNC %x %" PRIx64 " 0 f\n", CUT_BASE, *size);
	assert_true(buffer_append_str(&text, text_str(&inlines)) && buffer_append_str(&text, text_str(&lines)));
	text_add(&text, "FUNC %" PRIx64 " 10 0 behind\n", CUT_BASE + *size);
	if (late)
		text_add(&text, "FUNC 10 10 0 before\n");
	struct offmap *m = map_build(text_str(&text), &plain_options);
	buffer_release(&text);
	buffer_release(&inlines);
	buffer_release(&lines);
	return m;
}

/* What segment i answers at its byte `at`, counted from the function's start. */
static void expect_segment(struct buffer *out, unsigned i, uint64_t at, uint64_t size)
{
	static const char *const files[] = {"a.c", "b.c", "c.c"}, *const origins[] = {"zero", "one", "two"};
	const char *file = files[i % 3];
	unsigned line = 10 + i * 7919 % 100000;
	buffer_reset(out);
	for (unsigned depth = i % 4; depth-- > 0;) {
		text_add(out, "%s %s:%u < ", origins[depth], file, line);
		file = files[depth % 3];
		line = i + depth + 1;
	}
	text_add(out, "f+0x%" PRIx64 "/0x%" PRIx64 " %s:%u", at, size, file, line);
	assert_true(buffer_append(out, "", 1));
}

static void check_cut_function(const struct offmap *m, uint64_t size)
{
	struct buffer expected = text_new();
	uint64_t at = 0;
	for (unsigned i = 0; i < CUT_SEGMENTS; i++) {
		const uint64_t edges[] = {at, at + segment_size(i) - 1};
		for (unsigned k = 0; k < 2; k++) {
			expect_segment(&expected, i, edges[k], size);
			assert_answer(m, CUT_BASE + edges[k], (const char *)expected.data);
		}
		at += segment_size(i);
	}
	assert_answer(m, CUT_BASE + at, "behind+0x0/0x10 ?");
	assert_answer(m, CUT_BASE - 1, "-");
	buffer_release(&expected);
}

/* Every piece holds at most so many segments, none reaches into the next, and the pages' firsts are their own. */
static void check_pieces(const struct offmap *m)
{
	uint64_t end = 0;
	for (uint32_t i = 0; i < m->code_count; i++) {
		uint32_t count = code_page_pieces(m->code[i]);
		assert_true(count > 0);
		for (uint32_t k = 0; k < count; k++) {
			struct piece p;
			assert_true(piece_read(m->code[i], k, &p));
			assert_true(k || p.address == m->code_first[i]);
			assert_true(p.address >= end);
			assert_true(p.segments <= OFFMAP_PIECE_SEGMENTS);
			end = p.address + p.covered;
		}
	}
}

static void test_cuts(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		uint64_t size;
		struct offmap *m = build_cut_function(&size, late);
		assert_true(m->code_count >= 3);
		check_pieces(m);
		check_cut_function(m, size);
		offmap_free(m);
	}
}

/* A cut repeats the chain: here as many nodes as the segments allow. */
static void check_cut_of_a_chain(unsigned segments)
{
	struct buffer text = text_new();
	text_add(&text, "MODULE Linux x86_64 0 deep.so\nFILE 0 a.c\nINLINE_ORIGIN 0 in\nFUNC 1000 200 0 f\n");
	for (unsigned depth = 0; depth < 4 * segments; depth++)
		text_add(&text, "INLINE %u 1 0 0 1000 200\n", depth);
	for (unsigned i = 0; i < 0x200; i++)
		text_add(&text, "%x 1 %u 0\n", 0x1000 + i, i + 1);
	struct offmap *m = map_build(text_str(&text), &plain_options);
	assert_int_equal(most_segments(m), segments);
	offmap_free(m);
	buffer_release(&text);
}

static void test_a_piece_is_cut_where_its_chain_is_short_enough(void **state)
{
	(void)state;
	check_cut_of_a_chain(OFFMAP_PIECE_SEGMENTS);
	check_cut_of_a_chain(2 * OFFMAP_PIECE_SEGMENTS);
}

/* A function cut by others that lie in it, each answering for its own. */
static void test_function_around_others(void **state)
{
	struct buffer text = text_new();
	(void)state;
	text_add(&text, "MODULE Linux x86_64 0 around.so\nFILE 0 a.c\nFUNC 0 100000 0 around\n");
	for (unsigned i = 0; i < 1024; i++)
		text_add(&text, "%x 400 %u 0\n", i * 0x400, i + 1);
	for (unsigned i = 0; i < 1024; i++)
		text_add(&text, "FUNC %x 10 0 inside%u\n", i * 0x400 + 0x200, i);
	struct offmap *m = map_build(text_str(&text), &plain_options);
	check_pieces(m);
	for (unsigned i = 0; i < 1024; i++) {
		char expected[100];
		snprintf(expected, sizeof expected, "around+0x%x/0x100000 a.c:%u", i * 0x400 + 0x1ff, i + 1);
		assert_answer(m, i * 0x400 + 0x1ff, expected);
		snprintf(expected, sizeof expected, "inside%u+0xf/0x10 ?", i);
		assert_answer(m, i * 0x400 + 0x20f, expected);
		snprintf(expected, sizeof expected, "around+0x%x/0x100000 a.c:%u", i * 0x400 + 0x210, i + 1);
		assert_answer(m, i * 0x400 + 0x210, expected);
		snprintf(expected, sizeof expected, "around+0x%x/0x100000 a.c:%u", i * 0x400 + 0x3ff, i + 1);
		assert_answer(m, i * 0x400 + 0x3ff, expected);
	}
	offmap_free(m);
	buffer_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_chunks),
	        cmocka_unit_test(test_everything_is_answered),
	        cmocka_unit_test(test_line_ends),
	        cmocka_unit_test(test_long_line_is_cut),
	        cmocka_unit_test(test_golden),
	        cmocka_unit_test(test_the_kept_pages_are_of_todays_format),
	        cmocka_unit_test(test_order),
	        cmocka_unit_test(test_long_names_of_late_file),
	        cmocka_unit_test(test_last_definition_holds),
	        cmocka_unit_test(test_cuts),
	        cmocka_unit_test(test_a_piece_is_cut_where_its_chain_is_short_enough),
	        cmocka_unit_test(test_function_around_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
