/* SPDX-License-Identifier: Apache-2.0 */
/* Pages, roots and values that are not what they should be: the reader says so, or answers something, and that is all.
 * Every page lies in a block of its own size, so that a read outside of it is seen by AddressSanitizer and valgrind. */
#include <config.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/varint.h"
#include "map/value.h"
#include "offmap_tools.h"
#include "seed.h"

/* Small enough to break every byte, and with all that a page can hold: each kind of piece, node, segment and string. */
static const char source[] =
        "MODULE Linux x86_64 0 damage.so\n"
        "INFO CODE_ID 1 damage.dll\n"
        "FILE 0 a.c\n"
        "FILE 1 b.h\n"
        "FILE 2 /a/path/that/is/too/long/to/lie/in/the/code/page/of/those/that/use/it/c.h\n"
        "INLINE_ORIGIN 0 zero\n"
        "INLINE_ORIGIN 1 one_is_long_one_is_long_one_is_long_one_is_long_one_is_long_one_is_long\n"
        "PUBLIC 10 0 before\n"
        "FUNC 100 40 0 outer\n"
        "INLINE 0 12 0 0 110 20\n"
        "INLINE 1 30 1 1 118 8 128 8\n"
        "INLINE 2 31 2 0 128 4\n"
        "100 10 10 0\n"
        "110 8 30 1\n"
        "118 8 7 1\n"
        "120 8 32 1\n"
        "128 4 400 2\n"
        "12c 4 8 1\n"
        "130 4 99 2\n"
        "134 c 14 0\n"
        "FUNC 138 4 0 inner\n"
        "FUNC 200 8 0 far_name_far_name_far_name_far_name_far_name_far_name_far_name_far_name_far_name_far_name_"
        "far_name_far_name_far_name_far_name_far_name_far_name\n"
        "200 8 1 0\n"
        "PUBLIC 300 0 behind\n";

static const uint64_t interesting[] = {0, 0xf, 0x10, 0x11, 0xff, 0x100, 0x10f, 0x110, 0x117, 0x118, 0x11f, 0x120, 0x127,
        0x128, 0x12b, 0x12c, 0x12f, 0x130, 0x134, 0x137, 0x138, 0x13b, 0x13c, 0x13f, 0x140, 0x200, 0x207, 0x208, 0x2ff,
        0x300, 0x301, UINT64_C(0x100000000), UINT64_C(0x8000000000000000), UINT64_MAX};
enum { INTERESTING = sizeof interesting / sizeof *interesting };

static unsigned sum; /* of all bytes that answers point to, so that they are read */

static void touch(const struct offmap_string *s)
{
	if (s->external)
		return;
	for (uint32_t i = 0; i < s->len; i++)
		sum += s->data[i];
}

static void touch_call(const struct offmap_call *c)
{
	touch(&c->function);
	touch(&c->file);
}

/* How a page that may be damaged was read, all questions together. */
struct outcome {
	unsigned ok, corrupt;
};

static void count(struct outcome *o, enum err err)
{
	if (err != ERR_OK && err != ERR_CORRUPT)
		fail_msg("error %d", err);
	o->ok += err == ERR_OK;
	o->corrupt += err == ERR_CORRUPT;
}

static struct outcome look_up_all(const struct page *p, struct arena *arena)
{
	struct outcome o = {0, 0};
	for (unsigned i = 0; i < INTERESTING; i++) {
		struct offmap_answer a;
		enum err err = offmap_lookup(p, interesting[i], arena, &a);
		count(&o, err);
		if (!err && a.found) {
			touch_call(&a.frame);
			assert_true(a.inline_count <= p->len);
			for (uint32_t k = 0; k < a.inline_count; k++)
				touch_call(&a.inlines[k]);
		}
		arena_reset(arena);
	}
	return o;
}

