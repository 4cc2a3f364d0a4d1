/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/file_id.h"

#include <openssl/evp.h>

#include "base/hash.h"
#include "base/hex.h"

/* 22 letters are 132 bits: the last four must be 0, so that each id has one spelling per alphabet. */
static bool parse_base64(struct file_id *id, const char *text)
{
	char url[FILE_ID_BASE64], written[FILE_ID_BASE64 + 1];
	uint8_t plain[FILE_ID_BASE64 + 2], bytes[sizeof plain / 4 * 3];
	memset(plain, '=', sizeof plain);
	for (size_t i = 0; i < FILE_ID_BASE64; i++) {
		url[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
		plain[i] = (uint8_t)(url[i] == '-' ? '+' : url[i] == '_' ? '/' : url[i]);
	}
	if (EVP_DecodeBlock(bytes, plain, sizeof plain) != sizeof bytes)
		return false;
	memcpy(id->bytes, bytes, sizeof id->bytes);
	file_id_base64(written, id);
	return memcmp(url, written, sizeof url) == 0;
}

bool file_id_parse(struct file_id *id, struct str text)
{
	struct file_id parsed;
	bool padded = text.len == FILE_ID_BASE64 + 2 && memcmp(text.data + FILE_ID_BASE64, "==", 2) == 0;
	bool ok = false;
	if (text.len == FILE_ID_HEX)
		ok = hex_read(parsed.bytes, sizeof parsed.bytes, text);
	else if (text.len == FILE_ID_BASE64 || padded)
		ok = parse_base64(&parsed, text.data);
	if (ok)
		*id = parsed;
	return ok;
}

void file_id_hex(char out[FILE_ID_HEX + 1], const struct file_id *id)
{
	hex_write(out, id->bytes, sizeof id->bytes);
}

void file_id_base64(char out[FILE_ID_BASE64 + 1], const struct file_id *id)
{
	/* base64url writes 22 letters and a NUL. */
	base64url(out, id->bytes, sizeof id->bytes);
}

bool file_id_make(struct file_id *id, const uint8_t *ends, size_t len, uint64_t size)
{
	uint8_t text[2 * FILE_ID_END + 8], digest[EVP_MAX_MD_SIZE];
	memcpy(text, ends, len);
	for (unsigned i = 0; i < 8; i++)
		text[len + i] = (uint8_t)(size >> (56 - 8 * i));
	if (!EVP_Digest(text, len + 8, digest, NULL, sha256_kind(), NULL))
		return false;
	memcpy(id->bytes, digest, sizeof id->bytes);
	return true;
}
