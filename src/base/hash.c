/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/hash.h"

#include <ctype.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#ifdef HAVE_XXH3_64BITS_UPDATE_DISPATCH
#include <xxh_x86dispatch.h> /* the same values, by AVX2 or AVX-512 where the processor has them */
#else
#include <xxhash.h>
#endif

#include "base/hex.h"

/* ---- what is fetched once ---- */

static pthread_mutex_t fetching = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(EVP_MD *) sha256;
static _Atomic(EVP_MAC_CTX *) hmac; /* has its digest but no key; copied for each use */

const EVP_MD *sha256_kind(void)
{
	EVP_MD *kind = atomic_load(&sha256);
	if (kind)
		return kind;
	pthread_mutex_lock(&fetching);
	kind = atomic_load(&sha256);
	if (!kind)
		atomic_store(&sha256, kind = EVP_MD_fetch(NULL, "SHA256", NULL));
	pthread_mutex_unlock(&fetching);
	return kind;
}

static EVP_MAC_CTX *hmac_new(void)
{
	static char digest[] = "SHA256"; /* the parameter lacks the const */
	OSSL_PARAM params[] = {
	        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
	EVP_MAC *kind = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *ctx = kind ? EVP_MAC_CTX_new(kind) : NULL;
	EVP_MAC_free(kind); /* the context has a reference */
	if (ctx && EVP_MAC_CTX_set_params(ctx, params))
		return ctx;
	EVP_MAC_CTX_free(ctx);
	return NULL;
}

static const EVP_MAC_CTX *hmac_kind(void)
{
	EVP_MAC_CTX *kind = atomic_load(&hmac);
	if (kind)
		return kind;
	pthread_mutex_lock(&fetching);
	kind = atomic_load(&hmac);
	if (!kind)
		atomic_store(&hmac, kind = hmac_new());
	pthread_mutex_unlock(&fetching);
	return kind;
}

/* ---- hashes ---- */

bool module_hash_make(struct module_hash *h, const char *kind, struct str name, struct str id)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	bool ok = false;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	if (!ctx)
		return false;
	/* A NUL ends kind and name; names that contain one are never looked up (bucket_can_hold). */
	ok = EVP_DigestInit_ex(ctx, sha256_kind(), NULL) && EVP_DigestUpdate(ctx, kind, strlen(kind) + 1) &&
	     EVP_DigestUpdate(ctx, name.data, name.len) && EVP_DigestUpdate(ctx, "", 1);
	for (size_t i = 0, n; ok && i < id.len; i += n) {
		uint8_t upper[64];
		for (n = 0; n < sizeof upper && n < id.len - i; n++)
			upper[n] = (uint8_t)toupper((unsigned char)id.data[i + n]);
		ok = EVP_DigestUpdate(ctx, upper, n);
	}
	ok = ok && EVP_DigestFinal_ex(ctx, digest, NULL);
	if (ok)
		memcpy(h->bytes, digest, sizeof h->bytes);
	EVP_MD_CTX_free(ctx);
	return ok;
}

bool sha256_hex(char out[SHA256_HEX + 1], const void *data, size_t len)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	if (!EVP_Digest(data, len, digest, NULL, sha256_kind(), NULL))
		return false;
	hex_write(out, digest, SHA256_BYTES);
	return true;
}

/* struct sha256 is never completed: it stands for EVP_MD_CTX. */
struct sha256 *sha256_new(void)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	if (ctx && EVP_DigestInit_ex(ctx, sha256_kind(), NULL))
		return (struct sha256 *)ctx;
	EVP_MD_CTX_free(ctx);
	return NULL;
}

void sha256_free(struct sha256 *h)
{
	EVP_MD_CTX_free((EVP_MD_CTX *)h);
}

bool sha256_add(struct sha256 *h, const void *data, size_t len)
{
	return EVP_DigestUpdate((EVP_MD_CTX *)h, data, len);
}

bool sha256_end(struct sha256 *h, char out[SHA256_HEX + 1])
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	if (!EVP_DigestFinal_ex((EVP_MD_CTX *)h, digest, NULL))
		return false;
	hex_write(out, digest, SHA256_BYTES);
	return true;
}

bool hmac_sha256(uint8_t out[SHA256_BYTES], const void *key, size_t key_len, const void *data, size_t len)
{
	const EVP_MAC_CTX *kind = hmac_kind();
	EVP_MAC_CTX *ctx = kind ? EVP_MAC_CTX_dup(kind) : NULL;
	size_t n = 0;
	bool ok = ctx && EVP_MAC_init(ctx, key, key_len, NULL) && EVP_MAC_update(ctx, data, len) &&
	          EVP_MAC_final(ctx, out, &n, SHA256_BYTES) && n == SHA256_BYTES;
	EVP_MAC_CTX_free(ctx);
	return ok;
}

uint64_t checksum(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return XXH3_64bits_withSeed(b, b_len, XXH3_64bits(a, a_len));
}

void hash_text(uint64_t hash[2], struct str text, uint64_t seed)
{
	const XXH128_hash_t h = XXH3_128bits_withSeed(text.data, text.len, seed);
	hash[0] = h.low64;
	hash[1] = h.high64;
}

uint64_t module_hash_seeded(const struct module_hash *h, uint64_t seed)
{
	return XXH3_64bits_withSeed(h->bytes, sizeof h->bytes, seed);
}

uint64_t name_hash_seeded(struct str name, struct str id, uint64_t seed)
{
	return XXH3_64bits_withSeed(id.data, id.len, XXH3_64bits_withSeed(name.data, name.len, seed));
}

size_t base64url(char *out, const uint8_t *data, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t n = 0;
	for (size_t i = 0; i < len; i += 3) {
		unsigned left = len - i < 3 ? (unsigned)(len - i) : 3;
		uint32_t v = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
		             (left > 2 ? data[i + 2] : 0);
		for (unsigned k = 0; k <= left; k++)
			out[n++] = digits[v >> (18 - 6 * k) & 63];
	}
	out[n] = 0;
	return n;
}

/* struct text_hash is never completed: it stands for XXH3_state_t, so that only this file knows xxhash. */
struct text_hash *text_hash_new(void)
{
	/* XXH3_createState aligns the state to 64 bytes, as its vector code wants. */
	XXH3_state_t *state = XXH3_createState();
	if (state)
		XXH3_64bits_reset(state);
	return (struct text_hash *)state;
}

void text_hash_free(struct text_hash *h)
{
	XXH3_freeState((XXH3_state_t *)h);
}

void text_hash_add(struct text_hash *h, const void *data, size_t len)
{
	XXH3_64bits_update((XXH3_state_t *)h, data, len);
}

uint64_t text_hash_value(const struct text_hash *h)
{
	return XXH3_64bits_digest((const XXH3_state_t *)h);
}