static struct outcome look_up_strings(const struct page *p, struct arena *arena)
{
	static const uint32_t ids[] = {0, 1, 2, 3, 4, 255, UINT32_MAX};
	struct outcome o = {0, 0};
	(void)arena;
	for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) {
		struct offmap_string s;
		enum err err = offmap_string_lookup(p, ids[i], &s);
		count(&o, err);
		if (!err) {
			assert_int_equal(s.external, 0);
			touch(&s);
		}
	}
	return o;
}

typedef struct outcome ask_fn(const struct page *p, struct arena *arena);

static struct page *page_copy(const struct page *p, uint32_t len)
{
	struct page *copy = page_new(p->kind, len);
	assert_non_null(copy);
	memcpy(copy->bytes, p->bytes, len < p->len ? len : p->len);
	return copy;
}

/* Each byte becomes 0, ff and one more; at each place the greatest and the smallest differences are written over what
 * is there; and the page ends at each of its bytes. */
static void damage_everywhere(const struct page *p, ask_fn *ask)
{
	static const uint8_t greatest[] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	                     smallest[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	struct arena arena;
	unsigned corrupt = 0;
	arena_init(&arena, 1 << 24);
	assert_int_equal(ask(p, &arena).corrupt, ask == look_up_all ? 0 : 5);
	for (uint32_t at = 0; at < p->len; at++) {
		const uint8_t values[] = {0, 0xff, (uint8_t)(p->bytes[at] + 1)};
		struct page *copy = page_copy(p, p->len), *cut = page_copy(p, at);
		for (unsigned i = 0; i < 3; i++) {
			copy->bytes[at] = values[i];
			corrupt += ask(copy, &arena).corrupt > 0;
		}
		copy->bytes[at] = p->bytes[at];
		uint32_t n = p->len - at < sizeof greatest ? p->len - at : sizeof greatest;
		memcpy(copy->bytes + at, greatest, n);
		corrupt += ask(copy, &arena).corrupt > 0;
		memcpy(copy->bytes + at, smallest, n);
		corrupt += ask(copy, &arena).corrupt > 0;
		assert_true(ask(cut, &arena).corrupt > 0);
		page_unref(copy);
		page_unref(cut);
	}
	assert_true(corrupt > p->len / 2);
	arena_release(&arena);
}

static void test_code_page(void **state)
{
	struct offmap *m = map_build(str_from(source), &plain_options);
	(void)state;
	assert_int_equal(m->code_count, 1);
	damage_everywhere(m->code[0], look_up_all);
	offmap_free(m);
}

static void test_string_page(void **state)
{
	struct offmap *m = map_build(str_from(source), &plain_options);
	(void)state;
	assert_int_equal(m->string_count, 1);
	damage_everywhere(m->strings[0], look_up_strings);
	offmap_free(m);
}

/* Noise under a plausible header, and without one. */
static void test_noise(void **state)
{
	struct arena arena;
	uint64_t seed = seed_of(7);
	struct outcome all = {0, 0};
	(void)state;
	arena_init(&arena, 1 << 24);
	for (unsigned round = 0; round < 20000; round++) {
		uint32_t len = next_random(&seed) % 300;
		struct page *p = page_new(round % 4 ? PAGE_CODE : PAGE_STRINGS, len);
		assert_non_null(p);
		for (uint32_t i = 0; i < len; i++)
			p->bytes[i] = (uint8_t)(next_random(&seed) >> next_random(&seed) % 8);
		if (round % 2 && p->kind == PAGE_CODE && len > CODE_HEADER + 2 * CODE_ENTRY) {
			put_u64(p->bytes, next_random(&seed) % 0x200);
			put_u32(p->bytes + 8, 2);
			put_u32(p->bytes + 12, len / 8);
			put_u32(p->bytes + 16, len - len / 4);
			put_u32(p->bytes + 20, len - len / 16);
			put_u32(p->bytes + 24, 0);
			put_u32(p->bytes + 28, CODE_HEADER + 2 * CODE_ENTRY);
			put_u32(p->bytes + 32, 0x20);
			put_u32(p->bytes + 36, CODE_HEADER + 2 * CODE_ENTRY + len / 16);
		} else if (round % 8 == 0 && len >= STRINGS_HEADER) {
			put_u32(put_u32(p->bytes, 1), 4);
		}
		struct outcome o = p->kind == PAGE_CODE ? look_up_all(p, &arena) : look_up_strings(p, &arena);
		all.ok += o.ok;
		all.corrupt += o.corrupt;
		page_unref(p);
	}
	assert_true(all.ok > 1000 && all.corrupt > 1000);
	arena_release(&arena);
}

/* A page of another kind, or one that is still compressed, is not read. */
static void test_wrong_page(void **state)
{
	struct arena arena;
	struct offmap_answer a;
	struct offmap_string s;
	struct offmap *m = map_build(str_from(source), &plain_options);
	(void)state;
	arena_init(&arena, 1 << 24);
	assert_int_equal(offmap_lookup(m->strings[0], 0x100, &arena, &a), ERR_CORRUPT);
	assert_int_equal(offmap_string_lookup(m->code[0], 1, &s), ERR_CORRUPT);
	m->code[0]->codec = CODEC_LZ4;
	m->strings[0]->codec = CODEC_ZSTD;
	assert_int_equal(offmap_lookup(m->code[0], 0x100, &arena, &a), ERR_CORRUPT);
	assert_int_equal(offmap_string_lookup(m->strings[0], 1, &s), ERR_CORRUPT);
	arena_release(&arena);
	offmap_free(m);
}

/* ---- root ---- */

/* A map of several pages of each kind, as its root alone describes it. */
static struct page *make_root(void)
{
	uint64_t code_first[] = {0x1000, 0x2000, UINT64_C(0x100000000), UINT64_MAX};
	uint32_t string_first[] = {1, 100, 20000, UINT32_MAX};
	char name[] = "a \\\"code\\\" file.dll";
	struct offmap m = {.generation = 0x1122334455667788,
	        .marker = 99,
	        .code_count = 4,
	        .string_count = 4,
	        .code_first = code_first,
	        .string_first = string_first,
	        .code_file = name,
	        .code_file_len = sizeof name - 1,
	        .code_id = "5CF2591C6859000",
	        .file = {{{0, 0x5f4, 0}, {0x600, 0x140, 0x1600}, {0x740, UINT64_MAX, 0x2740}}, 3},
	        .lacking = 300,
	        .funcs = 1000,
	        .publics = 20,
	        .lines = 30000,
	        .inlines = 400,
	        .damaged = 5,
	        .text_bytes = 1000000,
	        .raw_bytes = 600000};
	struct page *root = offmap_root_encode(&m);
	assert_non_null(root);
	return root;
}

/* Reads all of what was decoded. */
static bool decodes(const uint8_t *bytes, size_t len)
{
	struct offmap *m;
	enum err err = offmap_root_decode(bytes, len, &m);
	if (err != ERR_OK) {
		assert_int_equal(err, ERR_CORRUPT);
		assert_null(m);
		return false;
	}
	for (uint32_t i = 0; i < m->code_count; i++) {
		assert_null(m->code[i]);
		assert_true(!i || m->code_first[i] > m->code_first[i - 1]);
		assert_int_equal(offmap_code_page(m, m->code_first[i]), i);
	}
	for (uint32_t i = 0; i < m->string_count; i++) {
		assert_null(m->strings[i]);
		assert_true(m->string_first[i] > (i ? m->string_first[i - 1] : 0));
		assert_int_equal(offmap_string_page(m, m->string_first[i]), i);
	}
	for (uint32_t i = 0; i < m->code_file_len; i++)
		sum += (unsigned char)m->code_file[i];
	assert_in_range(strlen(m->code_id), 0, sizeof m->code_id - 1);
	offmap_free(m);
	return true;
}

static bool decodes_copy(const uint8_t *bytes, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);
	assert_non_null(exact);
	memcpy(exact, bytes, len);
	bool ok = decodes(exact, len);
	free(exact);
	return ok;
}

