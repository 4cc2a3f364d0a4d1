/* SPDX-License-Identifier: Apache-2.0 */
/* libcrypto's digests: fetched once, whichever threads come first, and never looked up again. Under ThreadSanitizer
 * with OpenSSL 3.5 the same test shows the race that this avoids. */
#include <config.h>

#include "base/hash.h"
#include "seed.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "base/mac.h"
#include "symbfile/file_id.h"

#include "../../src/modules/digests.c"

enum { THREADS = 8 };

static atomic_uint fetches, mac_fetches, lookups;

EVP_MD *__real_EVP_MD_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties);
EVP_MD *__wrap_EVP_MD_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties);
EVP_MAC *__real_EVP_MAC_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties);
EVP_MAC *__wrap_EVP_MAC_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties);
const EVP_MD *__real_EVP_sha256(void);
const EVP_MD *__wrap_EVP_sha256(void);

EVP_MD *__wrap_EVP_MD_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties)
{
	atomic_fetch_add(&fetches, 1);
	return __real_EVP_MD_fetch(context, name, properties);
}

EVP_MAC *__wrap_EVP_MAC_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties)
{
	atomic_fetch_add(&mac_fetches, 1);
	return __real_EVP_MAC_fetch(context, name, properties);
}

const EVP_MD *__wrap_EVP_sha256(void)
{
	atomic_fetch_add(&lookups, 1);
	return __real_EVP_sha256();
}

static void print_hex(char *out, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sprintf(out + 2 * i, "%02x", data[i]);
}

/* Everything of ours that hashes. NULL: all went well. */
static void *hash(void *barrier)
{
	struct module_hash module;
	struct mac_key key = {{1}};
	struct file_id id;
	char hex[SHA256_HEX + 1];
	uint8_t code[SHA256_BYTES];
	pthread_barrier_wait(barrier);
	bool ok = module_hash_make(&module, "sym", str_from("a.so"), str_from("1"));
	ok = sha256_hex(hex, "abc", 3) && ok;
	ok = strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0 && ok;
	struct sha256 *running = sha256_new();
	ok = running && sha256_add(running, "ab", 2) && sha256_add(running, "c", 1) && sha256_end(running, hex) && ok;
	ok = strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0 && ok;
	sha256_free(running);
	ok = hmac_sha256(code, "key", 3, "data", 4) && ok;
	struct mac *mac = mac_new(&key);
	ok = mac && ok;
	mac_free(mac);
	ok = file_id_make(&id, code, sizeof code, sizeof code) && ok;
	return ok ? NULL : barrier;
}

static void threads_that_hash_first_fetch_the_digest_once(void **state)
{
	pthread_t threads[THREADS];
	pthread_barrier_t barrier;
	(void)state;
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hash, &barrier), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	pthread_barrier_destroy(&barrier);
	assert_int_equal(fetches, 1);
	assert_int_equal(mac_fetches, 2); /* HMAC and SipHash */
	assert_int_equal(lookups, 0);
}

/* RFC 4231, cases 1, 2, 3 and 6. */
static void hmac_of_the_standard(void **state)
{
	static const char ask[] = "what do ya want for nothing?";
	static const char large[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	uint8_t out[SHA256_BYTES], key[131], data[50];
	char hex[SHA256_HEX + 1];
	(void)state;
	memset(key, 0x0b, 20);
	assert_true(hmac_sha256(out, key, 20, "Hi There", 8));
	print_hex(hex, out, sizeof out);
	assert_string_equal(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	assert_true(hmac_sha256(out, "Jefe", 4, ask, strlen(ask)));
	print_hex(hex, out, sizeof out);
	assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof key);
	memset(data, 0xdd, sizeof data);
	assert_true(hmac_sha256(out, key, 20, data, sizeof data));
	print_hex(hex, out, sizeof out);
	assert_string_equal(hex, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
	assert_true(hmac_sha256(out, key, sizeof key, large, strlen(large)));
	print_hex(hex, out, sizeof out);
	assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

struct asker {
	uint64_t seed;
	unsigned wrong;
};

static size_t random_text(char *out, size_t max, uint64_t *seed)
{
	static const char letters[] = "abcDEF019._-\0/";
	size_t len = next_random(seed) % max;
	for (size_t i = 0; i < len; i++)
		out[i] = letters[next_random(seed) % (sizeof letters - 1)];
	return len;
}

/* Few names, so that they come again, and some that are too long to be kept. */
static void *ask_for_digests(void *arg)
{
	static const char *const kinds[] = {"sym", "sym-nearest", "spelling", "symbfile"};
	struct asker *a = arg;
	for (unsigned i = 0; i < 20000 / slowness(); i++) {
		char name[200], id[60];
		uint64_t seed = a->seed + next_random(&a->seed) % 3000;
		struct str n = {name, random_text(name, i % 10 ? 4 : sizeof name, &seed)};
		struct str d = {id, random_text(id, i % 10 ? 4 : sizeof id, &seed)};
		const char *kind = kinds[next_random(&seed) % 4];
		struct module_hash want, got;
		if (!module_hash_make(&want, kind, n, d) || !digest_of_module(&got, kind, n, d) ||
		        !module_hash_equal(&want, &got))
			a->wrong++;
	}
	return NULL;
}

static void digests_that_are_remembered_are_the_same(void **state)
{
	struct asker askers[4];
	pthread_t threads[4];
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		askers[i] = (struct asker){seed_of(i), 0};
		assert_int_equal(pthread_create(&threads[i], NULL, ask_for_digests, &askers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(askers[i].wrong, 0);
	}
}

/* Whoever holds the lock of a place may have lost its core. */
static void nobody_waits_for_a_digest(void **state)
{
	struct str name = str_from("xul.pdb"), id = str_from("44E4EC8C2F41492B9369D6B9A059577C2");
	struct module_hash want, got;
	(void)state;
	assert_true(module_hash_make(&want, "sym", name, id));
	for (unsigned i = 0; i < PLACES; i++)
		assert_false(atomic_flag_test_and_set(&places[i].locked));
	assert_true(digest_of_module(&got, "sym", name, id));
	for (unsigned i = 0; i < PLACES; i++)
		atomic_flag_clear(&places[i].locked);
	assert_memory_equal(&got, &want, sizeof want);
}

int main(void)
{
	/* the first one first: afterwards everything has been fetched */
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(threads_that_hash_first_fetch_the_digest_once),
	        cmocka_unit_test(digests_that_are_remembered_are_the_same),
	        cmocka_unit_test(nobody_waits_for_a_digest),
	        cmocka_unit_test(hmac_of_the_standard),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
