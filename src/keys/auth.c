/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "keys/auth.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/hex.h"

/* A key is 32 random bytes, written as base64url. Nobody can try them all, so one round of salted SHA-256 is as safe as
 * a slow hash, and costs a microsecond per request. The salt hides that two keys are equal. */
enum {
	ID_SIZE = 64,
	SALT_BYTES = 16,
	HASH_BYTES = 32,
	KEY_BYTES = 32,
	KEYS_MAX = 10000,
	LINE_SIZE = 256,
	HEADER_MAX = 512 /* bytes of base64 */
};

struct key {
	char id[ID_SIZE];
	unsigned rights;
	uint8_t salt[SALT_BYTES], hash[HASH_BYTES];
};

struct auth_keys {
	struct key *items;
	size_t count;
	uint32_t cap;
};

/* auth_use replaces it while requests are checked; NULL: no keys. */
static struct auth_keys *in_force;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static const struct {
	const char *name;
	enum auth_right right;
} rights_by_name[] = {
        {"upload", RIGHT_UPLOAD},
        {"invalidate", RIGHT_INVALIDATE},
        {"remove", RIGHT_REMOVE},
        {"read", RIGHT_READ},
};
enum { RIGHTS = sizeof rights_by_name / sizeof rights_by_name[0] };

static unsigned right_by_name(struct str name)
{
	for (unsigned i = 0; i < RIGHTS; i++)
		if (str_equal(name, str_from(rights_by_name[i].name)))
			return rights_by_name[i].right;
	return 0;
}

enum err auth_parse_rights(struct str text, unsigned *rights, struct error *e)
{
	*rights = 0;
	while (text.len) {
		struct str name = str_cut(&text, ',');
		unsigned right = right_by_name(name);
		if (!right)
			return error_set(e, ERR_CONFIG, "unknown right \"%.*s\"", (int)(name.len < 64 ? name.len : 64),
			        name.data);
		*rights |= right;
	}
	return *rights ? ERR_OK : error_set(e, ERR_CONFIG, "no right is given");
}

static bool id_is_valid(struct str id)
{
	for (size_t i = 0; i < id.len; i++)
		if (!isalnum((unsigned char)id.data[i]) && !memchr("._-", id.data[i], 3))
			return false;
	return id.len > 0 && id.len < ID_SIZE;
}

static bool hash_key(uint8_t out[HASH_BYTES], const uint8_t salt[SALT_BYTES], struct str key)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestInit_ex(ctx, sha256_kind(), NULL) && EVP_DigestUpdate(ctx, salt, SALT_BYTES) &&
	          EVP_DigestUpdate(ctx, key.data, key.len) && EVP_DigestFinal_ex(ctx, out, NULL);
	EVP_MD_CTX_free(ctx);
	return ok;
}

/* id:rights:salt:hash */
static enum err parse_line(struct key *k, struct str line, struct error *e)
{
	struct str id = str_cut(&line, ':'), rights = str_cut(&line, ':'), salt = str_cut(&line, ':');
	if (!id_is_valid(id))
		return error_set(e, ERR_CONFIG, "an id has 1 to %d characters of A-Z a-z 0-9 . _ -", ID_SIZE - 1);
	memcpy(k->id, id.data, id.len);
	k->id[id.len] = 0;
	enum err err = auth_parse_rights(rights, &k->rights, e);
	if (err)
		return err;
	if (!hex_read(k->salt, SALT_BYTES, salt) || !hex_read(k->hash, HASH_BYTES, line))
		return error_set(e, ERR_CONFIG, "not of the form id:rights:salt:hash");
	return ERR_OK;
}

static const struct key *find_key(const struct auth_keys *keys, const char *id)
{
	for (size_t i = 0; keys && i < keys->count; i++)
		if (strcmp(keys->items[i].id, id) == 0)
			return &keys->items[i];
	return NULL;
}

