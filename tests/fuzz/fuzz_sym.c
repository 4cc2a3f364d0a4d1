/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a symbol file says what the plain reader says, and its map has the same bytes in whatever pieces the text
 * comes and lies, and in whatever order and by however many threads its pages are made. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/indexed_map.h"
#include "fuzz.h"
#include "plain_map.h"
#include "plain_sym.h"

enum { OFFSETS_MAX = 128 };

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
		plain_map_describe(m, offsets[i], &got);
		check_same_text(&want, &got, nearest ? "another answer, nearest" : "another answer", offsets[i]);
	}
	buffer_release(&want);
	buffer_release(&got);
}

/* The map made in two ways that the text chooses. */
static void check(struct str text, const struct plain_sym *plain, bool nearest)
{
	static const size_t chunks[] = {1, 2, 3, 7, 13, 64, 997};
	struct error e;
	uint64_t offsets[OFFSETS_MAX];
	uint32_t page_text = (uint32_t)(text.len % 3 ? text.len % 300 : 0);
	struct indexed_how one = {.nearest = nearest, .page_text = page_text},
	                   other = {.nearest = nearest,
	                           .page_text = page_text,
	                           .chunk = chunks[text.len % 7],
	                           .shuffle = text.len + 1,
	                           .threads = text.len % 29 ? 1 : 2};
	struct offmap *m = indexed_map(text, (struct str){"", 0}, &one, &e);
	struct offmap *again = indexed_map(text, (struct str){"", 0}, &other, &e);
	fuzz_check(!m == plain_sym_corrupt(plain), m ? "not corrupt" : "corrupt");
	fuzz_check(!again == !m, "in pieces corrupt or not");
	if (!m)
		return;
	fuzz_check(m->damaged == plain_sym_damaged(plain), "another number of damaged lines");
	check_code_file(m, plain_sym_code_file(plain));
	check_same_map(m, again);
	check_answers(plain, m, offsets, plain_sym_offsets(plain, offsets, OFFSETS_MAX), nearest);
	offmap_free(m);
	offmap_free(again);
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