/* Nothing of it is lost or changes places. */
static void assert_same_root(const struct page *root)
{
	struct offmap *m;
	assert_int_equal(offmap_root_decode(root->bytes, root->len, &m), ERR_OK);
	struct page *again = offmap_root_encode(m);
	assert_non_null(again);
	assert_int_equal(again->len, root->len);
	assert_memory_equal(again->bytes, root->bytes, root->len);
	page_unref(again);
	offmap_free(m);
}

static void test_root(void **state)
{
	static const uint8_t greatest[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	struct page *root = make_root();
	uint8_t *copy = malloc(root->len + 1);
	unsigned refused = 0;
	(void)state;
	assert_non_null(copy);
	assert_true(decodes_copy(root->bytes, root->len));
	assert_same_root(root);
	for (uint32_t at = 0; at < root->len; at++) {
		const uint8_t values[] = {0, 0xff, (uint8_t)(root->bytes[at] + 1)};
		assert_false(decodes_copy(root->bytes, at));
		memcpy(copy, root->bytes, root->len);
		for (unsigned i = 0; i < 3; i++) {
			copy[at] = values[i];
			refused += !decodes_copy(copy, root->len);
		}
		memcpy(copy + at, greatest, root->len - at < sizeof greatest ? root->len - at : sizeof greatest);
		refused += !decodes_copy(copy, root->len);
	}
	assert_true(refused > root->len / 2);
	memcpy(copy, root->bytes, root->len);
	copy[root->len] = 0;
	assert_false(decodes_copy(copy, root->len + 1));
	free(copy);
	page_unref(root);
}

static void test_root_noise(void **state)
{
	uint64_t seed = seed_of(3);
	unsigned accepted = 0;
	uint8_t bytes[64];
	(void)state;
	for (unsigned round = 0; round < 50000; round++) {
		size_t len = next_random(&seed) % sizeof bytes;
		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)(next_random(&seed) % (round % 2 ? 4 : 256));
		accepted += decodes_copy(bytes, len);
	}
	assert_true(accepted > 0);
}