static enum err add_key(struct auth_keys *keys, const struct key *k, struct error *e)
{
	if (find_key(keys, k->id))
		return error_set(e, ERR_CONFIG, "the id \"%s\" is used twice", k->id);
	if (keys->count == KEYS_MAX)
		return error_set(e, ERR_CONFIG, "more than %d keys", KEYS_MAX);
	if (!array_reserve(&keys->items, &keys->cap, keys->count + 1, sizeof *keys->items))
		return no_memory(e);
	keys->items[keys->count++] = *k;
	return ERR_OK;
}

static enum err read_line(struct auth_keys *keys, char *line, bool last, struct error *e)
{
	struct key k;
	struct str text = str_from(line);
	if (text.len && text.data[text.len - 1] == '\n')
		text.len--;
	else if (!last)
		return error_set(e, ERR_CONFIG, "line is too long");
	if (!text.len || text.data[0] == '#')
		return ERR_OK;
	enum err err = parse_line(&k, text, e);
	return err ? err : add_key(keys, &k, e);
}

/* Anyone who can write the file can let himself in. */
static enum err check_mode(FILE *in, struct error *e)
{
	struct stat st;
	if (fstat(fileno(in), &st) != 0)
		return error_set(e, ERR_CONFIG, "%s", strerror(errno));
	if (st.st_mode & S_IWOTH)
		return error_set(e, ERR_CONFIG, "anyone can write this file: use chmod o-w");
	return ERR_OK;
}

static enum err read_file(struct auth_keys *keys, const char *path, struct error *e)
{
	char line[LINE_SIZE];
	unsigned number = 0;
	struct error inner = {0};
	FILE *in = fopen(path, "re");
	if (!in)
		return error_set(e, ERR_CONFIG, "%s: %s", path, strerror(errno));
	enum err err = check_mode(in, &inner);
	while (!err && fgets(line, sizeof line, in)) {
		number++;
		err = read_line(keys, line, feof(in), &inner);
		if (!err && number > 10 * KEYS_MAX)
			err = error_set(&inner, ERR_CONFIG, "too many lines");
	}
	if (err)
		error_set(e, err, "%s:%u: %s", path, number, inner.text);
	else if (ferror(in))
		err = error_set(e, ERR_CONFIG, "%s: cannot be read", path);
	fclose(in);
	return err;
}

void auth_keys_free(struct auth_keys *keys)
{
	if (!keys)
		return;
	free(keys->items);
	free(keys);
}

struct auth_keys *auth_read(const char *path, struct error *e)
{
	struct auth_keys *keys = calloc(1, sizeof *keys);
	enum err err = keys ? ERR_OK : no_memory(e);
	if (!err && path && *path)
		err = read_file(keys, path, e);
	if (!err)
		return keys;
	auth_keys_free(keys);
	return NULL;
}

void auth_use(struct auth_keys *keys)
{
	pthread_rwlock_wrlock(&lock);
	struct auth_keys *old = in_force;
	in_force = keys;
	pthread_rwlock_unlock(&lock);
	auth_keys_free(old);
}

enum err auth_load(const char *path, struct error *e)
{
	struct error inner;
	struct auth_keys *keys = auth_read(path, e ? e : &inner);
	if (!keys)
		return e ? e->code : inner.code;
	auth_use(keys);
	return ERR_OK;
}

/* Standard base64 with padding, decoded to at most HEADER_MAX bytes; -1 for anything else. EVP_DecodeBlock alone would
 * accept blanks and wrong padding. */
static int decode_base64(uint8_t out[HEADER_MAX], const char *text)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t len = strlen(text), body = strspn(text, digits), padding = len - body;
	if (len == 0 || len > HEADER_MAX || len % 4 != 0 || padding > 2 || strspn(text + body, "=") != padding)
		return -1;
	int n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
	return n < 0 ? -1 : n - (int)padding;
}

/* Decodes "APIKey base64(id:key)"; false if it has another form. */
static bool parse_header(const char *header, uint8_t out[HEADER_MAX], struct str *id, struct str *key)
{
	static const char scheme[] = "APIKey ";
	if (!header || strncasecmp(header, scheme, sizeof scheme - 1) != 0)
		return false;
	header += sizeof scheme - 1;
	int n = decode_base64(out, header + strspn(header, " "));
	if (n <= 0 || !memchr(out, ':', (size_t)n))
		return false;
	*key = (struct str){(const char *)out, (size_t)n};
	*id = str_cut(key, ':');
	return id_is_valid(*id);
}

