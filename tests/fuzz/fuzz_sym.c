/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a symbol file says what the plain reader says; in pieces the same as in one, compressed the same as raw,
 * a map for a few offsets answers them as the map of all, and so does one that is made from an index, whatever way. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "fuzz.h"
#include "format/breakpad.h"
#include "format/offmap_read.h"
#include "format/offmap_value.h"
#include "../tools/indexed_map.h"
#include "plain_sym.h"

enum { OFFSETS_MAX = 128, ASKED_EVERY = 5 };

static void expand(struct page **pages, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct page *raw = page_expand(pages[i]);
		fuzz_check(raw, "a page does not expand");
		page_unref(pages[i]);
		pages[i] = raw;
	}
}

/* In chunks, each in a block of its own size. options->threaded: from the middle of the text on. NULL: corrupt. */
static struct offmap *build(
        struct str text, size_t chunk, const struct offmap_options *options, const uint64_t *asked, size_t asked_count)
{
	struct error e;
	struct offmap *m = NULL;
	enum err err = ERR_OK;
	struct offmap_options first = *options;
	first.threaded = false;
	struct breakpad *p = breakpad_new(&first, str_from(""));
	fuzz_check(p && (!asked || breakpad_ask(p, asked, asked_count)), "no memory");
	for (size_t at = 0, n; at < text.len && !err; at += n) {
		n = text.len - at < chunk ? text.len - at : chunk;
		uint8_t *exact = fuzz_copy(text.data + at, n);
		if (options->threaded && at >= text.len / 2)
			breakpad_use_threads(p);
		err = breakpad_feed(p, exact, n, &e);
		free(exact);
	}
	if (!err)
		err = breakpad_finish(p, &m, &e);
	fuzz_check(err == ERR_OK || err == ERR_CORRUPT, "an error that this is not");
	breakpad_free(p);
	if (!m)
		return NULL;
	expand(m->code, m->code_count);
	expand(m->strings, m->string_count);
	return m;
}

static void put_string(const struct offmap *m, struct offmap_string s, struct buffer *out)
{
	if (s.external) {
		int64_t page = offmap_string_page(m, s.external);
		fuzz_check(page >= 0 && offmap_string_lookup(m->strings[page], s.external, &s) == ERR_OK,
		        "a string is missing");
	}
	fuzz_check(buffer_append(out, s.data, s.len) && buffer_append(out, "\n", 1), "no memory");
}

static void put_call(const struct offmap *m, const struct offmap_call *c, struct buffer *out)
{
	put_string(m, c->function, out);
	put_string(m, c->file, out);
	bool known = c->file.len || c->file.external;
	buffer_printf(out, "%" PRIu32 "\n", known ? c->line : 0);
}

/* In the form of plain_sym_describe. */
static void describe(const struct offmap *m, uint64_t offset, struct buffer *out)
{
	struct arena arena;
	struct offmap_answer a = {0};
	int64_t page = offmap_code_page(m, offset);
	arena_init(&arena, 1 << 24);
	fuzz_check(page < 0 || offmap_lookup(m->code[page], offset, &arena, &a) == ERR_OK, "a page is not sound");
	for (uint32_t i = 0; a.found && i < a.inline_count; i++)
		put_call(m, &a.inlines[i], out);
	if (a.found) {
		put_call(m, &a.frame, out);
		buffer_printf(out, "+%" PRIx64, a.function_offset);
		if (a.has_size)
			buffer_printf(out, "/%" PRIx64 "\n", a.function_size);
		else
			buffer_printf(out, "/?\n");
	} else {
		buffer_printf(out, "-\n");
	}
	arena_release(&arena);
}

static void check_same_text(const struct buffer *want, const struct buffer *got, const char *what, uint64_t offset)
{
	if (str_equal((struct str){(char *)want->data, want->len}, (struct str){(char *)got->data, got->len}))
		return;
	fprintf(stderr, "0x%" PRIx64 ": %s\nwanted:\n%.*s\ngot:\n%.*s\n", offset, what, (int)want->len,
	        (const char *)want->data, (int)got->len, (const char *)got->data);
	abort();
}

static void check_code_file(const struct offmap *m, struct str name)
{
	struct buffer want;
	buffer_init(&want, SIZE_MAX / 4);
	fuzz_check(buffer_append_json(&want, name), "no memory");
	fuzz_check(want.len == m->code_file_len + 2u &&
	                   (!m->code_file_len || memcmp(want.data + 1, m->code_file, m->code_file_len) == 0),
	        "another code file");
	buffer_release(&want);
}

static void check_same_pages(struct page *const *a, struct page *const *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fuzz_check(a[i]->len == b[i]->len && memcmp(a[i]->bytes, b[i]->bytes, a[i]->len) == 0, "another page");
}

static void check_same_map(const struct offmap *a, const struct offmap *b)
{
	struct page *x = offmap_root_encode(a), *y = offmap_root_encode(b);
	fuzz_check(x && y, "no memory");
	check_same_pages(&x, &y, 1);
	check_same_pages(a->code, b->code, a->code_count);
	check_same_pages(a->strings, b->strings, a->string_count);
	page_unref(x);
	page_unref(y);
}

