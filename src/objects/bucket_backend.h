/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what each kind of place does (get, list, put, remove), for bucket.c and store.c; and the body of an
 * object that all kinds fill. Private to objects. */
#ifndef OBJECTS_BUCKET_BACKEND_H
#define OBJECTS_BUCKET_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/unpack.h"
#include "objects/bucket.h"
#include "objects/place_clock.h"
#include "objects/store.h"

/* Turns the bytes of an object into text for the sink. The object may be plain, gzip or zstd, or one of these in
 * another. */
enum { BODY_LAYERS = 2 };
/* Begin with all 0. Others only read it. */
struct bucket_body {
	uint64_t max, text; /* bytes of the text: at most, so far */
	uint8_t last;       /* byte of the text; 0: there is none yet */
	enum bucket_outcome outcome;
	const char *problem; /* what was wrong, if anything */
	const struct bucket_sink *sink;
	const struct bucket_raw_sink *raw; /* instead of sink; NULL: none */
	int64_t limit;    /* nanoseconds for the transfer; 0: those of the settings. Then a connection is
	                     opened for it. Set after the start */
	int64_t answered; /* clock_now() when the first bytes came; 0: none have */
	bool begun;       /* raw knows the head */
	bool no_page;     /* HTML, such as the listing of a folder, is not the object */
	struct body_layer {
		struct packing_head head;
		uint64_t bytes;            /* seen in this layer: in the first those of the object */
		struct unpacker *unpacker; /* made when first needed, then kept */
	} layers[BODY_LAYERS];
	uint8_t *between; /* from the first layer to the second */
};
void bucket_body_release(struct bucket_body *b);
/* Makes it ready for another object, whose text may have max bytes. */
void bucket_body_start(struct bucket_body *b, const struct bucket_sink *sink, uint64_t max);
/* Makes it ready for an object of at most max bytes that is passed on as it is. */
void bucket_body_start_raw(struct bucket_body *b, const struct bucket_raw_sink *sink, uint64_t max);
/* What is known of the object, before its first bytes; a second call does nothing. */
enum bucket_outcome bucket_body_begin(struct bucket_body *b, const struct bucket_head *head);
/* Adds bytes of the object. Anything but BUCKET_OK is final; after BUCKET_BROKEN bytes are still counted, so that the
 * caller can tell whether the object is whole. */
enum bucket_outcome bucket_body_add(struct bucket_body *b, const uint8_t *data, size_t len);
/* The object ends here: BUCKET_BROKEN if its gzip or zstd does not. */
enum bucket_outcome bucket_body_end(struct bucket_body *b);
/* Whether its gzip was followed by bytes that were ignored. */
bool bucket_body_trails(const struct bucket_body *b);

/* A listing that runs. */
struct bucket_listing {
	store_found *found;
	void *arg;
	bool flat; /* the entries of one folder, folders too: NUL-terminated, without size and time; only file:// can */
};

/* What is being stored; each kind's begins with it. */
struct store_put {
	struct store_client *client; /* for store.c; not owned */
};

/* A source is made from a URL and shared by all threads; a client is one thread's access to it. */
struct bucket_backend {
	const char *scheme; /* with "://" */
	/* Begins with a struct bucket_place. what: the setting that names a place to write, not owned; NULL: a source.
	 */
	void *(*source_new)(const char *url, const char *what, const struct config *c, struct error *e);
	void (*source_free)(void *source);
	/* NULL if out of memory. */
	void *(*client_new)(void *source);
	void (*client_free)(void *client);
	/* One attempt: feeds body, and sets outcome, status, length_known and text of the result. The path is
	 * percent-encoded, shorter than BUCKET_PATH_MAX, and no segment of it leads out of its place. */
	void (*fetch)(void *client, const char *path, struct bucket_body *body, const atomic_bool *cancel,
	        struct bucket_result *result);
	/* One attempt: sets outcome, status and text of the result and, if there is such an object, the URL by which
	 * anybody may GET it for some minutes; the caller frees it. NULL, or a NULL URL: it must be fetched. zstd:
	 * whether the reader takes an object that is packed so. */
	char *(*locate)(void *client, const char *path, bool zstd, struct bucket_result *result);

	/* All NULL of a kind that cannot be written. Errors are those of objects/store.h; those that are
	 * ERR_UNAVAILABLE get the name of the setting there. */
	enum err (*list)(void *client, const char *path, const struct bucket_listing *l, const atomic_bool *cancel,
	        struct error *e);
	/* Succeeds if there is no such object. */
	enum err (*remove)(void *client, const char *path, struct error *e);
	/* Begins with a struct store_put. */
	void *(*put_begin)(void *client, struct error *e);
	enum err (*put_write)(void *put, const uint8_t *data, size_t len, struct error *e);
	enum err (*put_commit)(void *put, const char *path, struct error *e);
	/* Call in any case; without a successful commit nothing stays behind. */
	void (*put_free)(void *put);
	enum err (*probe_writing)(void *client, struct error *e);
};

/* One attempt over HTTP: feeds body, and sets outcome, status, length_known and text of the result. False: it is up to
 * the caller what the reply's status means, which is not 200; only the status of the result is set. */
struct transfer;
struct transfer_reply;
bool bucket_http_get(struct transfer *t, const char *url, const atomic_bool *cancel, struct bucket_body *body,
        struct transfer_reply *reply, struct bucket_result *result);

extern const struct bucket_backend bucket_http, bucket_https, bucket_s3, bucket_file;

/* NULL: nobody watches the source. */
struct source_health;
struct source_health *bucket_source_health(const struct bucket_sources *s, unsigned source);
/* A store is the place of sources, too. */
void *store_place(const struct symbfile_store *s, const struct bucket_backend **backend);

/* The kind of a URL; NULL: none. */
const struct bucket_backend *bucket_backend_of(const char *url);

#endif