/* Firsts that do not ascend would let a search go wrong. */
static void test_root_order(void **state)
{
	/* generation, marker, then: code pages, string pages, seven counts, lengths of the code file and its id,
	 * parts of the file, units that lack entries, firsts */
	static const uint8_t good[] = {
	        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1};
	uint8_t bytes[sizeof good];
	(void)state;
	assert_true(decodes_copy(good, sizeof good));
	for (unsigned at = sizeof good - 3; at < sizeof good; at++) {
		memcpy(bytes, good, sizeof good);
		bytes[at] = 0;
		assert_false(decodes_copy(bytes, sizeof bytes));
	}
}

/* ---- values ---- */

static struct value_id value_id_of(const struct page *p)
{
	struct value_id id = {.generation = UINT64_C(0xfedcba9876543210), .number = 0x01020304, .kind = p->kind};
	for (unsigned i = 0; i < sizeof id.module.bytes; i++)
		id.module.bytes[i] = (uint8_t)(i * 17 + 1);
	return id;
}

static bool value_is_read(const uint8_t *value, size_t len, const struct value_id *id)
{
	struct page *p;
	uint8_t *exact = malloc(len ? len : 1);
	assert_non_null(exact);
	if (len)
		memcpy(exact, value, len);
	enum err err = value_decode(exact, len, id, NULL, &p);
	free(exact);
	if (err) {
		assert_int_equal(err, ERR_CORRUPT);
		assert_null(p);
		return false;
	}
	page_unref(p);
	return true;
}

/* Writes the checksum that fits what the value says now. */
static void seal(uint8_t *value, size_t len)
{
	put_u64(value + 40, checksum(value, 40, value + VALUE_HEADER, len - VALUE_HEADER));
}

