/* SPDX-License-Identifier: Apache-2.0 */
/* gzip in both directions; zlib is the oracle, also where ISA-L does the work. */
#include <config.h>

#include "base/gzip.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

static const size_t chunks[] = {1, 7, 1000, 65536};
enum { CHUNKS = sizeof chunks / sizeof chunks[0], LARGE = 60000 };

struct bytes {
	uint8_t *data;
	size_t len;
};

static uint64_t seed; /* set by main */

static uint32_t noise_word(void)
{
	return next_random(&seed);
}

static struct bytes bytes_new(size_t len)
{
	struct bytes b = {malloc(len + 1), len};
	assert_non_null(b.data);
	return b;
}

/* Lines like those of a symbol file. */
static struct bytes make_text(size_t len)
{
	struct bytes b = bytes_new(len);
	for (size_t at = 0; at < len;) {
		char line[64];
		int n = snprintf(line, sizeof line, "%x %x %u %u\n", noise_word() % 1000000, noise_word() % 64,
		        noise_word() % 5000, noise_word() % 90);
		size_t take = len - at < (size_t)n ? len - at : (size_t)n;
		memcpy(b.data + at, line, take);
		at += take;
	}
	return b;
}

static struct bytes make_noise(size_t len)
{
	struct bytes b = bytes_new(len);
	for (size_t i = 0; i < len; i++)
		b.data[i] = (uint8_t)noise_word();
	return b;
}

