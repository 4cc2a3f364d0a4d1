/* SPDX-License-Identifier: Apache-2.0 */
/* "AWS Signature Version 4 signing process" and "Authenticating Requests: Using the Authorization Header" of Amazon's
 * documentation. Unlike other services S3 takes the path as it is sent: neither normalised nor encoded once more. */
#include <config.h>

#include "objects/s3_sign.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/hash.h"
#include "base/hex.h"

enum { CANONICAL_MAX = 256 * 1024, SCOPE_MAX = 256 };

/* ---- the query ---- */

struct parameter {
	struct str name, value;
};

static int compare_parameters(const void *a, const void *b)
{
	const struct parameter *p = a, *q = b;
	int order = str_order(p->name, q->name);
	return order ? order : str_order(p->value, q->value);
}

static bool add_query(struct buffer *out, struct str query)
{
	struct parameter parameters[S3_SIGN_PARAMETERS_MAX];
	unsigned count = 0;
	while (query.len > 0) {
		struct str value = str_cut(&query, '&'), name = str_cut(&value, '=');
		if (count == S3_SIGN_PARAMETERS_MAX)
			return false;
		parameters[count++] = (struct parameter){name, value};
	}
	qsort(parameters, count, sizeof parameters[0], compare_parameters);
	for (unsigned i = 0; i < count; i++)
		buffer_printf(
		        out, "%s%.*s=%.*s", i ? "&" : "", STR_FMT(parameters[i].name), STR_FMT(parameters[i].value));
	return buffer_append(out, "\n", 1);
}

/* ---- headers ---- */

static int compare_headers(const void *a, const void *b)
{
	return strcasecmp(((const struct s3_header *)a)->name, ((const struct s3_header *)b)->name);
}

static void add_lower(struct buffer *out, const char *text)
{
	for (; *text; text++) {
		char c = (char)tolower((unsigned char)*text);
		buffer_append(out, &c, 1);
	}
}

/* Trims blanks at both ends, and collapses several in between to one. */
static void add_value(struct buffer *out, const char *text)
{
	bool blank = false, any = false;
	for (; *text; text++) {
		if (*text == ' ' || *text == '\t') {
			blank = any;
			continue;
		}
		if (blank)
			buffer_append(out, " ", 1);
		buffer_append(out, text, 1);
		blank = false;
		any = true;
	}
}

static void add_names(struct buffer *out, const struct s3_header *sorted, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		buffer_append(out, ";", i > 0);
		add_lower(out, sorted[i].name);
	}
}

static void add_headers(struct buffer *out, const struct s3_header *sorted, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		add_lower(out, sorted[i].name);
		buffer_append(out, ":", 1);
		add_value(out, sorted[i].value);
		buffer_append(out, "\n", 1);
	}
	buffer_append(out, "\n", 1);
	add_names(out, sorted, count);
}

/* ---- the signature ---- */

/* The hash of the canonical request. */
static bool hash_request(char hash[SHA256_HEX + 1], const struct s3_signing *s, const struct s3_header *sorted)
{
	struct buffer canonical;
	buffer_init(&canonical, CANONICAL_MAX);
	buffer_printf(&canonical, "%s\n%.*s\n", s->method, STR_FMT(s->path));
	bool ok = add_query(&canonical, s->query);
	add_headers(&canonical, sorted, s->count);
	ok = buffer_printf(&canonical, "\n%s", s->payload) && ok && sha256_hex(hash, canonical.data, canonical.len);
	if (canonical.data)
		explicit_bzero(canonical.data, canonical.len); /* it may contain the token of temporary keys */
	buffer_release(&canonical);
	return ok;
}

/* Derives the key for a day, region and service: HMACs, each keyed by the previous one. */
static bool make_key(uint8_t key[SHA256_BYTES], const struct s3_signing *s)
{
	char day[9], *secret = NULL;
	memcpy(day, s->date, 8);
	day[8] = 0;
	const char *const steps[] = {day, s->region, s->service, "aws4_request"};
	size_t len = strlen(s->secret) + 4;
	secret = malloc(len + 1);
	if (!secret)
		return false;
	memcpy(secret, "AWS4", 4);
	memcpy(secret + 4, s->secret, len - 3);
	bool ok = hmac_sha256(key, secret, len, steps[0], strlen(steps[0]));
	for (unsigned i = 1; ok && i < sizeof steps / sizeof steps[0]; i++)
		ok = hmac_sha256(key, key, SHA256_BYTES, steps[i], strlen(steps[i]));
	explicit_bzero(secret, len);
	free(secret);
	return ok;
}

static bool make_signature(
        char signature[SHA256_HEX + 1], const struct s3_signing *s, const char *scope, const struct s3_header *sorted)
{
	char hash[SHA256_HEX + 1];
	uint8_t key[SHA256_BYTES], code[SHA256_BYTES];
	struct buffer text;
	buffer_init(&text, 2 * SCOPE_MAX);
	bool ok = hash_request(hash, s, sorted) &&
	          buffer_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", s->date, scope, hash) && make_key(key, s) &&
	          hmac_sha256(code, key, sizeof key, text.data, text.len);
	if (ok)
		hex_write(signature, code, sizeof code);
	explicit_bzero(key, sizeof key);
	buffer_release(&text);
	return ok;
}

void s3_sign_date(char out[S3_SIGN_DATE], time_t now)
{
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(out, S3_SIGN_DATE, "%Y%m%dT%H%M%SZ", &tm);
}

/* Sorts the headers, and makes scope and signature from them. */
static bool sign_sorted(struct s3_header sorted[S3_SIGN_HEADERS_MAX], char scope[SCOPE_MAX],
        char signature[SHA256_HEX + 1], const struct s3_signing *s)
{
	int n = snprintf(scope, SCOPE_MAX, "%.8s/%s/%s/aws4_request", s->date, s->region, s->service);
	if (s->count > S3_SIGN_HEADERS_MAX || n >= SCOPE_MAX)
		return false;
	memcpy(sorted, s->headers, s->count * sizeof *sorted);
	qsort(sorted, s->count, sizeof *sorted, compare_headers);
	return make_signature(signature, s, scope, sorted);
}

bool s3_signature(char out[SHA256_HEX + 1], const struct s3_signing *s)
{
	struct s3_header sorted[S3_SIGN_HEADERS_MAX];
	char scope[SCOPE_MAX];
	return sign_sorted(sorted, scope, out, s);
}

bool s3_sign(struct buffer *out, const struct s3_signing *s)
{
	struct s3_header sorted[S3_SIGN_HEADERS_MAX];
	char scope[SCOPE_MAX], signature[SHA256_HEX + 1];
	if (!sign_sorted(sorted, scope, signature, s))
		return false;
	buffer_printf(out, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=", s->access, scope);
	add_names(out, sorted, s->count);
	return buffer_printf(out, ", Signature=%s", signature);
}