static void check_bytes(struct buffer *value, const struct value_id *id)
{
	for (size_t at = 0; at < value->len; at++) {
		uint8_t before = value->data[at];
		for (unsigned bit = 0; bit < 8; bit++) {
			value->data[at] = (uint8_t)(before ^ 1u << bit);
			assert_false(value_is_read(value->data, value->len, id));
		}
		value->data[at] = before;
		assert_false(value_is_read(value->data, at, id));
	}
	assert_true(buffer_append(value, "", 1));
	assert_false(value_is_read(value->data, value->len, id));
	value->len--;
}

static void check_identity(const struct buffer *value, const struct value_id *id)
{
	for (unsigned i = 0; i < sizeof id->module.bytes; i++) {
		struct value_id other = *id;
		other.module.bytes[i] ^= 1;
		assert_false(value_is_read(value->data, value->len, &other));
	}
	struct value_id other = *id;
	other.generation++;
	assert_false(value_is_read(value->data, value->len, &other));
	other = *id;
	other.number++;
	assert_false(value_is_read(value->data, value->len, &other));
	for (uint8_t kind = 0; kind < 5; kind++) {
		other = *id;
		other.kind = kind;
		assert_true(value_is_read(value->data, value->len, &other) == (kind == id->kind));
	}
}

/* A value that is sealed, and lies all the same. */
static void check_lies(struct buffer *value, const struct value_id *id, uint32_t raw_len)
{
	const uint32_t lengths[] = {0, raw_len - 1, raw_len + 1, raw_len / 2, 2 * raw_len, 64 << 20, (64 << 20) + 1,
	        INT32_MAX, UINT32_C(1) << 31, UINT32_MAX};
	for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		put_u32(value->data + 36, lengths[i]);
		seal(value->data, value->len);
		assert_false(value_is_read(value->data, value->len, id));
	}
	put_u32(value->data + 36, raw_len);
	uint8_t codec = value->data[6];
	for (unsigned other = 0; other < 256; other++) {
		value->data[6] = (uint8_t)other;
		seal(value->data, value->len);
		assert_true(value_is_read(value->data, value->len, id) == (other == codec));
	}
	value->data[6] = codec;
	for (unsigned at = 0; at < 8; at++)
		if (at != 6) {
			value->data[at] ^= 1;
			seal(value->data, value->len);
			assert_false(value_is_read(value->data, value->len, id));
			value->data[at] ^= 1;
		}
	seal(value->data, value->len);
	assert_true(value_is_read(value->data, value->len, id));
}

/* A damaged payload under a checksum that fits: what comes out, if anything, has the length that was said. */
static void check_payload(struct buffer *value, const struct value_id *id)
{
	for (size_t at = VALUE_HEADER; at < value->len; at++) {
		uint8_t before = value->data[at];
		for (unsigned step = 1; step < 256; step += 50) {
			struct page *p;
			value->data[at] = (uint8_t)(before + step);
			seal(value->data, value->len);
			if (value_decode(value->data, value->len, id, NULL, &p) == ERR_OK) {
				assert_int_equal(p->len, get_u32(value->data + 36));
				for (uint32_t i = 0; i < p->len; i++)
					sum += p->bytes[i];
				page_unref(p);
			}
		}
		value->data[at] = before;
	}
	seal(value->data, value->len);
}

static void test_values(void **state)
{
	static const enum page_codec codecs[] = {CODEC_RAW, CODEC_LZ4, CODEC_ZSTD};
	struct offmap *m = map_build(str_from(source), &plain_options);
	struct page *root = offmap_root_encode(m), *compressible = page_new(PAGE_CODE, 500);
	(void)state;
	assert_non_null(root);
	assert_non_null(compressible);
	memset(compressible->bytes, 'x', compressible->len);
	const struct page *pages[] = {root, m->code[0], m->strings[0], compressible};
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 3; k++) {
			struct page *back;
			struct buffer value = text_new();
			struct value_id id = value_id_of(pages[i]);
			assert_int_equal(value_encode(&value, &id, pages[i], codecs[k], NULL), ERR_OK);
			assert_true(value.len <= VALUE_HEADER + pages[i]->len);
			assert_true(i < 3 || (value.len < VALUE_HEADER + 100) == (codecs[k] != CODEC_RAW));
			assert_int_equal(value_decode(value.data, value.len, &id, NULL, &back), ERR_OK);
			assert_int_equal(back->kind, pages[i]->kind);
			assert_int_equal(back->codec, CODEC_RAW);
			assert_int_equal(back->raw_len, back->len);
			assert_int_equal(back->len, pages[i]->len);
			assert_memory_equal(back->bytes, pages[i]->bytes, back->len);
			page_unref(back);
			check_bytes(&value, &id);
			check_identity(&value, &id);
			check_lies(&value, &id, pages[i]->len);
			check_payload(&value, &id);
			buffer_release(&value);
		}
	page_unref(root);
	page_unref(compressible);
	offmap_free(m);
}

