/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes: the identity of a module, checksums of stored values, SHA-256 and HMAC. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* 128 bits of SHA-256: the name of a module in every cache. */
struct module_hash {
	uint8_t bytes[16];
};

/* Of kind (a word without NUL) and name and id; the id's letters count as upper-case. */
bool module_hash_make(struct module_hash *h, const char *kind, struct str name, struct str id);

static inline bool module_hash_equal(const struct module_hash *a, const struct module_hash *b)
{
	return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* For a hash table: the random seed keeps outsiders from choosing modules that collide. */
uint64_t module_hash_seeded(const struct module_hash *h, uint64_t seed);
/* The same for a name and an id as they were sent. */
uint64_t name_hash_seeded(struct str name, struct str id, uint64_t seed);

/* libcrypto's SHA-256 (an EVP_MD), fetched by the first thread that needs it: several threads cannot fill libcrypto's
 * own table of digests without a data race (OpenSSL 3.5). NULL if out of memory. */
const struct evp_md_st *sha256_kind(void);

/* SHA-256 as lower-case hex, NUL-terminated; false if out of memory. */
enum { SHA256_BYTES = 32, SHA256_HEX = 64 };
bool sha256_hex(char out[SHA256_HEX + 1], const void *data, size_t len);

/* The same for bytes that arrive in pieces. end returns false if any step has failed. */
struct sha256;
struct sha256 *sha256_new(void);
void sha256_free(struct sha256 *h);
bool sha256_add(struct sha256 *h, const void *data, size_t len);
bool sha256_end(struct sha256 *h, char out[SHA256_HEX + 1]);

/* HMAC-SHA-256; false if out of memory. */
bool hmac_sha256(uint8_t out[SHA256_BYTES], const void *key, size_t key_len, const void *data, size_t len);

/* XXH3 of two byte ranges, one after the other. */
uint64_t checksum(const void *a, size_t a_len, const void *b, size_t b_len);

/* 128 bits of XXH3, for tables of texts: who does not know the seed cannot choose texts that collide. */
void hash_text(uint64_t hash[2], struct str text, uint64_t seed);

/* URL-safe base64 without padding, NUL-terminated; out has room for 4 * (len + 2) / 3 + 1 bytes. Returns the length. */
size_t base64url(char *out, const uint8_t *data, size_t len);

/* A running XXH3 over a text that arrives in pieces. */
struct text_hash;
struct text_hash *text_hash_new(void);
void text_hash_free(struct text_hash *h);
void text_hash_add(struct text_hash *h, const void *data, size_t len);
uint64_t text_hash_value(const struct text_hash *h);

#endif
