/* SPDX-License-Identifier: Apache-2.0 */
/* Objects in S3: HTTP requests, signed if there are keys. Redirects are not followed: S3 sends them for a wrong region
 * or endpoint, and the signature is for one host.
 *
 * What is written and larger than a piece is uploaded in pieces while it arrives (a multipart upload) to a place of its
 * own, so only one piece is in memory; its path is known only at the end, when S3 copies it there. Smaller ones are one
 * request. Every request carries the hash of what it sends, which S3 checks. If a process is killed, its unfinished
 * upload is no object and never listed; a lifecycle rule of the bucket removes it. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/unpack.h"
#include "objects/bucket_backend.h"
#include "objects/percent.h"
#include "objects/s3.h"
#include "objects/store.h"
#include "objects/transfer.h"

enum {
	KEY_MAX = 1024, /* bytes, says S3 */
	PRESIGNED_SECONDS = 300,
	PIECE = 8 << 20,     /* bytes; S3 wants at least 5 MiB */
	PIECES_MAX = 10000,  /* says S3 */
	REPLY_MAX = 8 << 20, /* bytes of XML: 1,000 keys of at most 1,024 bytes, and the markup of each */
	PAGE_OBJECTS = 1000,
	UPLOAD_ID_MAX = 1024, /* percent-encoded */
	PROBE_PERIOD = 60,    /* seconds */
	SEND_AGAIN = 10,      /* seconds: what is sent is not sent again later than this */
};

struct s3_put {
	struct store_put put;
	struct transfer *client; /* not owned */
	char *temporary;         /* URL of the place for pieces */
	struct buffer piece;     /* not sent yet */
	struct buffer etags;     /* XML of the pieces sent so far */
	unsigned pieces;
	uint64_t retries;           /* of one request */
	char upload[UPLOAD_ID_MAX]; /* of a multipart upload; empty: none is open */
};

static void *s3_source_new(const char *url, const char *what, const struct config *c, struct error *e)
{
	return s3_place_new(url, what, c, e);
}

static struct s3_place *place_of(const struct transfer *t)
{
	return transfer_owner(t);
}

static void *s3_client_new(void *source)
{
	return transfer_new(((struct s3_place *)source)->pool);
}

static enum err refused(struct error *e, const char *what, const struct transfer_reply *reply)
{
	char text[S3_TEXT_SIZE];
	return error_set(e, ERR_UNAVAILABLE, "%s: %s", what, s3_reply_text(text, reply));
}

/* The URL of an object; the caller frees it. NULL if out of memory, or if the path is too long. */
static char *url_of(const struct transfer *t, const char *path, struct error *e)
{
	char encoded[3 * STORE_PATH_MAX];
	if (strlen(path) >= STORE_PATH_MAX) {
		error_set(e, ERR_BAD_REQUEST, "the name is too long");
		return NULL;
	}
	*percent_encode(encoded, str_from(path), true) = 0;
	char *url = text_printf("%s%s", place_of(t)->base, encoded);
	if (!url)
		no_memory(e);
	return url;
}

/* ---- storing ---- */

/* Reads the XML of an answer that says that something was done. */
struct answer {
	const char *root; /* of an answer that says so */
	char *upload;     /* becomes the id of an upload; UPLOAD_ID_MAX bytes, or NULL */
	bool takes_long;  /* S3 moves the bytes of an object first */
	bool done;
};

static void on_element(void *arg, unsigned depth, const char *name, struct str text)
{
	struct answer *a = arg;
	if (a->upload && depth == 2 && strcmp(name, "UploadId") == 0 && 3 * text.len < UPLOAD_ID_MAX)
		*percent_encode(a->upload, text, false) = 0;
	a->done |= depth == 1 && strcmp(name, a->root) == 0;
}

/* Waits before another try of a request that failed, if it may be made: S3 did not answer, or says that it is busy.
 * Every request may be sent again, for it does the same once more. */
static bool may_send_again(const struct transfer_reply *reply, uint64_t again, uint64_t retries, int64_t deadline)
{
	bool passing = (!reply->whole && !reply->too_large) || reply->status == 429 || reply->status / 100 == 5;
	if (!passing || reply->cancelled || again == retries || clock_now() > deadline)
		return false;
	bucket_pause(again);
	return true;
}

