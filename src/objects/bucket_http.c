/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol files over HTTP. Rules besides those of transfer.c: gzip and zstd are recognised and unpacked in
 * bucket_body.c. A transfer is whole if Content-Length, the last chunk or the end of its gzip or zstd says so; without
 * any of them, if its last line is whole. User, password and query of a source are secrets: they appear in no text. */
#include <config.h>

#include "objects/bucket_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "objects/transfer.h"

struct http_source {
	struct bucket_place place; /* its name has a final slash, and is what paths are below */
	struct transfer_pool *pool;
	char *query; /* or empty */
	char *user, *password;
	bool credentials; /* it has any */
};

/* A part of the URL, decoded, which the caller frees; empty if it is absent. ERR_CONFIG if it contains what no URL may.
 */
static enum err url_part(char **part, CURLU *url, CURLUPart which, unsigned flags)
{
	char *text = NULL;
	CURLUcode code = curl_url_get(url, which, &text, flags);
	bool good =
	        code == CURLUE_OK || code == CURLUE_NO_USER || code == CURLUE_NO_PASSWORD || code == CURLUE_NO_QUERY;
	*part = good ? strdup(text ? text : "") : NULL;
	curl_free(text);
	if (*part)
		return ERR_OK;
	return good || code == CURLUE_OUT_OF_MEMORY ? ERR_NO_MEMORY : ERR_CONFIG;
}

/* What of the URL may be shown: all but the user, the password and the query. */
static enum err take_base(struct http_source *s, CURLU *url)
{
	char *shown;
	curl_url_set(url, CURLUPART_USER, NULL, 0);
	curl_url_set(url, CURLUPART_PASSWORD, NULL, 0);
	curl_url_set(url, CURLUPART_QUERY, NULL, 0);
	enum err err = url_part(&shown, url, CURLUPART_URL, 0);
	if (err)
		return err;
	s->place.name = text_printf("%s%s", shown, shown[strlen(shown) - 1] == '/' ? "" : "/");
	free(shown);
	return s->place.name ? ERR_OK : ERR_NO_MEMORY;
}

static enum err take_url(struct http_source *s, CURLU *url)
{
	enum err err = url_part(&s->user, url, CURLUPART_USER, CURLU_URLDECODE);
	if (!err)
		err = url_part(&s->password, url, CURLUPART_PASSWORD, CURLU_URLDECODE);
	if (!err)
		err = url_part(&s->query, url, CURLUPART_QUERY, 0);
	if (err)
		return err;
	s->credentials = *s->user || *s->password || *s->query;
	return take_base(s, url);
}

static void http_source_free(void *source)
{
	struct http_source *s = source;
	transfer_pool_free(s->pool);
	free(s->place.name);
	free(s->query);
	free(s->user);
	free(s->password);
	free(s);
}

static void *http_source_new(const char *text, const char *what, const struct config *config, struct error *e)
{
	struct bucket_limits limits = bucket_limits_of(config);
	struct http_source *s = calloc(1, sizeof *s);
	CURLU *url = curl_url();
	CURLUcode code = CURLUE_OUT_OF_MEMORY;
	enum err err = ERR_NO_MEMORY;
	(void)what;
	if (s && url)
		code = curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS);
	/* curl would take http:///symbols for the host "symbols". */
	if (code != CURLUE_OUT_OF_MEMORY)
		err = code || strstr(text, ":///") || strchr(text, '#') ? ERR_CONFIG : take_url(s, url);
	curl_url_cleanup(url);
	if (!err) {
		struct transfer_settings settings = {
		        .user = s->user, .password = s->password, .owner = s, .follow = true, .gzip = true};
		if (!transfer_settings_for(&settings, config, s->place.name)) {
			s->credentials = s->credentials || settings.headers;
			s->pool = transfer_pool_new(&limits, &settings);
		}
		if (s->pool)
			return s;
		err = ERR_NO_MEMORY;
	}
	if (err == ERR_NO_MEMORY)
		error_set(e, err, "source: out of memory");
	else
		error_set(e, err, "source: not a usable URL: %s",
		        code ? curl_url_strerror(code) : "no host, a fragment, or bad characters");
	if (s)
		http_source_free(s);
	return NULL;
}

static void *http_client_new(void *source)
{
	return transfer_new(((struct http_source *)source)->pool);
}

