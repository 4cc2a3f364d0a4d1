/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/mac.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/varint.h"

struct mac {
	EVP_MAC_CTX *ctx;
	struct mac_key key;
};

/* ---- the key ---- */

/* Hashed before the secret, so that a secret used elsewhere too gives a different key here. */
static const char purpose[] = "symbolicated: values in memcached";

static bool derive(struct mac_key *key, const uint8_t *secret, size_t len)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestInit_ex(ctx, sha256_kind(), NULL) &&
	          EVP_DigestUpdate(ctx, purpose, sizeof purpose) && EVP_DigestUpdate(ctx, secret, len) &&
	          EVP_DigestFinal_ex(ctx, digest, NULL);
	if (ok)
		memcpy(key->bytes, digest, sizeof key->bytes);
	OPENSSL_cleanse(digest, sizeof digest);
	EVP_MD_CTX_free(ctx);
	return ok;
}

static size_t without_end(const uint8_t *text, size_t len)
{
	while (len && memchr(" \t\r\n", text[len - 1], 4))
		len--;
	return len;
}

/* Anyone who can read the secret can forge values that we trust. */
static enum err check_mode(int fd, struct error *e)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return error_set(e, ERR_CONFIG, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(e, ERR_CONFIG, "not a regular file");
	if (st.st_mode & S_IRWXO)
		return error_set(e, ERR_CONFIG, "anyone can access this file: use chmod o=");
	return ERR_OK;
}

static enum err read_secret(int fd, struct mac_key *key, struct error *e)
{
	uint8_t text[MAC_SECRET_MAX + 64]; /* room for the blanks that are trimmed */
	ssize_t n = read(fd, text, sizeof text);
	size_t len = without_end(text, n > 0 ? (size_t)n : 0);
	enum err err = ERR_OK;
	if (n < 0)
		err = error_set(e, ERR_CONFIG, "%s", strerror(errno));
	else if (len < MAC_SECRET_MIN || len > MAC_SECRET_MAX)
		err = error_set(e, ERR_CONFIG, "a secret has %d to %d bytes", MAC_SECRET_MIN, MAC_SECRET_MAX);
	else if (!derive(key, text, len))
		err = error_set(e, ERR_NO_MEMORY, "SHA-256 failed");
	OPENSSL_cleanse(text, sizeof text);
	return err;
}

enum err mac_key_load(struct mac_key *key, const char *path, struct error *e)
{
	struct error inner = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return error_set(e, ERR_CONFIG, "%s: %s", path, strerror(errno));
	enum err err = check_mode(fd, &inner);
	if (!err)
		err = read_secret(fd, key, &inner);
	close(fd);
	return err ? error_set(e, err, "%s: %s", path, inner.text) : ERR_OK;
}

/* ---- tags ---- */

/* Fetched once, as the digests of hash.c are and for the same reason. */
static EVP_MAC *siphash(void)
{
	static pthread_mutex_t fetching = PTHREAD_MUTEX_INITIALIZER;
	static EVP_MAC *kind;
	pthread_mutex_lock(&fetching);
	if (!kind)
		kind = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
	EVP_MAC *fetched = kind;
	pthread_mutex_unlock(&fetching);
	return fetched;
}

struct mac *mac_new(const struct mac_key *key)
{
	size_t size = sizeof(uint64_t);
	OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size), OSSL_PARAM_construct_end()};
	EVP_MAC *kind = siphash();
	struct mac *m = calloc(1, sizeof *m);
	if (m && kind)
		m->ctx = EVP_MAC_CTX_new(kind);
	if (m && m->ctx && EVP_MAC_CTX_set_params(m->ctx, params)) {
		m->key = *key;
		return m;
	}
	mac_free(m);
	return NULL;
}

void mac_free(struct mac *m)
{
	if (!m)
		return;
	EVP_MAC_CTX_free(m->ctx);
	OPENSSL_cleanse(&m->key, sizeof m->key);
	free(m);
}

bool mac_tag(struct mac *m, const void *a, size_t a_len, const void *b, size_t b_len, uint64_t *tag)
{
	uint8_t out[sizeof *tag];
	size_t n = 0;
	if (!EVP_MAC_init(m->ctx, m->key.bytes, sizeof m->key.bytes, NULL) || !EVP_MAC_update(m->ctx, a, a_len) ||
	        !EVP_MAC_update(m->ctx, b, b_len) || !EVP_MAC_final(m->ctx, out, &n, sizeof out) || n != sizeof out)
		return false;
	*tag = get_u64(out);
	return true;
}
