/* SPDX-License-Identifier: Apache-2.0 */
/* "AWS Signature Version 4 signing process" and "Authenticating Requests: Using the Authorization Header" of Amazon's
 * documentation. Unlike other services S3 takes the path as it is sent: neither normalised nor encoded once more. */
#include <config.h>

#include "objects/s3_sign.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/hex.h"

enum { CANONICAL_MAX = 256 * 1024, TEXT_MAX = 512 };

static void add_names(struct buffer *out, const struct s3_signing *s)
{
	for (unsigned i = 0; i < s->count; i++)
		buffer_printf(out, "%s%s", i ? ";" : "", s->headers[i].name);
}

static void add_scope(struct buffer *out, const struct s3_signing *s)
{
	buffer_printf(out, "%.8s/%s/%s/aws4_request", s->date, s->region, s->service);
}

/* The hash of the canonical request. */
static bool hash_request(char hash[SHA256_HEX + 1], const struct s3_signing *s)
{
	struct buffer canonical;
	buffer_init(&canonical, CANONICAL_MAX);
	buffer_printf(&canonical, "%s\n%.*s\n%.*s\n", s->method, STR_FMT(s->path), STR_FMT(s->query));
	for (unsigned i = 0; i < s->count; i++)
		buffer_printf(&canonical, "%s:%s\n", s->headers[i].name, s->headers[i].value);
	buffer_printf(&canonical, "\n");
	add_names(&canonical, s);
	bool ok = buffer_printf(&canonical, "\n%s", s->payload) && sha256_hex(hash, canonical.data, canonical.len);
	if (canonical.data)
		explicit_bzero(canonical.data, canonical.len); /* it may contain the token of temporary keys */
	buffer_release(&canonical);
	return ok;
}

/* Derives the key for a day, region and service: HMACs, each keyed by the previous one. */
static bool make_key(uint8_t key[SHA256_BYTES], const struct s3_signing *s)
{
	const struct str steps[] = {{s->date, 8}, str_from(s->region), str_from(s->service), str_from("aws4_request")};
	char *secret = text_printf("AWS4%s", s->secret);
	if (!secret)
		return false;
	size_t len = strlen(secret);
	bool ok = hmac_sha256(key, secret, len, steps[0].data, steps[0].len);
	for (unsigned i = 1; ok && i < sizeof steps / sizeof steps[0]; i++)
		ok = hmac_sha256(key, key, SHA256_BYTES, steps[i].data, steps[i].len);
	explicit_bzero(secret, len);
	free(secret);
	return ok;
}

void s3_sign_date(char out[S3_SIGN_DATE], time_t now)
{
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(out, S3_SIGN_DATE, "%Y%m%dT%H%M%SZ", &tm);
}

bool s3_signature(char out[SHA256_HEX + 1], const struct s3_signing *s)
{
	char hash[SHA256_HEX + 1];
	uint8_t key[SHA256_BYTES], code[SHA256_BYTES];
	struct buffer text;
	buffer_init(&text, TEXT_MAX);
	buffer_printf(&text, "AWS4-HMAC-SHA256\n%s\n", s->date);
	add_scope(&text, s);
	bool ok = hash_request(hash, s) && buffer_printf(&text, "\n%s", hash) && make_key(key, s) &&
	          hmac_sha256(code, key, sizeof key, text.data, text.len);
	if (ok)
		hex_write(out, code, sizeof code);
	explicit_bzero(key, sizeof key);
	buffer_release(&text);
	return ok;
}

bool s3_sign(struct buffer *out, const struct s3_signing *s)
{
	char signature[SHA256_HEX + 1];
	if (!s3_signature(signature, s))
		return false;
	buffer_printf(out, "AWS4-HMAC-SHA256 Credential=%s/", s->access);
	add_scope(out, s);
	buffer_printf(out, ", SignedHeaders=");
	add_names(out, s);
	return buffer_printf(out, ", Signature=%s", signature);
}