/* By zlib, with the optional parts of the header when asked. */
static struct bytes zlib_pack(struct bytes text, int level, bool header)
{
	char name[] = "libxul.sym", comment[] = "a comment";
	uint8_t extra[] = {'A', 'p', 2, 0, 1, 2};
	gz_header h = {.name = (Bytef *)name,
	        .comment = (Bytef *)comment,
	        .extra = extra,
	        .extra_len = sizeof extra,
	        .hcrc = 1};
	z_stream s = {0};
	assert_int_equal(deflateInit2(&s, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	if (header)
		assert_int_equal(deflateSetHeader(&s, &h), Z_OK);
	struct bytes b = bytes_new(deflateBound(&s, text.len) + 100);
	s.next_in = text.data;
	s.avail_in = (uInt)text.len;
	s.next_out = b.data;
	s.avail_out = (uInt)b.len;
	assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
	b.len = s.total_out;
	deflateEnd(&s);
	return b;
}

static struct bytes zlib_unpack(struct bytes packed, size_t expected)
{
	struct bytes b = bytes_new(expected + 1);
	z_stream s = {.next_in = packed.data,
	        .avail_in = (uInt)packed.len,
	        .next_out = b.data,
	        .avail_out = (uInt)expected + 1};
	assert_int_equal(inflateInit2(&s, 15 + 16), Z_OK);
	assert_int_equal(inflate(&s, Z_FINISH), Z_STREAM_END);
	assert_int_equal(s.avail_in, 0);
	b.len = s.total_out;
	inflateEnd(&s);
	return b;
}

static struct bytes join(struct bytes a, struct bytes b)
{
	struct bytes all = bytes_new(a.len + b.len);
	memcpy(all.data, a.data, a.len);
	memcpy(all.data + a.len, b.data, b.len);
	return all;
}

static bool same(struct bytes a, struct bytes b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Inflates with pieces of these sizes; what came out goes to *text (at most its len), ERR_OK only when it was complete.
 */
static enum err unpack_with(
        struct gunzip *g, struct bytes packed, size_t in_chunk, size_t out_chunk, struct bytes *text)
{
	size_t have = 0, room = text->len;
	uint8_t *out = malloc(out_chunk);
	enum err result = ERR_OK;
	for (size_t at = 0; at < packed.len && !result;) {
		size_t given = packed.len - at < in_chunk ? packed.len - at : in_chunk, left = given, got = 0;
		/* A copy of its own, so that a read past the end is seen. */
		uint8_t *piece = malloc(given);
		memcpy(piece, packed.data + at, given);
		const uint8_t *in = piece;
		do {
			result = gunzip_step(g, &in, &left, out, out_chunk, &got);
			assert_ptr_equal(in, piece + given - left);
			assert_true(got <= out_chunk);
			assert_true(have + got <= room);
			memcpy(text->data + have, out, got);
			have += got;
		} while (!result && (left > 0 || got == out_chunk));
		free(piece);
		at += given;
	}
	free(out);
	text->len = have;
	if (!result && !gunzip_complete(g))
		return ERR_IO;
	return result;
}

/* All sizes of pieces with one decoder; each must give the text. A large one is not given or taken in small pieces
 * under valgrind, nor above 64 KiB where a sanitizer watches: ISA-L moves up to 64 KiB for each. */
static void check_unpacks(struct bytes packed, struct bytes text)
{
	const size_t most = getenv("UNDER_VALGRIND") ? LARGE : slowness() > 1 ? 65535 : SIZE_MAX;
	struct gunzip *g = gunzip_new();
	assert_non_null(g);
	for (unsigned i = 0; i < CHUNKS; i++)
		for (unsigned k = 0; k < CHUNKS; k++) {
			if (text.len > most && (chunks[i] < 1000 || chunks[k] < 1000))
				continue;
			struct bytes out = bytes_new(text.len + 65536);
			gunzip_reset(g);
			assert_false(gunzip_complete(g));
			assert_int_equal(unpack_with(g, packed, chunks[i], chunks[k], &out), ERR_OK);
			assert_true(same(out, text));
			free(out.data);
		}
	gunzip_free(g);
}

static void chunk_sizes(void **state)
{
	(void)state;
	static const size_t sizes[] = {0, 1, 2, 1000, 65535, 65536, 200000};
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (int level = 0; level <= 9; level += 3) {
			if (slowness() > 1 && sizes[i] > LARGE && level != 3 * ((int)i % 4))
				continue; /* where it takes minutes one level is enough */
			struct bytes text = make_text(sizes[i]), packed = zlib_pack(text, level, level == 3);
			check_unpacks(packed, text);
			free(packed.data);
			free(text.data);
		}
}

static void several_members(void **state)
{
	(void)state;
	struct bytes a = make_text(70000), none = bytes_new(0), b = make_noise(3000);
	struct bytes pa = zlib_pack(a, 6, true), pn = zlib_pack(none, 6, false), pb = zlib_pack(b, 1, false);
	struct bytes two = join(pa, pn), packed = join(two, pb), text = join(a, b);
	check_unpacks(packed, text);
	struct bytes *all[] = {&a, &none, &b, &pa, &pn, &pb, &two, &packed, &text};
	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
		free(all[i]->data);
}

static enum err unpack_once(struct bytes packed, size_t in_chunk, size_t out_chunk, struct bytes *text)
{
	struct gunzip *g = gunzip_new();
	assert_non_null(g);
	enum err result = unpack_with(g, packed, in_chunk, out_chunk, text);
	gunzip_free(g);
	return result;
}

static void truncation_at_every_byte(void **state)
{
	(void)state;
	struct bytes text = make_text(900), packed = zlib_pack(text, 6, true);
	for (size_t len = 0; len < packed.len; len++)
		for (unsigned i = 0; i < CHUNKS; i++) {
			struct bytes out = bytes_new(2000), cut = {packed.data, len};
			assert_int_equal(unpack_once(cut, chunks[i], 64, &out), ERR_IO);
			assert_true(out.len <= text.len && memcmp(out.data, text.data, out.len) == 0);
			free(out.data);
		}
	free(packed.data);
	free(text.data);
}

/* CRC and length are the last eight bytes; every bit of them counts. */
static void bad_crc_and_length(void **state)
{
	(void)state;
	struct bytes text = make_text(5000), packed = zlib_pack(text, 6, false);
	for (size_t bit = 0; bit < 64; bit++)
		for (unsigned i = 0; i < CHUNKS; i++) {
			struct bytes out = bytes_new(8000);
			uint8_t *at = packed.data + packed.len - 8 + bit / 8;
			*at ^= (uint8_t)(1 << bit % 8);
			assert_int_equal(unpack_once(packed, chunks[i], 1000, &out), ERR_CORRUPT);
			*at ^= (uint8_t)(1 << bit % 8);
			free(out.data);
		}
	free(packed.data);
	free(text.data);
}

/* No flipped bit may pass as another text. */
static void every_flipped_bit(void **state)
{
	(void)state;
	struct bytes text = make_text(600), packed = zlib_pack(text, 6, false);
	unsigned refused = 0;
	for (size_t bit = 0; bit < packed.len * 8; bit++) {
		struct bytes out = bytes_new(1 << 20);
		packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (unpack_once(packed, 7, 1000, &out) == ERR_OK)
			assert_true(same(out, text));
		else
			refused++;
		packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		free(out.data);
	}
	/* Only the time, the system and the flags of the ten header bytes are free. */
	assert_true(refused >= (packed.len - 10) * 8);
	free(packed.data);
	free(text.data);
}

static void junk_behind(void **state)
{
	(void)state;
	struct bytes text = make_text(3000), packed = zlib_pack(text, 6, false);
	for (size_t n = 1; n < 40; n++)
		for (unsigned i = 0; i < CHUNKS; i++) {
			struct bytes junk = make_noise(n), out = bytes_new(5000);
			junk.data[0] = (junk.data[0] & 0x0f) | 1; /* starts no member, and is no padding */
			struct bytes both = join(packed, junk);
			assert_int_not_equal(unpack_once(both, chunks[i], 1000, &out), ERR_OK);
			free(both.data);
			free(junk.data);
			free(out.data);
		}
	free(packed.data);
	free(text.data);
}

static void junk_behind_is_ignored_if_that_is_wanted(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		bool good, trails;
	} behind[] = {{"", 0, true, false}, {"\0\0", 2, true, false}, {"junk", 4, true, true},
	        {"\0junk", 5, true, true}, {"\x1fjunk", 5, false, false}};
	struct bytes text = make_text(3000), packed = zlib_pack(text, 6, false);
	for (size_t k = 0; k < sizeof behind / sizeof *behind; k++)
		for (unsigned i = 0; i < CHUNKS; i++) {
			struct bytes rest = bytes_new(behind[k].len), out = bytes_new(5000);
			memcpy(rest.data, behind[k].bytes, behind[k].len);
			struct bytes both = join(packed, rest);
			struct gunzip *g = gunzip_new();
			gunzip_ignore_trailing(g);
			assert_int_equal(unpack_with(g, both, chunks[i], 1000, &out) == ERR_OK, behind[k].good);
			assert_int_equal(gunzip_trails(g), behind[k].trails);
			assert_true(
			        !behind[k].good || (out.len == text.len && memcmp(out.data, text.data, text.len) == 0));
			gunzip_free(g);
			free(both.data);
			free(rest.data);
			free(out.data);
		}
	free(packed.data);
	free(text.data);
}

/* As from tapes and block devices; gzip(1) ignores it. What follows it is none. */
static void zeros_behind_are_padding(void **state)
{
	(void)state;
	struct bytes text = make_text(3000), packed = zlib_pack(text, 6, false);
	for (size_t n = 1; n < 2000; n = 3 * n + 1)
		for (unsigned i = 0; i < CHUNKS; i++) {
			struct bytes zeros = bytes_new(n), out = bytes_new(5000), more = bytes_new(5000);
			memset(zeros.data, 0, n);
			struct bytes padded = join(packed, zeros), continued = join(padded, packed);
			assert_int_equal(unpack_once(padded, chunks[i], 1000, &out), ERR_OK);
			assert_int_equal(out.len, text.len);
			assert_memory_equal(out.data, text.data, text.len);
			assert_int_equal(unpack_once(continued, chunks[i], 1000, &more), ERR_CORRUPT);
			free(continued.data);
			free(padded.data);
			free(zeros.data);
			free(out.data);
			free(more.data);
		}
	free(packed.data);
	free(text.data);
}

static void no_gzip_at_all(void **state)
{
	(void)state;
	struct bytes text = make_text(3000), out = bytes_new(9000), none = {text.data, 0};
	struct gunzip *g = gunzip_new();
	assert_int_equal(unpack_with(g, text, 1000, 1000, &out), ERR_CORRUPT);
	/* A failure lasts until the reset. */
	struct bytes packed = zlib_pack(text, 6, false);
	out.len = 9000;
	assert_int_equal(unpack_with(g, packed, 1000, 1000, &out), ERR_CORRUPT);
	gunzip_reset(g);
	out.len = 9000;
	assert_int_equal(unpack_with(g, packed, 1000, 1000, &out), ERR_OK);
	assert_true(same(out, text));
	gunzip_free(g);
	out.len = 9000;
	assert_int_equal(unpack_once(none, 1, 1, &out), ERR_IO);
	gunzip_free(NULL);
	free(packed.data);
	free(out.data);
	free(text.data);
}

/* 64 MiB from 64 KiB: one step never gives more than its room, and the count is right. */
static void bomb(void **state)
{
	(void)state;
	struct bytes zeros = bytes_new(rounds(64 << 20));
	memset(zeros.data, 0, zeros.len);
	struct bytes packed = zlib_pack(zeros, 9, false);
	assert_true(packed.len < 70000);
	uint8_t room[4096 + 1];
	struct gunzip *g = gunzip_new();
	const uint8_t *in = packed.data;
	size_t left = packed.len, total = 0, got = 0;
	do {
		room[4096] = 0x77;
		assert_int_equal(gunzip_step(g, &in, &left, room, 4096, &got), ERR_OK);
		assert_int_equal(room[4096], 0x77);
		total += got;
	} while ((left > 0 || got == 4096) && total <= zeros.len);
	assert_int_equal(total, zeros.len);
	assert_true(gunzip_complete(g));
	gunzip_free(g);
	free(packed.data);
	free(zeros.data);
}

static void check_packs(struct bytes text, unsigned parts)
{
	struct gzip *g = gzip_new(text.len);
	size_t at = 0;
	for (unsigned i = 0; i < parts; i++) {
		size_t n = i + 1 == parts ? text.len - at : (text.len - at) / 3;
		assert_true(gzip_add(g, text.data + at, n));
		at += n;
	}
	struct bytes packed;
	assert_int_equal(gzip_finish(g, &packed.data, &packed.len), ERR_OK);
	gzip_free(g);
	struct bytes by_zlib = zlib_unpack(packed, text.len), by_us = bytes_new(text.len + 1000);
	assert_true(same(by_zlib, text));
	assert_int_equal(unpack_once(packed, 65536, 1000, &by_us), ERR_OK);
	assert_true(same(by_us, text));
	free(by_us.data);
	free(by_zlib.data);
	free(packed.data);
}

static void compress_round_trip(void **state)
{
	(void)state;
	const size_t sizes[] = {0, 1, 100, 8192, 65537, rounds(3000000)};
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (unsigned parts = 1; parts <= 8; parts += 3) {
			/* Noise grows a little, so it needs more room than was guessed. */
			struct bytes text = make_text(sizes[i]), noise = make_noise(sizes[i]);
			check_packs(text, parts);
			check_packs(noise, parts);
			free(noise.data);
			free(text.data);
		}
	struct bytes none = {NULL, 0};
	assert_int_equal(gzip_compress(NULL, 0, &none.data, &none.len), ERR_OK);
	struct bytes text = zlib_unpack(none, 0);
	assert_int_equal(text.len, 0);
	free(text.data);
	free(none.data);
}

static void compress_pays(void **state)
{
	(void)state;
	struct bytes text = make_text(1 << 20);
	uint8_t *packed = NULL;
	size_t len = 0;
	assert_int_equal(gzip_compress(text.data, text.len, &packed, &len), ERR_OK);
	assert_true(len < text.len * 6 / 10);
	free(packed);
	free(text.data);
}

int main(void)
{
	seed = seed_of(1);
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(chunk_sizes),
	        cmocka_unit_test(several_members),
	        cmocka_unit_test(truncation_at_every_byte),
	        cmocka_unit_test(bad_crc_and_length),
	        cmocka_unit_test(every_flipped_bit),
	        cmocka_unit_test(junk_behind),
	        cmocka_unit_test(junk_behind_is_ignored_if_that_is_wanted),
	        cmocka_unit_test(zeros_behind_are_padding),
	        cmocka_unit_test(no_gzip_at_all),
	        cmocka_unit_test(bomb),
	        cmocka_unit_test(compress_round_trip),
	        cmocka_unit_test(compress_pays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
