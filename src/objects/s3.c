/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "objects/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/hash.h"
#include "objects/percent.h"
#include "objects/s3_sign.h"

static const char scheme[] = "s3://";

/* The setting, else the first of two environment variables that is not empty, else "". */
static const char *setting_of(const char *setting, const char *variable, const char *other)
{
	const char *text = setting;
	if (!text || !*text)
		text = getenv(variable);
	if (!text || !*text)
		text = getenv(other);
	return text ? text : "";
}

/* Where the host of an endpoint begins, and its length; 0 if it is not an endpoint. An endpoint has neither path nor
 * user. */
static size_t host_of(const char *endpoint, size_t *at)
{
	*at = strncasecmp(endpoint, "https://", 8) == 0 ? 8 : strncasecmp(endpoint, "http://", 7) == 0 ? 7 : 0;
	size_t len = strlen(endpoint + *at);
	if (len && endpoint[*at + len - 1] == '/')
		len--;
	return *at && str_is_word((struct str){endpoint + *at, len}, ".-:[]_") ? len : 0;
}

/* The URLs of the bucket, in path style or virtual-host style. */
static enum err make_urls(struct s3_place *p, struct str bucket, const struct config *c, struct error *e)
{
	const char *endpoint = setting_of(c->s3_endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
	char amazon[128], *encoded = malloc(3 * strlen(p->prefix) + 1);
	bool by_host = c->s3_addressing == S3_VIRTUAL;
	if (!*endpoint) {
		snprintf(amazon, sizeof amazon, "https://s3.%s.amazonaws.com", p->region);
		endpoint = amazon;
	}
	size_t at, len = host_of(endpoint, &at);
	if (!len) {
		free(encoded);
		return error_set(
		        e, ERR_CONFIG, "s3_endpoint: not an http:// or https:// URL with a host and nothing else");
	}
	if (encoded)
		*percent_encode(encoded, str_from(p->prefix), true) = 0;
	p->host = text_printf(
	        "%.*s%s%.*s", by_host ? (int)bucket.len : 0, bucket.data, by_host ? "." : "", (int)len, endpoint + at);
	if (p->host)
		p->bucket = text_printf(
		        "%.*s%s/%.*s", (int)at, endpoint, p->host, by_host ? 0 : (int)bucket.len, bucket.data);
	if (p->bucket && encoded)
		p->base = text_printf("%s%s%s", p->bucket, by_host ? "" : "/", encoded);
	free(encoded);
	if (!p->base)
		return no_memory(e);
	p->above_path = at + strlen(p->host);
	/* as in libcurl, the header has the port unless it is the scheme's default */
	char *port = strrchr(p->host, ':');
	if (port && strcmp(port, at == strlen("https://") ? ":443" : ":80") == 0)
		*port = 0;
	return ERR_OK;
}

/* Decodes the prefix, and adds a final slash if it is not empty. */
static enum err take_prefix(struct s3_place *p, const char *text, struct error *e)
{
	size_t len = strlen(text);
	p->prefix = malloc(len + 2);
	if (!p->prefix)
		return no_memory(e);
	if (!percent_decode(p->prefix, str_from(text)) || *p->prefix == '/' || strpbrk(text, "?#"))
		return error_set(e, ERR_CONFIG, "not of the form s3://bucket/prefix");
	len = strlen(p->prefix);
	if (len && p->prefix[len - 1] != '/')
		memcpy(p->prefix + len, "/", 2);
	return ERR_OK;
}

static enum err take_url(struct s3_place *p, const char *url, const struct config *c, struct error *e)
{
	struct str bucket = {url + strlen(scheme), strcspn(url + strlen(scheme), "/")};
	const char *rest = bucket.data + bucket.len;
	if (!str_is_word(bucket, ".-_") || bucket.len < 3 || bucket.len > 63)
		return error_set(e, ERR_CONFIG, "not of the form s3://bucket/prefix, with a bucket of 3 to 63 letters");
	enum err err = take_prefix(p, *rest ? rest + 1 : rest, e);
	if (err)
		return err;
	p->place.name = text_printf("%s%.*s/%s", scheme, STR_FMT(bucket), p->prefix);
	return p->place.name ? make_urls(p, bucket, c, e) : no_memory(e);
}

static enum err take_region(struct s3_place *p, const struct config *c, struct error *e)
{
	const char *region = setting_of(c->s3_region, "AWS_REGION", "AWS_DEFAULT_REGION");
	if (!*region)
		region = "us-east-1";
	/* It is part of host names and of what is signed. */
	if (strlen(region) > 64 || !str_is_word(str_from(region), "-"))
		return error_set(e, ERR_CONFIG, "s3_region: \"%.64s\" is not the name of a region", region);
	p->region = strdup(region);
	return p->region ? ERR_OK : no_memory(e);
}

/* ---- signing ---- */

/* The signature of a request by these keys at this time; without method, payload and headers. */
static struct s3_signing begin_signing(
        const struct s3_place *p, const struct s3_keys *keys, char date[S3_SIGN_DATE], const char *url)
{
	struct str query = str_from(url + p->above_path), path = str_cut(&query, '?');
	s3_sign_date(date, place_now(&p->place.clock) / SECOND);
	return (struct s3_signing){.access = keys->access,
	        .secret = keys->secret,
	        .region = p->region,
	        .service = "s3",
	        .date = date,
	        .path = path,
	        .query = query};
}

/* Host is sent as it was signed, whatever libcurl would have sent. The transfer itself sends Content-Type and
 * x-amz-copy-source. */
static bool sign_with(
        const struct s3_place *p, const struct s3_keys *keys, const struct transfer_request *q, struct buffer *lines)
{
	char date[S3_SIGN_DATE], payload[SHA256_HEX + 1];
	struct s3_header headers[6];
	struct s3_signing s = begin_signing(p, keys, date, q->url);
	if (!sha256_hex(payload, q->data, q->len))
		return false;
	if (q->data)
		headers[s.count++] =
		        (struct s3_header){"content-type", q->content_type ? q->content_type : TRANSFER_CONTENT_TYPE};
	headers[s.count++] = (struct s3_header){"host", p->host};
	headers[s.count++] = (struct s3_header){"x-amz-content-sha256", payload};
	if (q->copy_source)
		headers[s.count++] = (struct s3_header){"x-amz-copy-source", q->copy_source};
	headers[s.count++] = (struct s3_header){"x-amz-date", date};
	buffer_printf(lines, "Host: %s\nx-amz-content-sha256: %s\nx-amz-date: %s\n", p->host, payload, date);
	if (keys->token && *keys->token) {
		buffer_printf(lines, "x-amz-security-token: %s\n", keys->token);
		headers[s.count++] = (struct s3_header){"x-amz-security-token", keys->token};
	}
	s.method = q->method;
	s.payload = payload;
	s.headers = headers;
	return buffer_printf(lines, "Authorization: ") && s3_sign(lines, &s) && buffer_append(lines, "\n", 1);
}

enum { PRESIGNED_MAX = 6000 }; /* it goes into a header of a reply */

/* Everything but the signature, in the order of names. */
static bool add_signed_query(struct buffer *out, const struct s3_place *p, const struct s3_keys *keys, const char *date,
        unsigned seconds, const char *encoding)
{
	char credential[512], encoded[3 * sizeof credential];
	int len = snprintf(credential, sizeof credential, "%s/%.8s/%s/s3/aws4_request", keys->access, date, p->region);
	if (len >= (int)sizeof credential)
		return false;
	*percent_encode(encoded, str_from(credential), false) = 0;
	buffer_printf(out, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=%s&X-Amz-Date=%s&X-Amz-Expires=%u",
	        encoded, date, seconds);
	if (keys->token && *keys->token) {
		char *token = malloc(3 * strlen(keys->token) + 1);
		if (!token)
			return false;
		*percent_encode(token, str_from(keys->token), false) = 0;
		buffer_printf(out, "&X-Amz-Security-Token=%s", token);
		free(token);
	}
	buffer_printf(out, "&X-Amz-SignedHeaders=host");
	return buffer_printf(out, "%s%s", encoding ? "&response-content-encoding=" : "", encoding ? encoding : "");
}

static bool presign_with(struct buffer *out, const struct s3_place *p, const struct s3_keys *keys, const char *url,
        unsigned seconds, const char *encoding)
{
	char date[S3_SIGN_DATE], signature[SHA256_HEX + 1];
	struct s3_header host = {"host", p->host};
	struct s3_signing s = begin_signing(p, keys, date, url);
	buffer_printf(out, "%s?", url);
	size_t at = out->len;
	if (!add_signed_query(out, p, keys, date, seconds, encoding))
		return false;
	s.method = "GET";
	s.query = (struct str){(const char *)out->data + at, out->len - at};
	s.payload = "UNSIGNED-PAYLOAD";
	s.headers = &host;
	s.count = 1;
	return s3_signature(signature, &s) && buffer_printf(out, "&X-Amz-Signature=%s", signature) &&
	       buffer_append(out, "", 1);
}

char *s3_presign(const struct s3_place *p, const char *url, unsigned seconds, const char *encoding)
{
	struct s3_keys keys;
	struct buffer out;
	struct error e;
	if (!s3_place_has_keys(p) || s3_credentials_get(p->credentials, &keys, &e))
		return NULL;
	buffer_init(&out, 64 << 10);
	bool ok = presign_with(&out, p, &keys, url, seconds, encoding);
	s3_keys_release(&keys);
	if (ok && out.len <= PRESIGNED_MAX)
		return (char *)out.data;
	buffer_release(&out);
	return NULL;
}

bool s3_place_sign(void *place, const struct transfer_request *q, struct buffer *lines, struct error *e)
{
	const struct s3_place *p = place;
	struct s3_keys keys;
	if (s3_credentials_get(p->credentials, &keys, e))
		return false;
	bool ok = sign_with(p, &keys, q, lines);
	s3_keys_release(&keys);
	if (!ok)
		error_set(e, ERR_NO_MEMORY, "no memory to sign a request");
	return ok;
}

/* S3's clock counts seconds. */
static bool look_at_clock(void *owner, const struct transfer_reply *reply, int64_t sent, int64_t now)
{
	struct s3_place *p = owner;
	char code[S3_CODE_SIZE];
	place_clock_hear(&p->place.clock, sent, now, reply->date * SECOND, date_unit, date_late);
	if (reply->status != 403)
		return false;
	s3_error_code(code, reply->error_body, reply->error_len);
	return strcmp(code, "RequestTimeTooSkewed") == 0;
}

/* What is written is read as it is: nobody on the way may pack it. */
static enum err make_pool(struct s3_place *p, const struct config *c, bool stored, struct error *e)
{
	struct bucket_limits limits = bucket_limits_of(c);
	struct transfer_settings settings = {.sign = s3_place_has_keys(p) ? s3_place_sign : NULL,
	        .dated = look_at_clock,
	        .owner = p,
	        .gzip = !stored};
	p->total_timeout = limits.total_timeout;
	p->retries = c->bucket_retries;
	if (!transfer_settings_for(&settings, c, c->s3_endpoint))
		p->pool = transfer_pool_new(&limits, &settings);
	return p->pool ? ERR_OK : no_memory(e);
}

struct s3_place *s3_place_new(const char *url, const char *what, const struct config *c, struct error *e)
{
	struct error inner = {.code = ERR_NO_MEMORY, .text = "out of memory"};
	struct s3_place *p = calloc(1, sizeof *p);
	if (p && !take_region(p, c, &inner) && !take_url(p, url, c, &inner) &&
	        (p->credentials = s3_credentials_new(c, p->region, &inner)) && !make_pool(p, c, what, &inner))
		return p;
	error_set(e, inner.code, "%s: %s", what ? what : "source", inner.text);
	s3_place_free(p);
	return NULL;
}

void s3_place_free(void *place)
{
	struct s3_place *p = place;
	if (!p)
		return;
	transfer_pool_free(p->pool);
	s3_credentials_free(p->credentials);
	free(p->place.name);
	free(p->host);
	free(p->bucket);
	free(p->base);
	free(p->prefix);
	free(p->region);
	free(p);
}

int64_t s3_parse_time(struct str text)
{
	char copy[64] = "";
	struct tm tm = {0};
	if (text.len >= sizeof copy)
		return -1;
	memcpy(copy, text.data, text.len);
	const char *end = strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!end || strlen(copy) < text.len)
		return -1;
	int64_t fraction = 0, unit = SECOND;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++) {
			unit /= 10;
			fraction += (*end - '0') * unit;
		}
	time_t seconds = timegm(&tm);
	bool fits = seconds >= 0 && seconds < INT64_MAX / SECOND;
	return fits && strcmp(end, "Z") == 0 ? (int64_t)seconds * SECOND + fraction : -1;
}

const char *s3_reply_text(char out[S3_TEXT_SIZE], const struct transfer_reply *reply)
{
	char code[S3_CODE_SIZE];
	s3_error_code(code, reply->error_body, reply->error_len);
	if (reply->status >= 300)
		snprintf(out, S3_TEXT_SIZE, "HTTP status %d%s%s", reply->status, *code ? ", " : "", code);
	else
		snprintf(out, S3_TEXT_SIZE, "%.170s", reply->whole ? "the answer is not S3's" : reply->problem);
	return out;
}

enum bucket_outcome s3_judge_status(const struct transfer_reply *reply, bool has_keys, struct bucket_result *result)
{
	char code[S3_CODE_SIZE], text[S3_TEXT_SIZE];
	s3_error_code(code, reply->error_body, reply->error_len);
	bool missing = (reply->status == 404 && (!*code || strcmp(code, "NoSuchKey") == 0)) ||
	               (reply->status == 403 && !has_keys) ||
	               (reply->status == 400 && strcmp(code, "KeyTooLongError") == 0) || reply->status == 410 ||
	               reply->status == 414 || reply->status == 451;
	return bucket_result_set(result, missing ? BUCKET_MISSING : BUCKET_FAILED, "%s", s3_reply_text(text, reply));
}
