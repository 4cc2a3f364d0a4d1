/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses are one client. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/client_key.h"

static bool same(const char *a, const char *b, unsigned prefix)
{
	struct client_key x = client_key_of(a, prefix), y = client_key_of(b, prefix);
	bool equal = client_key_equal(x, y);
	/* 64 bits of a good hash: different keys do not collide by chance */
	assert_int_equal(client_key_hash(x, 7) == client_key_hash(y, 7), equal);
	return equal;
}

static void test_an_ipv4_address_is_one_client(void **state)
{
	(void)state;
	assert_true(same("192.0.2.1", "192.0.2.1", 64));
	assert_false(same("192.0.2.1", "192.0.2.2", 64));
	assert_false(same("192.0.2.1", "128.0.2.1", 0));
	assert_true(same("192.0.2.1", "::ffff:192.0.2.1", 64));
	assert_false(same("::ffff:192.0.2.2", "::ffff:192.0.2.1", 0));
	assert_false(same("192.0.2.1", "::192.0.2.1", 128));
}

static void test_an_ipv6_network_is_one_client(void **state)
{
	(void)state;
	assert_true(same("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", 64));
	assert_false(same("2001:db8:1:2::1", "2001:db8:1:3::1", 64));
	assert_true(same("2001:db8:1:2::1", "2001:db8:1:3::1", 63));
	assert_true(same("2001:db8:1:ff::1", "2001:db8:1::", 56));
	assert_false(same("2001:db8:1:100::1", "2001:db8:1::", 56));
	assert_false(same("2001:db8::1", "2001:db8::2", 128));
	assert_true(same("2001:db8::2", "2001:db8::3", 127));
	assert_false(same("2001:db8::1", "2001:db8::3", 127));
	assert_true(same("2001:db8::1", "fe80::1", 0));
}

static void test_what_is_no_address_is_one_client(void **state)
{
	(void)state;
	assert_true(same(NULL, "unix:", 64));
	assert_true(same("", "192.0.2.1.5", 64));
	assert_true(same("fe80::1%eth0", "2001:db8::/64", 128));
	assert_false(same(NULL, "192.0.2.1", 64));
	assert_false(same(NULL, "::", 64));
	assert_false(same(NULL, "::", 0));
}

static void test_the_seed_changes_the_hash(void **state)
{
	struct client_key key = client_key_of("192.0.2.1", 64);
	(void)state;
	assert_true(client_key_hash(key, 1) != client_key_hash(key, 2));
}

static void test_text(void **state)
{
	char out[CLIENT_KEY_TEXT];
	(void)state;
	assert_string_equal(client_key_text(out, client_key_of("::ffff:192.0.2.1", 64), 64), "192.0.2.1");
	assert_string_equal(client_key_text(out, client_key_of("2001:db8:1:2:3::4", 64), 64), "2001:db8:1:2::/64");
	assert_string_equal(client_key_text(out, client_key_of("2001:db8::4", 128), 128), "2001:db8::4");
	assert_string_equal(client_key_text(out, client_key_of("unix:", 64), 64), "unknown");
	/* the longest */
	assert_string_equal(client_key_text(out, client_key_of("1111:2222:3333:4444:5555:6666:7777:8888", 127), 127),
	        "1111:2222:3333:4444:5555:6666:7777:8888/127");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_an_ipv4_address_is_one_client),
	        cmocka_unit_test(test_an_ipv6_network_is_one_client),
	        cmocka_unit_test(test_what_is_no_address_is_one_client),
	        cmocka_unit_test(test_the_seed_changes_the_hash),
	        cmocka_unit_test(test_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