static bool send_once(
        struct transfer *t, const struct transfer_request *request, struct answer *answer, struct transfer_reply *reply)
{
	struct buffer *xml = request->arg;
	buffer_reset(xml);
	if (!transfer_run(t, request, reply) || reply->status / 100 != 2)
		return false;
	if (!answer || (s3_xml_read(xml->data, xml->len, on_element, answer) && answer->done))
		return true;
	if (xml->len) {
		reply->error_len = xml->len < sizeof reply->error_body ? xml->len : sizeof reply->error_body;
		memcpy(reply->error_body, xml->data, reply->error_len);
		reply->status = 500;
	}
	return false;
}

/* Sends a request. True if it was answered by a status of success and, where answer is not NULL, by that: S3 sends the
 * status of some requests before it knows the outcome, and later failures are in the body. */
static bool send_request(struct transfer *t, struct transfer_request request, struct answer *answer, uint64_t retries,
        struct transfer_reply *reply)
{
	struct buffer xml;
	int64_t deadline = clock_now() + SEND_AGAIN * SECOND;
	bool good = false;
	buffer_init(&xml, REPLY_MAX);
	request.body = answer ? transfer_to_buffer : NULL;
	request.takes_long = answer && answer->takes_long;
	request.arg = &xml;
	for (uint64_t again = 0; !good && (again == 0 || may_send_again(reply, again - 1, retries, deadline)); again++)
		good = send_once(t, &request, answer, reply);
	buffer_release(&xml);
	return good;
}

/* The same for the upload in pieces: its URL ends with query. */
static bool send_about_pieces(struct s3_put *p, const char *method, const char *query, const struct str *data,
        struct answer *answer, struct transfer_reply *reply)
{
	char *url = text_printf("%s%s", p->temporary, query);
	if (!url) {
		*reply = (struct transfer_reply){.problem = "out of memory"};
		return false;
	}
	struct transfer_request request = {.method = method, .url = url};
	if (data) {
		request.data = (const uint8_t *)data->data;
		request.len = data->len;
	}
	bool good = send_request(p->client, request, answer, p->retries, reply);
	free(url);
	return good;
}

static enum err begin_pieces(struct s3_put *p, struct error *e)
{
	struct transfer_reply reply;
	struct answer begun = {.root = "InitiateMultipartUploadResult", .upload = p->upload};
	const struct str nothing = {"", 0};
	bool good = send_about_pieces(p, "POST", "?uploads=", &nothing, &begun, &reply) && *p->upload;
	return good ? ERR_OK : refused(e, "beginning an upload", &reply);
}

