/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol files in S3: HTTP requests, signed if there are keys. Redirects are not followed: S3 sends them for a wrong
 * region or endpoint, and the signature is for one host. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unpack.h"
#include "objects/bucket_http.h"
#include "objects/s3.h"
#include "objects/transfer.h"

enum { KEY_MAX = 1024 /* bytes, says S3 */, PRESIGNED_SECONDS = 300 };

struct s3_source {
	struct transfer_pool *pool;
	struct s3_place *place;
};

struct s3_client {
	struct s3_source *source; /* not owned */
	struct transfer *transfer;
};

static void s3_source_free(void *source)
{
	struct s3_source *s = source;
	transfer_pool_free(s->pool);
	s3_place_free(s->place);
	free(s);
}

static void *s3_source_new(const char *url, const struct config *c, const struct bucket_limits *limits, struct error *e)
{
	struct s3_source *s = calloc(1, sizeof *s);
	if (!s) {
		error_set(e, ERR_NO_MEMORY, "source: out of memory");
		return NULL;
	}
	s->place = s3_place_new(url, "source", c, e);
	if (s->place && !(s->pool = transfer_pool_new(limits)))
		error_set(e, ERR_NO_MEMORY, "source: out of memory");
	if (s->place && s->pool) {
		s->place->settings.gzip = true;
		return s;
	}
	s3_source_free(s);
	return NULL;
}

static const char *s3_source_name(const void *source)
{
	return ((const struct s3_source *)source)->place->name;
}

static void s3_client_free(void *client)
{
	struct s3_client *c = client;
	transfer_free(c->transfer);
	free(c);
}

static void *s3_client_new(void *source)
{
	struct s3_source *s = source;
	struct s3_client *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->source = s;
	c->transfer = transfer_new(s->pool, &s->place->settings);
	if (c->transfer)
		return c;
	free(c);
	return NULL;
}

static void fetch_path(struct s3_client *c, const char *path, struct bucket_body *body, const atomic_bool *cancel,
        struct bucket_result *result)
{
	const struct s3_place *place = c->source->place;
	char *url = NULL;
	if (asprintf(&url, "%s%s", place->base, path) < 0) {
		bucket_result_set(result, BUCKET_FAILED, "out of memory");
		return;
	}
	struct bucket_http_call call = {url, cancel, s3_judge_status, s3_place_has_keys(place)};
	bucket_http_get(c->transfer, &call, body, result);
	free(url);
}

static void s3_fetch(void *client, const struct bucket_path *path, struct bucket_body *body, const atomic_bool *cancel,
        struct bucket_result *result)
{
	struct s3_client *c = client;
	if (strlen(c->source->place->prefix) + path->plain_len > KEY_MAX)
		bucket_result_set(result, BUCKET_MISSING, "longer than a key of S3 can be");
	else
		fetch_path(c, path->encoded, body, cancel, result);
}

/* A few bytes tell how it is packed: S3 is asked to say so to the reader, since who stored it may not have. */
static char *s3_locate(void *client, const struct bucket_path *path, bool zstd, struct bucket_result *result)
{
	struct s3_client *c = client;
	const struct s3_place *place = c->source->place;
	struct transfer_reply reply;
	char *url = NULL, *presigned = NULL;
	if (strlen(place->prefix) + path->plain_len > KEY_MAX) {
		bucket_result_set(result, BUCKET_MISSING, "longer than a key of S3 can be");
		return NULL;
	}
	if (asprintf(&url, "%s%s", place->base, path->encoded) < 0) {
		bucket_result_set(result, BUCKET_FAILED, "out of memory");
		return NULL;
	}
	struct transfer_request request = {.method = "GET", .url = url, .lines = "Range: bytes=0-3\n"};
	transfer_run(c->transfer, &request, &reply);
	result->status = reply.status;
	if (reply.whole && reply.status == 206) {
		enum packing packing = packing_of((const uint8_t *)reply.error_body, reply.error_len);
		const char *encoding = packing == PACKING_GZIP ? "gzip" : packing == PACKING_ZSTD ? "zstd" : NULL;
		if (packing != PACKING_ZSTD || zstd)
			presigned = s3_presign(place, url, PRESIGNED_SECONDS, encoding);
		result->outcome = BUCKET_OK;
	} else if (reply.whole && reply.status >= 400 && reply.status != 416) {
		s3_judge_status(&reply, s3_place_has_keys(place), result);
	} else {
		bucket_result_set(result, BUCKET_FAILED, "%.150s", reply.problem);
	}
	free(url);
	return presigned;
}

/* No object has a name without slashes. */
static void s3_probe(void *client, struct bucket_body *body, struct bucket_result *result)
{
	fetch_path(client, "__heartbeat__", body, NULL, result);
}

const struct bucket_backend bucket_s3 = {
        .scheme = "s3://",
        .source_new = s3_source_new,
        .source_free = s3_source_free,
        .source_name = s3_source_name,
        .client_new = s3_client_new,
        .client_free = s3_client_free,
        .fetch = s3_fetch,
        .locate = s3_locate,
        .probe = s3_probe,
};
