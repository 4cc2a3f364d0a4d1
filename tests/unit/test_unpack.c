/* SPDX-License-Identifier: Apache-2.0 */
/* What data is packed as, and zstd; libzstd's one-shot calls are the oracle. test_gzip has gzip. */
#include <config.h>

#include "base/account.h"
#include "base/unpack.h"
#include "base/unzstd.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

enum { TEXT = 50000, ROOM = 1 << 20 };

static uint8_t text[TEXT + 1], packed[ROOM], out[ROOM];
static uint64_t seed; /* set by main */

static int set_up(void **state)
{
	(void)state;
	for (size_t at = 0; at < TEXT; at += 8)
		snprintf((char *)text + at, 9, "%06x\n\n", next_random(&seed) % 1000000);
	return 0;
}

/* Appends a frame of text[from..] to packed. */
static size_t add_frame(size_t at, size_t from, size_t len, int window_log, bool checksum)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_inBuffer in = {text + from, len, 0};
	ZSTD_outBuffer to = {packed + at, ROOM - at, 0};
	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, checksum);
	if (window_log)
		ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log);
	/* in two calls, so that the frame does not know its size and must say its window */
	assert_false(ZSTD_isError(ZSTD_compressStream2(c, &to, &in, ZSTD_e_continue)));
	assert_int_equal(ZSTD_compressStream2(c, &to, &in, ZSTD_e_end), 0);
	ZSTD_freeCCtx(c);
	return at + to.pos;
}

static size_t add_skipped(size_t at, uint8_t kind, uint8_t len)
{
	const uint8_t head[] = {(uint8_t)(0x50 + kind), 0x2a, 0x4d, 0x18, len, 0, 0, 0};
	memcpy(packed + at, head, sizeof head);
	memset(packed + at + sizeof head, 0xfd, len);
	return at + sizeof head + len;
}

struct reading {
	enum err err;
	size_t len;
	bool complete;
};

/* Unpacks in pieces of `in` bytes, into room for `room` at a time. */
static struct reading unpack(struct unpacker *u, const uint8_t *data, size_t len, size_t in, size_t room)
{
	struct reading r = {ERR_OK, 0, false};
	assert_true(unpacker_start(u, PACKING_ZSTD));
	for (size_t at = 0; at < len && !r.err; at += in) {
		const uint8_t *from = data + at;
		size_t left = len - at < in ? len - at : in, made = 0;
		do {
			r.err = unpacker_step(u, &from, &left, out + r.len, room, &made);
			r.len += made;
			assert_true(r.len <= TEXT * 2);
		} while (!r.err && (left > 0 || made == room));
	}
	r.complete = !r.err && unpacker_complete(u);
	return r;
}

static void heads(void **state)
{
	(void)state;
	static const struct {
		const char *head;
		size_t len;
		enum packing packing;
	} cases[] = {
	        {"", 0, PACKING_UNKNOWN},
	        {"M", 1, PACKING_NONE},
	        {"\x1f", 1, PACKING_UNKNOWN},
	        {"\x1f\x8b", 2, PACKING_GZIP},
	        {"\x1f\x8c", 2, PACKING_NONE},
	        {"\x28\xb5\x2f", 3, PACKING_UNKNOWN},
	        {"\x28\xb5\x2f\xfd", 4, PACKING_ZSTD},
	        {"\x28\xb5\x2f\xfe", 4, PACKING_NONE},
	        {"\x28\x2a\x4d\x18", 4, PACKING_NONE},
	        {"\x50\x2a\x4d\x18", 4, PACKING_ZSTD},
	        {"\x5f\x2a\x4d\x18xyz", 7, PACKING_ZSTD},
	        {"\x60\x2a\x4d\x18", 4, PACKING_NONE},
	        {"PUBLIC", 6, PACKING_NONE},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(packing_of((const uint8_t *)cases[i].head, cases[i].len), cases[i].packing);
}

static void frames_in_pieces(void **state)
{
	static const size_t pieces[] = {1, 3, 1000, ROOM}, rooms[] = {1, 7, 4096, TEXT};
	struct unpacker *u = unpacker_new();
	(void)state;
	size_t len = add_frame(0, 0, 20000, 0, true);
	len = add_skipped(len, 7, 30);
	len = add_frame(len, 20000, 0, 0, false);
	len = add_frame(len, 20000, TEXT - 20000, 0, true);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 4; k++) {
			struct reading r = unpack(u, packed, len, pieces[i], rooms[k]);
			assert_int_equal(r.err, ERR_OK);
			assert_true(r.complete);
			assert_int_equal(r.len, TEXT);
			assert_memory_equal(out, text, TEXT);
		}
	unpacker_free(u);
	assert_null(account_unbalanced());
}

