/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between uploads/store.c and the kinds of stores. Private to them. */
#ifndef UPLOADS_STORE_BACKEND_H
#define UPLOADS_STORE_BACKEND_H

#include <inttypes.h>

#include "uploads/store.h"

/* Objects are called by paths below the URL, "symbfiles/HEX/KIND/SET/PARTS/PART" and
 * "symbfiles/build-ids/KEY/BUILDID/HEX/BASE": safe in any file system and URL. */
enum { STORE_PATH_MAX = 256 };

/* Appended to the path of a part: nanoseconds since 1970. */
#define STORE_TIME ".%" PRId64

/* An object that is being read. */
struct store_read {
	const struct bucket_sink *sink;
	const atomic_bool *cancel; /* may be NULL */
	uint64_t max;              /* bytes */
	struct bucket_result *result;
	/* for an object that is fetched again: bytes that the sink has already are skipped, and must be the same */
	struct text_hash *given, *again; /* hashes of the bytes that the sink has, and of the same bytes when they come
	                                    again; NULL: never fetched again */
	uint64_t passed;                 /* bytes that have come again */
	bool differs;
};
/* False if it cannot go on; the result says why. */
bool store_read_add(struct store_read *r, const uint8_t *data, size_t len);

/* What a listing reports of an object: its path below the listed one. False to stop. */
struct store_found {
	bool (*object)(void *arg, struct str path, uint64_t size, int64_t time);
	void *arg;
};

/* Errors are those of uploads/store.h. */
struct store_backend {
	const char *scheme; /* with "://" */
	void *(*store_new)(const char *url, const struct config *c, struct error *e);
	void (*store_free)(void *store);
	/* NULL if out of memory. */
	void *(*client_new)(void *store);
	void (*client_free)(void *client);
	void *(*put_begin)(void *client, const char *path, const atomic_bool *cancel, struct error *e);
	/* Store nothing if this object is the same. */
	void (*put_unless_same)(void *put, const char *path);
	/* If the object is stored, first store an empty one, whose path ends in STORE_TIME: the time of storing. */
	void (*put_with_time)(void *put);
	enum err (*put_write)(void *put, const uint8_t *data, size_t len, struct error *e);
	enum err (*put_commit)(void *put, struct error *e);
	/* Call in any case; without a successful commit nothing stays behind. */
	void (*put_free)(void *put);
	enum err (*list)(void *client, const char *path, const struct store_found *found, const atomic_bool *cancel,
	        struct error *e);
	/* Succeeds if there is no such object. */
	enum err (*remove)(void *client, const char *path, struct error *e);
	/* Sets outcome, status, length_known and text of the result. */
	void (*get)(void *client, const char *path, struct store_read *read);
	enum err (*probe)(void *client, struct error *e);
};

extern const struct store_backend store_file, store_s3;

#endif
