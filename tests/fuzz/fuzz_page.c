/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: whatever a page, a root or a value is, reading it stays within it and says the same twice. The first byte
 * chooses what the rest is. */
#include <config.h>

#include "base/arena.h"
#include "base/hash.h"
#include "fuzz.h"
#include "fuzz_page.h"
#include "map/read.h"

enum { ARENA_MAX = 64 << 20, RAW_MAX = 1 << 20 };

static struct page *page_of(enum page_kind kind, const uint8_t *data, size_t size)
{
	struct page *p = page_new(kind, (uint32_t)size);
	fuzz_check(p, "no memory");
	if (size)
		memcpy(p->bytes, data, size);
	return p;
}

/* Every byte of a string is in its page. */
static void check_string(const struct page *p, const struct offmap_string *s)
{
	if (s->external || !s->len)
		return;
	fuzz_check(s->data >= p->bytes && s->data + s->len <= p->bytes + p->len, "a string outside its page");
}

static void check_call(const struct page *p, const struct offmap_call *c)
{
	check_string(p, &c->function);
	check_string(p, &c->file);
}

static void look_up(const struct page *p, uint64_t offset, struct arena *arena)
{
	struct offmap_answer a = {0}, function = {0};
	arena_reset(arena);
	enum err err = offmap_lookup(p, offset, arena, &a), of_function = offmap_lookup_function(p, offset, &function);
	fuzz_check(err == ERR_OK || err == ERR_CORRUPT || err == ERR_NO_MEMORY, "another error");
	fuzz_check(arena->used <= 64 * (size_t)p->len + 4096, "much memory for a small page");
	fuzz_check(!of_function || of_function == ERR_CORRUPT, "another error for the function alone");
	if (err)
		return;
	fuzz_check(!of_function && function.found == a.found && function.function_offset == a.function_offset &&
	                   function.frame.function.data == a.frame.function.data && !function.inline_count,
	        "another function where it is looked up alone");
	if (!a.found)
		return;
	check_call(p, &a.frame);
	for (uint32_t i = 0; i < a.inline_count; i++)
		check_call(p, &a.inlines[i]);
}

/* At each piece that the directory has, around it, and at the far ends. */
static void read_code(const uint8_t *data, size_t size)
{
	struct arena arena;
	struct page *p = page_of(PAGE_CODE, data, size);
	uint32_t pieces = code_page_pieces(p);
	arena_init(&arena, ARENA_MAX);
	look_up(p, 0, &arena);
	look_up(p, UINT64_MAX, &arena);
	for (uint32_t i = 0; i < pieces && i < 64; i++) {
		struct piece piece;
		if (!piece_read(p, i, &piece))
			continue;
		look_up(p, piece.address, &arena);
		look_up(p, piece.address - 1, &arena);
		look_up(p, piece.address + piece.covered / 2, &arena);
		look_up(p, piece.address + piece.covered - 1, &arena);
	}
	arena_release(&arena);
	page_unref(p);
}

static void read_strings(const uint8_t *data, size_t size)
{
	struct page *p = page_of(PAGE_STRINGS, data, size);
	uint32_t first = size >= 4 ? get_u32(data) : 0;
	for (uint32_t i = 0; i < 40; i++) {
		struct offmap_string s = {0};
		enum err err = offmap_string_lookup(p, first + i - 2, &s);
		fuzz_check(err == ERR_OK || err == ERR_CORRUPT, "another error");
		if (err)
			continue;
		fuzz_check(!s.external && i >= 2, "a string that is not there");
		check_string(p, &s);
	}
	page_unref(p);
}

/* What decodes says the same when it is encoded again. */
static void read_root(const uint8_t *data, size_t size)
{
	struct offmap *m, *again;
	if (offmap_root_decode(data, size, &m)) {
		fuzz_check(!m, "a map in spite of an error");
		return;
	}
	for (uint32_t i = 0; i < m->code_count; i++) {
		fuzz_check(!i || m->code_first[i] > m->code_first[i - 1], "code pages that do not ascend");
		fuzz_check(offmap_code_page(m, m->code_first[i]) == i, "another code page");
	}
	for (uint32_t i = 0; i < m->string_count; i++)
		fuzz_check(offmap_string_page(m, m->string_first[i]) == i, "another string page");
	struct page *root = offmap_root_encode(m);
	fuzz_check(root && root->len <= size, "an encoding that is longer");
	fuzz_check(offmap_root_decode(root->bytes, root->len, &again) == ERR_OK, "its encoding does not decode");
	struct page *twice = offmap_root_encode(again);
	fuzz_check(twice && twice->len == root->len && memcmp(twice->bytes, root->bytes, root->len) == 0,
	        "another encoding");
	page_unref(root);
	page_unref(twice);
	offmap_free(m);
	offmap_free(again);
}

static void read_page(const struct page *p)
{
	if (p->kind == PAGE_CODE)
		read_code(p->bytes, p->len);
	else if (p->kind == PAGE_STRINGS)
		read_strings(p->bytes, p->len);
	else
		read_root(p->bytes, p->len);
}

/* Bytes that memcached might have instead of a value. */
static void read_value(const uint8_t *data, size_t size)
{
	struct page *p;
	for (unsigned i = 0; i < sizeof page_ids / sizeof *page_ids; i++) {
		enum err err = value_decode(data, size, &page_ids[i], NULL, &p);
		fuzz_check(err == ERR_OK || err == ERR_CORRUPT, "another error");
		fuzz_check(!err == !!p, "a page in spite of an error");
		if (p)
			read_page(p);
		page_unref(p);
	}
}

/* A payload under a header and a checksum that fit: kind, codec and length are what the input says. */
static void read_sealed(const uint8_t *data, size_t size)
{
	static const uint8_t start[] = {'Y', 'S', 'M', '1', OFFMAP_VERSION};
	if (size < 6 || get_u32(data + 2) > RAW_MAX)
		return;
	const struct value_id *id = &page_ids[data[0] % (sizeof page_ids / sizeof *page_ids)];
	size_t len = VALUE_HEADER + size - 6;
	uint8_t *value = malloc(len);
	fuzz_check(value, "no memory");
	memcpy(value, start, sizeof start);
	value[5] = id->kind;
	value[6] = data[1];
	value[7] = 0;
	memcpy(value + 8, id->module.bytes, sizeof id->module.bytes);
	put_u64(value + 24, id->generation);
	put_u32(value + 32, id->number);
	memcpy(value + 36, data + 2, 4);
	memcpy(value + VALUE_HEADER, data + 6, size - 6);
	put_u64(value + 40, checksum(value, 40, value + VALUE_HEADER, size - 6));
	struct page *p;
	enum err err = value_decode(value, len, id, NULL, &p);
	fuzz_check(err == ERR_OK || err == ERR_CORRUPT, "another error");
	if (!err) {
		fuzz_check(p->len == get_u32(data + 2) && p->kind == id->kind, "another page than it says");
		read_page(p);
	}
	page_unref(p);
	free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[KINDS])(const uint8_t *, size_t) = {
	        [CODE] = read_code,
	        [STRINGS] = read_strings,
	        [ROOT] = read_root,
	        [VALUE] = read_value,
	        [SEALED] = read_sealed,
	};
	if (!size)
		return 0;
	uint8_t *exact = fuzz_copy(data + 1, size - 1);
	readers[data[0] % KINDS](exact, size - 1);
	free(exact);
	return 0;
}