/* ---- pages that wait compressed ---- */

static void test_compress_and_expand(void **state)
{
	static const enum page_codec codecs[] = {CODEC_LZ4, CODEC_ZSTD};
	uint64_t seed = seed_of(5);
	(void)state;
	for (unsigned k = 0; k < 2; k++)
		for (uint32_t len = 0; len < 20000; len = len * 3 + 1)
			for (unsigned noise = 0; noise < 2; noise++) {
				struct page *p = page_new(PAGE_CODE, len);
				assert_non_null(p);
				for (uint32_t i = 0; i < len; i++)
					p->bytes[i] = (uint8_t)(noise ? next_random(&seed) : i / 8);
				struct page *copy = page_copy(p, len);
				struct page *small = page_compress(p, codecs[k]);
				assert_int_equal(small->raw_len, len);
				assert_int_equal(small->kind, PAGE_CODE);
				assert_true(small->codec == CODEC_RAW ? small->len == len : small->len < len);
				assert_true(noise ? small->codec == CODEC_RAW : len < 100 || small->codec == codecs[k]);
				/* again, and with no codec: the same page */
				assert_ptr_equal(page_compress(small, codecs[k]), small);
				assert_ptr_equal(page_compress(small, CODEC_RAW), small);
				struct page *raw = page_expand(small);
				assert_non_null(raw);
				assert_int_equal(raw->codec, CODEC_RAW);
				assert_int_equal(raw->len, len);
				assert_memory_equal(raw->bytes, copy->bytes, len);
				page_unref(raw);
				page_unref(small);
				page_unref(copy);
			}
}

/* A compressed page makes a value as it is, and comes back raw. */
static void test_value_of_compressed(void **state)
{
	struct buffer value = text_new();
	struct page *p = page_new(PAGE_STRINGS, 4000), *back;
	(void)state;
	assert_non_null(p);
	memset(p->bytes, 'y', p->len);
	p = page_compress(p, CODEC_LZ4);
	struct value_id id = value_id_of(p);
	assert_int_equal(value_encode(&value, &id, p, CODEC_ZSTD, NULL), ERR_OK);
	assert_int_equal(value.len, VALUE_HEADER + p->len);
	assert_int_equal(value.data[6], CODEC_LZ4);
	assert_int_equal(value_decode(value.data, value.len, &id, NULL, &back), ERR_OK);
	assert_int_equal(back->len, 4000);
	for (uint32_t i = 0; i < back->len; i++)
		assert_int_equal(back->bytes[i], 'y');
	page_unref(back);
	/* cut by one byte it does not expand */
	struct page *cut = page_copy(p, p->len - 1);
	cut->codec = CODEC_LZ4;
	cut->raw_len = p->raw_len;
	assert_null(page_expand(cut));
	page_unref(cut);
	page_unref(p);
	buffer_release(&value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_code_page),
	        cmocka_unit_test(test_string_page),
	        cmocka_unit_test(test_noise),
	        cmocka_unit_test(test_wrong_page),
	        cmocka_unit_test(test_root),
	        cmocka_unit_test(test_root_noise),
	        cmocka_unit_test(test_root_order),
	        cmocka_unit_test(test_values),
	        cmocka_unit_test(test_compress_and_expand),
	        cmocka_unit_test(test_value_of_compressed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