static void cut_anywhere_is_not_complete(void **state)
{
	struct unpacker *u = unpacker_new();
	(void)state;
	size_t first = add_frame(0, 0, 300, 0, true), len = add_frame(first, 300, 300, 0, true);
	for (size_t cut = 1; cut < len; cut++) {
		struct reading r = unpack(u, packed, cut, ROOM, 4096);
		assert_int_equal(r.err, ERR_OK);
		assert_int_equal(r.complete, cut == first);
		assert_memory_equal(out, text, r.len);
	}
	assert_string_equal(unpacker_cut(u), "zstd ends early");
	unpacker_free(u);
}

static void damage_is_found(void **state)
{
	struct unpacker *u = unpacker_new();
	(void)state;
	/* a small window: the unpacker is made once, and goes on after each */
	size_t len = add_frame(0, 0, 3000, 17, true);
	for (size_t at = 4; at < len; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			packed[at] ^= (uint8_t)(1 << bit);
			struct reading r = unpack(u, packed, len, 100, 4096);
			/* a bit that means nothing may change; the text may not */
			assert_true(
			        r.err == ERR_CORRUPT || !r.complete || (r.len == 3000 && memcmp(out, text, 3000) == 0));
			packed[at] ^= (uint8_t)(1 << bit);
		}
	memcpy(packed + len, "no frame", 8);
	assert_int_equal(unpack(u, packed, len + 8, 100, 4096).err, ERR_CORRUPT);
	assert_string_equal(unpacker_bad(u), "bad zstd");
	unpacker_free(u);
	assert_null(account_unbalanced());
}

/* What is charged after a frame with this window; 0: it was refused. */
static uint64_t charged_for(struct unpacker *u, int window_log)
{
	size_t len = add_frame(0, 0, TEXT, window_log, true);
	struct reading r = unpack(u, packed, len, ROOM, TEXT);
	assert_true(r.err == ERR_CORRUPT || r.err == ERR_NO_MEMORY || r.complete);
	return r.err ? 0 : account_used_for(ACCOUNT_TEXTS);
}

static void windows_are_bounded_and_charged(void **state)
{
	struct unpacker *u = unpacker_new();
	(void)state;
	assert_in_range(charged_for(u, 17), 1 << 17, 1 << 20);
	assert_in_range(charged_for(u, UNZSTD_WINDOW_LOG_MAX), 1 << 27, (1 << 27) + (1 << 20));
	/* the next text does not find the large one */
	assert_in_range(charged_for(u, 17), 1 << 17, 1 << 20);
	assert_int_equal(charged_for(u, UNZSTD_WINDOW_LOG_MAX + 1), 0);
	unpacker_free(u);
	assert_null(account_unbalanced());
}

static void a_window_without_room_is_no_damage(void **state)
{
	struct unpacker *u = unpacker_new();
	(void)state;
	account_start(64 << 20);
	size_t len = add_frame(0, 0, TEXT, UNZSTD_WINDOW_LOG_MAX, true);
	assert_int_equal(unpack(u, packed, len, ROOM, TEXT).err, ERR_NO_MEMORY);
	len = add_frame(0, 0, TEXT, 17, true);
	assert_true(unpack(u, packed, len, ROOM, TEXT).complete);
	account_start(0);
	unpacker_free(u);
	assert_null(account_unbalanced());
}

int main(void)
{
	seed = seed_of(1);
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(heads),
	        cmocka_unit_test(frames_in_pieces),
	        cmocka_unit_test(cut_anywhere_is_not_complete),
	        cmocka_unit_test(damage_is_found),
	        cmocka_unit_test(windows_are_bounded_and_charged),
	        cmocka_unit_test(a_window_without_room_is_no_damage),
	};
	return cmocka_run_group_tests_name("unpack", tests, set_up, NULL);
}