static enum err send_piece(struct s3_put *p, struct error *e)
{
	char query[UPLOAD_ID_MAX + 64];
	struct transfer_reply reply;
	struct str data = {(const char *)p->piece.data, p->piece.len};
	if (p->pieces == PIECES_MAX)
		return error_set(e, ERR_TOO_LARGE, "more than S3 takes in pieces of %d bytes", PIECE);
	enum err err = *p->upload ? ERR_OK : begin_pieces(p, e);
	if (err)
		return err;
	snprintf(query, sizeof query, "?partNumber=%u&uploadId=%s", ++p->pieces, p->upload);
	if (!send_about_pieces(p, "PUT", query, &data, NULL, &reply))
		return refused(e, "sending a piece", &reply);
	if (!*reply.head.etag || strpbrk(reply.head.etag, "<>&"))
		return refused(e, "sending a piece: no ETag", &reply);
	buffer_printf(&p->etags, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", p->pieces, reply.head.etag);
	buffer_reset(&p->piece);
	return p->etags.failed ? no_memory(e) : ERR_OK;
}

static enum err complete(struct s3_put *p, struct error *e)
{
	char query[UPLOAD_ID_MAX + 64];
	struct transfer_reply reply;
	struct answer completed = {.root = "CompleteMultipartUploadResult", .takes_long = true};
	if (!buffer_printf(&p->etags, "</CompleteMultipartUpload>"))
		return no_memory(e);
	struct str data = {(const char *)p->etags.data, p->etags.len};
	snprintf(query, sizeof query, "?uploadId=%s", p->upload);
	if (!send_about_pieces(p, "POST", query, &data, &completed, &reply))
		return refused(e, "ending an upload", &reply);
	p->upload[0] = 0;
	return ERR_OK;
}

/* "/bucket/key" of the place of pieces, as its URL encodes it. NULL if out of memory. */
static char *copy_source(const struct s3_put *p)
{
	const struct s3_place *place = place_of(p->client);
	const char *bucket = place->place.name + strlen(bucket_s3.scheme), *key = p->temporary + strlen(place->bucket);
	key += *key == '/';
	return text_printf("/%.*s/%s", (int)strcspn(bucket, "/"), bucket, key);
}

/* From the place of pieces to the object's own. */
static enum err copy(struct s3_put *p, const char *url, struct transfer_reply *reply, struct error *e)
{
	struct answer copied = {.root = "CopyObjectResult", .takes_long = true};
	char *source = copy_source(p);
	struct transfer_request request = {
	        .method = "PUT", .url = url, .data = (const uint8_t *)"", .copy_source = source};
	if (!source)
		return no_memory(e);
	bool done = send_request(p->client, request, &copied, p->retries, reply);
	free(source);
	return done ? ERR_OK : refused(e, "copying an upload to its place", reply);
}

/* Aborts an open multipart upload. False: it stays. */
static bool drop_pieces(struct s3_put *p, struct transfer_reply *reply)
{
	char query[UPLOAD_ID_MAX + 64];
	if (!*p->upload)
		return true;
	snprintf(query, sizeof query, "?uploadId=%s", p->upload);
	p->upload[0] = 0;
	return send_about_pieces(p, "DELETE", query, NULL, NULL, reply);
}

static void s3_put_free(void *put)
{
	struct s3_put *p = put;
	struct transfer_reply ignored;
	p->retries = 0;
	drop_pieces(p, &ignored);
	buffer_release(&p->piece);
	buffer_release(&p->etags);
	free(p->temporary);
	free(p);
}

static void *s3_put_begin(void *client, struct error *e)
{
	struct transfer *t = client;
	struct s3_put *p = calloc(1, sizeof *p);
	if (!p) {
		no_memory(e);
		return NULL;
	}
	p->client = t;
	p->retries = place_of(t)->retries;
	buffer_init(&p->piece, PIECE);
	buffer_init(&p->etags, PIECES_MAX * (BUCKET_ETAG + 100));
	buffer_printf(&p->etags, "<CompleteMultipartUpload>");
	p->temporary = text_printf("%s" STORE_TEMPORARY "/%016" PRIx64, place_of(t)->base, random_u64());
	if (p->temporary && !p->etags.failed)
		return p;
	s3_put_free(p);
	no_memory(e);
	return NULL;
}

/* A full piece is sent only when more comes: what fits into one goes up in a single request. */
static enum err s3_put_write(void *put, const uint8_t *data, size_t len, struct error *e)
{
	struct s3_put *p = put;
	enum err err = ERR_OK;
	while (!err && len) {
		size_t room = PIECE - p->piece.len, n = room < len ? room : len;
		if (!room) {
			err = send_piece(p, e);
			continue;
		}
		if (!buffer_append(&p->piece, data, n))
			return no_memory(e);
		data += n;
		len -= n;
	}
	return err;
}

static enum err put_whole(struct s3_put *p, const char *url, struct transfer_reply *reply, struct error *e)
{
	struct transfer_request request = {.method = "PUT",
	        .url = url,
	        .data = p->piece.len ? p->piece.data : (const uint8_t *)"",
	        .len = p->piece.len};
	return send_request(p->client, request, NULL, p->retries, reply) ? ERR_OK : refused(e, "storing", reply);
}

static enum err put_pieces(struct s3_put *p, const char *url, struct transfer_reply *reply, struct error *e)
{
	struct transfer_reply ignored;
	enum err err = send_piece(p, e);
	if (!err)
		err = complete(p, e);
	if (err)
		return err;
	err = copy(p, url, reply, e);
	/* what stays there is no object, and is pruned when it is a day old */
	send_about_pieces(p, "DELETE", "", NULL, NULL, &ignored);
	return err;
}

static enum err s3_put_commit(void *put, const char *path, struct error *e)
{
	struct s3_put *p = put;
	struct transfer_reply reply;
	char *url = url_of(p->client, path, e);
	if (!url)
		return e->code;
	enum err err = p->pieces ? put_pieces(p, url, &reply, e) : put_whole(p, url, &reply, e);
	free(url);
	return err;
}

/* ---- listing ---- */

struct page {
	const struct bucket_listing *listing; /* NULL: one object is enough */
	const char *prefix;                   /* prefix of the keys, with its slash */
	char key[1024 + 1];
	size_t key_len;
	uint64_t size, seen; /* of an object, number of objects so far */
	int64_t time;        /* -1: missing or malformed */
	bool truncated, stopped, is_listing;
	char next[16384];   /* token of the next page, percent-encoded */
	char before[16384]; /* of this one */
	unsigned count;     /* objects per request */
	uint64_t retries;   /* of one request */
	int64_t deadline;   /* of all */
};

static void end_object(struct page *p)
{
	size_t skip = strlen(p->prefix);
	p->seen++;
	if (p->key_len > skip && memcmp(p->key, p->prefix, skip) == 0 && p->time >= 0 && !p->stopped) {
		struct str path = {p->key + skip, p->key_len - skip};
		p->stopped = !p->listing || !p->listing->found(p->listing->arg, path, p->size, p->time);
	}
	p->key_len = 0;
	p->size = 0;
	p->time = -1;
}

static void on_list_element(void *arg, unsigned depth, const char *name, struct str text)
{
	struct page *p = arg;
	if (depth == 1) {
		p->is_listing = strcmp(name, "ListBucketResult") == 0;
	} else if (depth == 2) {
		if (strcmp(name, "Contents") == 0)
			end_object(p);
		else if (strcmp(name, "IsTruncated") == 0)
			p->truncated = str_equal(text, str_from("true"));
		else if (strcmp(name, "NextContinuationToken") == 0 && 3 * text.len < sizeof p->next)
			*percent_encode(p->next, text, false) = 0;
	} else if (depth == 3) {
		if (strcmp(name, "Key") == 0 && text.len < sizeof p->key) {
			memcpy(p->key, text.data, text.len);
			p->key_len = text.len;
		} else if (strcmp(name, "LastModified") == 0) {
			p->time = s3_parse_time(text);
		} else if (strcmp(name, "Size") == 0) {
			str_number(text, INT64_MAX, &p->size);
		}
	}
}

/* Nothing of a page is reported before all of it has arrived, so it can be requested again. */
static bool get_page(
        struct transfer *t, const struct page *p, const struct transfer_request *request, struct transfer_reply *reply)
{
	bool good = false;
	for (uint64_t again = 0; !good && (again == 0 || may_send_again(reply, again - 1, p->retries, p->deadline));
	        again++) {
		buffer_reset(request->arg);
		good = transfer_run(t, request, reply) && reply->status == 200;
	}
	return good;
}

/* Requests the page that p->next names, or the first one. */
static enum err list_page(
        struct transfer *t, struct page *p, const char *prefix, const atomic_bool *cancel, struct error *e)
{
	struct buffer xml;
	struct transfer_request request = {.method = "GET", .body = transfer_to_buffer, .arg = &xml, .cancel = cancel};
	struct transfer_reply reply;
	/* Parameters are sorted by name, as the signature wants. */
	char *url = text_printf("%s?%s%s%slist-type=2&max-keys=%u&prefix=%s", place_of(t)->bucket,
	        *p->next ? "continuation-token=" : "", p->next, *p->next ? "&" : "", p->count, prefix);
	if (!url)
		return no_memory(e);
	p->next[0] = 0;
	p->truncated = p->is_listing = false;
	buffer_init(&xml, REPLY_MAX);
	request.url = url;
	bool good =
	        get_page(t, p, &request, &reply) && s3_xml_read(xml.data, xml.len, on_list_element, p) && p->is_listing;
	buffer_release(&xml);
	free(url);
	return good ? ERR_OK : refused(e, "listing", &reply);
}

/* Goes on from page to page as long as S3 says that there are more, each time after another token. */
static enum err list_pages(
        struct transfer *t, struct page *p, const char *prefix, const atomic_bool *cancel, struct error *e)
{
	enum err err = ERR_OK;
	for (bool more = true; !err && more; more = !err && p->truncated && !p->stopped) {
		if (clock_now() > p->deadline)
			return error_set(e, ERR_UNAVAILABLE,
			        "listing takes longer than bucket_total_timeout: %" PRIu64 " objects so far", p->seen);
		memcpy(p->before, p->next, sizeof p->next);
		err = list_page(t, p, prefix, cancel, e);
		if (!err && !p->stopped && p->truncated && (!*p->next || strcmp(p->next, p->before) == 0))
			err = error_set(e, ERR_UNAVAILABLE, "the listing does not end");
	}
	return err;
}

/* Lists the objects below path; each request may be retried. Without a listing it is a probe: one request, for one
 * object. */
static enum err s3_list(void *client, const char *path, const struct bucket_listing *listing, const atomic_bool *cancel,
        struct error *e)
{
	const struct s3_place *place = place_of(client);
	struct page *p = calloc(1, sizeof *p);
	char *prefix = text_printf("%s%s/", place->prefix, path);
	char *encoded = prefix ? malloc(3 * strlen(prefix) + 1) : NULL;
	enum err err = p && encoded ? ERR_OK : no_memory(e);
	if (!err) {
		*percent_encode(encoded, str_from(prefix), false) = 0;
		p->listing = listing;
		p->prefix = prefix;
		p->time = -1;
		p->count = listing ? PAGE_OBJECTS : 1;
		p->retries = listing ? place->retries : 0;
		p->deadline = clock_now() + place->total_timeout;
		err = list_pages(client, p, encoded, cancel, e);
	}
	free(encoded);
	free(prefix);
	free(p);
	return err;
}

static enum err s3_remove(void *client, const char *path, struct error *e)
{
	struct transfer *t = client;
	struct transfer_reply reply;
	char *url = url_of(t, path, e);
	struct transfer_request request = {.method = "DELETE", .url = url};
	if (!url)
		return e->code;
	bool gone = send_request(t, request, NULL, place_of(t)->retries, &reply);
	free(url);
	return gone || reply.status == 404 ? ERR_OK : refused(e, "removing", &reply);
}

/* ---- reading ---- */

/* The caller frees it. NULL: the result says why. */
static char *url_to_read(const struct s3_place *place, const char *path, struct bucket_result *result)
{
	char key[BUCKET_PATH_MAX];
	if (!percent_decode(key, str_from(path)) || strlen(place->prefix) + strlen(key) > KEY_MAX) {
		bucket_result_set(result, BUCKET_MISSING, "longer than a key of S3 can be");
		return NULL;
	}
	char *url = text_printf("%s%s", place->base, path);
	if (!url)
		bucket_result_set(result, BUCKET_FAILED, "out of memory");
	return url;
}

static void s3_fetch(void *client, const char *path, struct bucket_body *body, const atomic_bool *cancel,
        struct bucket_result *result)
{
	struct transfer *t = client;
	const struct s3_place *place = place_of(t);
	char *url = url_to_read(place, path, result);
	struct transfer_reply reply;
	if (url && !bucket_http_get(t, url, cancel, body, &reply, result))
		s3_judge_status(&reply, s3_place_has_keys(place), result);
	free(url);
}

/* A few bytes tell how it is packed: S3 is asked to say so to the reader, since who stored it may not have. */
static char *s3_locate(void *client, const char *path, bool zstd, struct bucket_result *result)
{
	struct transfer *t = client;
	const struct s3_place *place = place_of(t);
	struct transfer_reply reply;
	char *url = url_to_read(place, path, result), *presigned = NULL;
	if (!url)
		return NULL;
	struct transfer_request request = {.method = "GET", .url = url, .lines = "Range: bytes=0-3\n"};
	transfer_run(t, &request, &reply);
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

/* Begins and aborts a multipart upload, which needs the permissions of storing but creates no object. */
static enum err probe_writing(struct transfer *t, struct error *e)
{
	struct transfer_reply reply;
	struct s3_put *p = s3_put_begin(t, e);
	if (!p)
		return e->code;
	p->retries = 0;
	enum err err = begin_pieces(p, e);
	if (!err && !drop_pieces(p, &reply))
		err = refused(e, "aborting an upload", &reply);
	s3_put_free(p);
	return err;
}

/* Tries writing at most once a minute while that succeeds, since S3 charges for it. */
static enum err s3_probe_writing(void *client, struct error *e)
{
	struct transfer *t = client;
	int64_t now = clock_now();
	enum err err = s3_list(t, STORE_FOLDER, NULL, NULL, e);
	if (err || now < atomic_load(&place_of(t)->writable_until))
		return err;
	err = probe_writing(t, e);
	if (!err)
		atomic_store(&place_of(t)->writable_until, now + PROBE_PERIOD * SECOND);
	return err;
}

const struct bucket_backend bucket_s3 = {
        .scheme = "s3://",
        .source_new = s3_source_new,
        .source_free = s3_place_free,
        .client_new = s3_client_new,
        .client_free = transfer_free,
        .fetch = s3_fetch,
        .locate = s3_locate,
        .list = s3_list,
        .remove = s3_remove,
        .put_begin = s3_put_begin,
        .put_write = s3_put_write,
        .put_commit = s3_put_commit,
        .put_free = s3_put_free,
        .probe_writing = s3_probe_writing,
};