/* Hashes and compares even if the id is unknown, so that the time reveals nothing. False if out of memory. */
static bool match_key(const struct key *k, struct str key, bool *same)
{
	static const struct key nobody;
	uint8_t hash[HASH_BYTES];
	const struct key *against = k ? k : &nobody;
	*same = false;
	if (!hash_key(hash, against->salt, key))
		return false;
	*same = CRYPTO_memcmp(hash, against->hash, HASH_BYTES) == 0 && k;
	return true;
}

/* separator: between two of them */
static void print_rights(char out[64], unsigned rights, const char *separator)
{
	out[0] = 0;
	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights & rights_by_name[i].right)
			snprintf(out + strlen(out), 64 - strlen(out), "%s%s", *out ? separator : "",
			        rights_by_name[i].name);
}

static enum err check_key(struct str id, struct str key, unsigned rights, char id_out[ID_SIZE], struct error *e)
{
	char name[ID_SIZE], lacking[64];
	memcpy(name, id.data, id.len);
	name[id.len] = 0;
	pthread_rwlock_rdlock(&lock);
	const struct key *k = find_key(in_force, name);
	bool same, hashed = match_key(k, key, &same), may = same && k->rights & rights;
	pthread_rwlock_unlock(&lock);
	if (!hashed)
		return no_memory(e);
	if (!same)
		return error_set(e, ERR_FORBIDDEN, "unknown or revoked API key");
	print_rights(lacking, rights, " or ");
	if (!may)
		return error_set(e, ERR_FORBIDDEN, "this API key lacks the right to do that: %s", lacking);
	memcpy(id_out, name, ID_SIZE);
	return ERR_OK;
}

enum err auth_check(const char *header, unsigned rights, char id_out[ID_SIZE], struct error *e)
{
	uint8_t text[HEADER_MAX];
	struct str id, key;
	enum err err;
	id_out[0] = 0;
	if (!header)
		err = error_set(e, ERR_UNAUTHORIZED, "an API key is needed: Authorization: APIKey base64(id:key)");
	else if (!parse_header(header, text, &id, &key))
		err = error_set(e, ERR_UNAUTHORIZED, "Authorization is not of the form APIKey base64(id:key)");
	else
		err = check_key(id, key, rights, id_out, e);
	OPENSSL_cleanse(text, sizeof text);
	return err;
}

enum err auth_make(
        const char *id, unsigned rights, char key_out[AUTH_KEY_SIZE], char line[AUTH_LINE_SIZE], struct error *e)
{
	uint8_t random[KEY_BYTES + SALT_BYTES], hash[HASH_BYTES];
	char key[4 * (KEY_BYTES + 2) / 3 + 1], names[64], salt_text[2 * SALT_BYTES + 1], hash_text[2 * HASH_BYTES + 1];
	enum err err = ERR_OK;
	if (!id_is_valid(str_from(id)))
		return error_set(e, ERR_CONFIG, "an id has 1 to %d characters of A-Z a-z 0-9 . _ -", ID_SIZE - 1);
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return error_set(e, ERR_IO, "getrandom: %s", strerror(errno));
	base64url(key, random, KEY_BYTES);
	if (!hash_key(hash, random + KEY_BYTES, str_from(key))) {
		err = error_set(e, ERR_NO_MEMORY, "SHA-256 failed");
		goto out;
	}
	print_rights(names, rights, ",");
	hex_write(salt_text, random + KEY_BYTES, SALT_BYTES);
	hex_write(hash_text, hash, HASH_BYTES);
	memcpy(key_out, key, sizeof key);
	snprintf(line, AUTH_LINE_SIZE, "%s:%s:%s:%s", id, names, salt_text, hash_text);
out:
	OPENSSL_cleanse(random, sizeof random);
	OPENSSL_cleanse(key, sizeof key);
	return err;
}
