/* SPDX-License-Identifier: Apache-2.0 */
/* Tags, the file of the secret, and values in memcached that bear them. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mac.h"
#include "base/varint.h"
#include "map/value.h"

static struct mac *mac_of(uint8_t first)
{
	struct mac_key key;
	for (unsigned i = 0; i < MAC_KEY; i++)
		key.bytes[i] = (uint8_t)(first + i);
	struct mac *m = mac_new(&key);
	assert_non_null(m);
	return m;
}

/* The vectors of SipHash's authors: key 00 to 0f, message 00 01 02 …, its length the index. */
static void test_vectors(void **state)
{
	static const uint64_t tags[] = {0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
	        0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137, 0x93f5f5799a932462};
	struct mac *m = mac_of(0);
	uint8_t text[16];
	(void)state;
	for (unsigned i = 0; i < sizeof text; i++)
		text[i] = (uint8_t)i;
	for (unsigned len = 0; len < sizeof tags / sizeof tags[0]; len++)
		for (unsigned cut = 0; cut <= len; cut++) { /* wherever the two stretches meet */
			uint64_t tag = 0;
			assert_true(mac_tag(m, text, cut, text + cut, len - cut, &tag));
			assert_int_equal(tag, tags[len]);
		}
	mac_free(m);
	mac_free(NULL);
}

/* ---- the file ---- */

static char path[64];

static void write_secret(const char *text, size_t len, mode_t mode)
{
	FILE *out = fopen(path, "we");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, len, out), len);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static enum err load(const char *text, size_t len, mode_t mode, struct mac_key *key, struct error *e)
{
	write_secret(text, len, mode);
	return mac_key_load(key, path, e);
}

static void test_secret_files(void **state)
{
	static const char secret[] = "0123456789abcdef", other[] = "0123456789abcdeF";
	struct mac_key a, b;
	struct error e;
	char longest[MAC_SECRET_MAX + 2];
	(void)state;
	memset(longest, 'x', sizeof longest);
	assert_int_equal(load(secret, 16, 0600, &a, &e), ERR_OK);
	assert_int_equal(load("0123456789abcdef \r\n\n", 20, 0640, &b, &e), ERR_OK);
	assert_memory_equal(&a, &b, sizeof a);
	assert_null(strstr((const char *)a.bytes, "0123"));
	assert_int_equal(load(other, 16, 0600, &b, &e), ERR_OK);
	assert_memory_not_equal(&a, &b, sizeof a);
	assert_int_equal(load(longest, MAC_SECRET_MAX, 0600, &b, &e), ERR_OK);
	assert_int_equal(load(longest, MAC_SECRET_MAX + 1, 0600, &b, &e), ERR_CONFIG);
	assert_int_equal(load(secret, 15, 0600, &b, &e), ERR_CONFIG);
	assert_int_equal(load("", 0, 0600, &b, &e), ERR_CONFIG);
	for (unsigned bit = 1; bit <= 4; bit <<= 1) {
		assert_int_equal(load(secret, 16, 0600 | bit, &b, &e), ERR_CONFIG);
		assert_non_null(strstr(e.text, "anyone"));
		assert_null(strstr(e.text, "0123"));
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mac_key_load(&b, path, &e), ERR_CONFIG);
	assert_int_equal(mac_key_load(&b, "/", &e), ERR_CONFIG);
	assert_int_equal(mac_key_load(&b, "/dev/zero", &e), ERR_CONFIG);
}

/* ---- values ---- */

enum { PAGE_BYTES = 3000 };

static const struct value_id id = {{{1, 2, 3}}, 77, 5, PAGE_CODE};

static void encode(struct buffer *out, enum page_codec codec, struct mac *mac)
{
	struct page *p = page_new(PAGE_CODE, PAGE_BYTES);
	assert_non_null(p);
	for (uint32_t i = 0; i < p->len; i++)
		p->bytes[i] = (uint8_t)(i / 7);
	buffer_init(out, SIZE_MAX);
	assert_int_equal(value_encode(out, &id, p, codec, mac), ERR_OK);
	page_unref(p);
}

static bool believed(const struct buffer *value, struct mac *mac)
{
	struct page *back = NULL;
	enum err err = value_decode(value->data, value->len, &id, mac, &back);
	assert_true(err == ERR_OK ? back && back->len == PAGE_BYTES : err == ERR_CORRUPT && !back);
	page_unref(back);
	return err == ERR_OK;
}

/* Each of three (no key, one key, another) believes its own values alone, in every codec. */
static void test_values_of_other_keys(void **state)
{
	struct mac *macs[] = {NULL, mac_of(0), mac_of(1)};
	(void)state;
	for (unsigned codec = CODEC_RAW; codec <= CODEC_ZSTD; codec++)
		for (unsigned writer = 0; writer < 3; writer++) {
			struct buffer value;
			encode(&value, codec, macs[writer]);
			for (unsigned reader = 0; reader < 3; reader++)
				assert_int_equal(believed(&value, macs[reader]), reader == writer);
			buffer_release(&value);
		}
	mac_free(macs[1]);
	mac_free(macs[2]);
}

/* Who has not the key can change nothing, not even with the checksum that is there without a key. */
static void test_forgeries(void **state)
{
	struct mac *mac = mac_of(0);
	struct buffer value;
	(void)state;
	encode(&value, CODEC_RAW, mac);
	uint8_t *whole = malloc(value.len);
	assert_non_null(whole);
	memcpy(whole, value.data, value.len);
	for (size_t i = 0; i < value.len; i++) {
		value.data[i] ^= 1;
		assert_false(believed(&value, mac));
		put_u64(value.data + 40, checksum(value.data, 40, value.data + VALUE_HEADER, value.len - VALUE_HEADER));
		assert_false(believed(&value, mac));
		memcpy(value.data, whole, value.len);
	}
	free(whole);
	assert_true(believed(&value, mac));
	buffer_release(&value);
	mac_free(mac);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_vectors),
	        cmocka_unit_test(test_secret_files),
	        cmocka_unit_test(test_values_of_other_keys),
	        cmocka_unit_test(test_forgeries),
	};
	snprintf(path, sizeof path, "/tmp/test_mac.%ld", (long)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
