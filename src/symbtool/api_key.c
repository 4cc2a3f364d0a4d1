/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/api_key.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

enum { KEY_MAX = 1024 };

/* The first line of the file, without its end. */
static enum err read_key_file(char key[KEY_MAX], const char *path, struct error *e)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	bool ok = fgets(key, KEY_MAX, f) != NULL, whole = (ok && strchr(key, '\n')) || getc(f) == EOF;
	fclose(f);
	if (!ok)
		return error_set(e, ERR_IO, "%s: the file has no key", path);
	if (!whole)
		return error_set(e, ERR_CONFIG, "%s: the API key is too long", path);
	key[strcspn(key, "\r\n")] = 0;
	return ERR_OK;
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

/* Texts never show the key, nor a part of it. */
static enum err make_header(char **header, const char *key, struct error *e)
{
	static const char scheme[] = "APIKey ";
	char encoded[4 * ((KEY_MAX + 2) / 3) + 1];
	if (!is_printable(key))
		return error_set(e, ERR_CONFIG, "the API key has control characters");
	if (strncmp(key, scheme, sizeof scheme - 1) == 0)
		snprintf(encoded, sizeof encoded, "%s", key + sizeof scheme - 1);
	else if (strchr(key, ':'))
		EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)key, (int)strlen(key));
	else
		return error_set(e, ERR_CONFIG, "the API key is neither ID:KEY nor \"APIKey …\"");
	*header = text_printf("Authorization: %s%s", scheme, encoded);
	OPENSSL_cleanse(encoded, sizeof encoded);
	return *header ? ERR_OK : no_memory(e);
}

static enum err find_key(char key[KEY_MAX], const char *given, const char *file, struct error *e)
{
	const char *environment = getenv("SYMBTOOL_API_KEY");
	key[0] = 0;
	if (!file && !environment)
		file = getenv("SYMBTOOL_API_KEY_FILE");
	if (!given && file)
		return read_key_file(key, file, e);
	const char *text = given ? given : environment ? environment : "";
	if (strlen(text) >= KEY_MAX)
		return error_set(e, ERR_CONFIG, "the API key is too long");
	strcpy(key, text);
	if (given)
		memset((char *)(uintptr_t)given, '*', strlen(given)); /* argv is ours to write */
	return ERR_OK;
}

enum err api_key_header(char **header, const char *given, const char *file, struct error *e)
{
	char key[KEY_MAX];
	*header = NULL;
	enum err err = find_key(key, given, file, e);
	if (!err)
		err = key[0] ? make_header(header, key, e)
		             : error_set(e, ERR_CONFIG,
		                       "no API key: --api-key-file, --api-key, SYMBTOOL_API_KEY or "
		                       "SYMBTOOL_API_KEY_FILE");
	OPENSSL_cleanse(key, sizeof key);
	return err;
}

void api_key_free(char *header)
{
	if (header)
		OPENSSL_cleanse(header, strlen(header));
	free(header);
}