/* curl took the body for whole: is it? */
static enum bucket_outcome check_whole(
        struct bucket_body *body, const struct transfer_reply *reply, struct bucket_result *result)
{
	if (reply->many_lengths)
		return bucket_result_set(result, BUCKET_FAILED, "more than one Content-Length");
	if (reply->head.sized && reply->head.length != body->layers[0].bytes)
		return bucket_result_set(result, BUCKET_FAILED, "the length differs from Content-Length");
	enum bucket_outcome outcome = bucket_body_end(body);
	/* If nothing tells its length, it may have been cut off on the way. */
	if (outcome == BUCKET_BROKEN && !reply->chunked && !reply->head.sized)
		outcome = BUCKET_FAILED;
	if (outcome != BUCKET_OK)
		return bucket_result_set(result, outcome, "%s", body->problem);
	result->length_known = reply->chunked || reply->head.sized || body->layers[0].head.packing > PACKING_NONE;
	if (!result->length_known && body->last != '\n')
		return bucket_result_set(result, BUCKET_FAILED, "a body of unknown length ends within a line");
	return result->outcome = BUCKET_OK;
}

/* False: the status tells. */
static bool judge(struct bucket_body *body, const struct transfer_reply *reply, struct bucket_result *result)
{
	if (reply->cancelled)
		bucket_result_set(result, BUCKET_ABORTED, "cancelled");
	else if (body->outcome != BUCKET_OK && body->outcome != BUCKET_BROKEN)
		bucket_result_set(result, body->outcome, "%s", body->problem);
	/* If the host has several addresses, another may have been used instead. */
	else if (reply->address_refused && !reply->whole)
		bucket_result_set(result, BUCKET_FAILED, "redirect to a local address");
	else if (!reply->whole && (reply->status < 400 || reply->status > 599))
		bucket_result_set(result, reply->too_large ? BUCKET_TOO_LARGE : BUCKET_FAILED, "%.150s",
		        reply->too_large ? "larger than bucket_max_size" : reply->problem);
	else if (reply->status == 200)
		check_whole(body, reply, result);
	else
		return false;
	return true;
}

struct arriving {
	struct bucket_body *body;
	const struct transfer_reply *reply; /* its head is known when the first bytes come */
};

static bool add_to_body(void *arg, const uint8_t *data, size_t len)
{
	const struct arriving *a = arg;
	enum bucket_outcome outcome = bucket_body_begin(a->body, &a->reply->head);
	if (outcome == BUCKET_OK || outcome == BUCKET_BROKEN)
		outcome = bucket_body_add(a->body, data, len);
	/* a broken body is read to its end, to tell one that was cut off from one that is stored like that */
	return outcome == BUCKET_OK || outcome == BUCKET_BROKEN;
}

bool bucket_http_get(struct transfer *t, const char *url, const atomic_bool *cancel, struct bucket_body *body,
        struct transfer_reply *reply, struct bucket_result *result)
{
	struct arriving arriving = {body, reply};
	struct transfer_request request = {
	        .method = "GET", .url = url, .body = add_to_body, .arg = &arriving, .cancel = cancel};
	request.body_waits = body->raw && !body->limit;
	request.limit = body->limit;
	transfer_run(t, &request, reply);
	result->status = reply->status;
	if (reply->whole && reply->status == 200)
		bucket_body_begin(body, &reply->head); /* of an empty object */
	return judge(body, reply, result);
}

static void http_fetch(void *client, const char *path, struct bucket_body *body, const atomic_bool *cancel,
        struct bucket_result *result)
{
	const struct http_source *s = transfer_owner(client);
	struct transfer_reply reply;
	char *url = text_printf("%s%s%s%s", s->place.name, path, *s->query ? "?" : "", s->query);
	if (!url) {
		bucket_result_set(result, BUCKET_FAILED, "out of memory");
		return;
	}
	if (!bucket_http_get(client, url, cancel, body, &reply, result)) {
		/* to clients that may not list, S3 answers 403 for a missing object; to others it means missing
		 * rights */
		bool missing = reply.status == 400 || (reply.status == 403 && !s->credentials) || reply.status == 404 ||
		               reply.status == 410 || reply.status == 414 || reply.status == 451;
		bucket_result_set(result, missing ? BUCKET_MISSING : BUCKET_FAILED, "HTTP status %d", reply.status);
	}
	free(url);
}

#define HTTP_BACKEND(name)                                                                        \
	{                                                                                         \
		.scheme = name, .source_new = http_source_new, .source_free = http_source_free,   \
		.client_new = http_client_new, .client_free = transfer_free, .fetch = http_fetch, \
	}

const struct bucket_backend bucket_http = HTTP_BACKEND("http://");
const struct bucket_backend bucket_https = HTTP_BACKEND("https://");