/* Every fifth of the offsets, answered from a map that is made for those alone. */
static void check_asked(struct str text, const struct offmap *whole, const uint64_t *offsets, size_t count,
        const struct offmap_options *options)
{
	uint64_t asked[OFFSETS_MAX];
	struct buffer want, got;
	size_t n = 0;
	for (size_t i = text.len % ASKED_EVERY; i < count; i += ASKED_EVERY)
		asked[n++] = offsets[i];
	struct offmap *m = build(text, text.len % 61 + 1, options, asked, n);
	buffer_init(&want, SIZE_MAX / 4);
	buffer_init(&got, SIZE_MAX / 4);
	fuzz_check(m, "corrupt when it is asked");
	for (size_t i = 0; i < n; i++) {
		buffer_reset(&want);
		buffer_reset(&got);
		describe(whole, asked[i], &want);
		describe(m, asked[i], &got);
		check_same_text(&want, &got, "another answer when it is asked", asked[i]);
	}
	buffer_release(&want);
	buffer_release(&got);
	offmap_free(m);
}

static void check_answers(
        const struct plain_sym *plain, const struct offmap *m, const uint64_t *offsets, size_t count, bool nearest)
{
	struct buffer want, got;
	buffer_init(&want, SIZE_MAX / 4);
	buffer_init(&got, SIZE_MAX / 4);
	for (size_t i = 0; i < count; i++) {
		buffer_reset(&want);
		buffer_reset(&got);
		plain_sym_describe(plain, offsets[i], nearest, &want);
		describe(m, offsets[i], &got);
		check_same_text(&want, &got, nearest ? "another answer, nearest" : "another answer", offsets[i]);
	}
	buffer_release(&want);
	buffer_release(&got);
}

/* The map made from an index, in two ways that the text chooses. */
static void check_indexed(
        struct str text, const struct plain_sym *plain, const uint64_t *offsets, size_t count, bool nearest)
{
	struct error e;
	uint32_t page_text = (uint32_t)(text.len % 3 ? text.len % 300 : 0);
	struct indexed_how one = {.nearest = nearest, .page_text = page_text},
	                   other = {.nearest = nearest,
	                           .page_text = page_text,
	                           .chunk = text.len % 17 + 1,
	                           .block = text.len % 23 + 1,
	                           .shuffle = text.len + 1,
	                           .threads = text.len % 29 ? 1 : 2};
	struct offmap *m = indexed_map(text, (struct str){"", 0}, &one, &e);
	struct offmap *again = indexed_map(text, (struct str){"", 0}, &other, &e);
	fuzz_check(!m == plain_sym_corrupt(plain) && !again == !m, m ? "indexed, not corrupt" : "indexed, corrupt");
	if (!m)
		return;
	fuzz_check(m->damaged == plain_sym_damaged(plain), "indexed, another number of damaged lines");
	check_code_file(m, plain_sym_code_file(plain));
	check_same_map(m, again);
	check_answers(plain, m, offsets, count, nearest);
	offmap_free(m);
	offmap_free(again);
}

static void check(struct str text, const struct plain_sym *plain, bool nearest)
{
	static const size_t chunks[] = {1, 2, 3, 7, 13, 64, 997};
	const struct offmap_options raw = {.nearest = nearest, .raw_budget = UINT64_MAX, .codec = CODEC_LZ4},
	                            small = {.nearest = nearest,
	                                    .codec = text.len % 2 ? CODEC_LZ4 : CODEC_ZSTD,
	                                    .threaded = text.len % 3 == 0};
	uint64_t offsets[OFFSETS_MAX];
	struct offmap *m = build(text, SIZE_MAX, &raw, NULL, 0);
	struct offmap *pieces = build(text, chunks[text.len % 7], &small, NULL, 0);
	fuzz_check(!m == plain_sym_corrupt(plain), m ? "not corrupt" : "corrupt");
	fuzz_check(!m == !pieces, "in pieces corrupt or not");
	if (!m) {
		check_indexed(text, plain, NULL, 0, nearest);
		return;
	}
	fuzz_check(m->damaged == plain_sym_damaged(plain), "another number of damaged lines");
	check_code_file(m, plain_sym_code_file(plain));
	check_same_map(m, pieces);
	size_t count = plain_sym_offsets(plain, offsets, OFFSETS_MAX);
	check_answers(plain, m, offsets, count, nearest);
	check_asked(text, m, offsets, count, &raw);
	check_indexed(text, plain, offsets, count, nearest);
	offmap_free(m);
	offmap_free(pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > PLAIN_SYM_MAX)
		return 0;
	struct str text = {(const char *)data, size};
	struct plain_sym *plain = plain_sym_new(text);
	check(text, plain, false);
	check(text, plain, true);
	plain_sym_free(plain);
	return 0;
}
