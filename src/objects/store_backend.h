/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between objects/store.c and the kinds of stores. Private to them. */
#ifndef OBJECTS_STORE_BACKEND_H
#define OBJECTS_STORE_BACKEND_H

#include "base/clock.h"
#include "objects/store.h"

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

/* A listing that runs. */
struct store_listing {
	store_found *found;
	void *arg;
};

/* Nanoseconds since 1970, by this machine. */
static inline int64_t store_clock(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

/* Errors are those of objects/store.h; those that are ERR_UNAVAILABLE get the name of the setting there. */
struct store_backend {
	const char *scheme; /* with "://" */
	void *(*store_new)(const char *url, const char *what, const struct config *c, struct error *e);
	void (*store_free)(void *store);
	/* NULL if out of memory. */
	void *(*client_new)(void *store);
	void (*client_free)(void *client);
	void *(*put_begin)(void *client, const atomic_bool *cancel, struct error *e);
	enum err (*put_write)(void *put, const uint8_t *data, size_t len, struct error *e);
	/* *ahead becomes how far the store's clock is ahead of this machine's; 0 if they agree to within a second. */
	enum err (*put_commit)(void *put, const char *path, int64_t *ahead, struct error *e);
	/* Call in any case; without a successful commit nothing stays behind. */
	void (*put_free)(void *put);
	enum err (*list)(void *client, const char *path, const struct store_listing *l, const atomic_bool *cancel,
	        struct error *e);
	/* Succeeds if there is no such object. */
	enum err (*remove)(void *client, const char *path, struct error *e);
	/* Sets outcome, status, length_known and text of the result. */
	void (*get)(void *client, const char *path, struct store_read *read);
	enum err (*probe)(void *client, struct error *e);
};

extern const struct store_backend store_file, store_s3;

#endif
