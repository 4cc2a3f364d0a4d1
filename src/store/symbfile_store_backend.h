/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of store for symbfiles is to symbfile_store.c. Private to it and them. */
#ifndef STORE_SYMBFILE_STORE_BACKEND_H
#define STORE_SYMBFILE_STORE_BACKEND_H

#include "store/symbfile_store.h"

/* Objects are called by paths below the URL, "symbfiles/HEX/KIND/SET/PARTS/PART" and
 * "symbfiles/build-ids/KEY/BUILDID/HEX/BASE": safe in any file system and URL. */
enum { STORE_PATH_MAX = 256 };

/* An object on its way out. */
struct store_read {
	const struct bucket_sink *sink;
	const atomic_bool *cancel; /* may be NULL */
	uint64_t max;              /* bytes */
	struct bucket_result *result;
	/* of an object that is asked for again: what the sink has of it already is passed over, and must be the same */
	struct text_hash *given,
	        *again;  /* of what the sink has, and of what comes anew; NULL: it is never asked again */
	uint64_t passed; /* bytes of it that came anew */
	bool differs;
};
/* False when it cannot go on; the result says why. */
bool store_read_add(struct store_read *r, const uint8_t *data, size_t len);
/* Before another try, a little longer or shorter by chance. */
void store_pause(void);

/* What a listing tells of an object: its path below the one that was asked for. False to stop. */
struct store_found {
	bool (*object)(void *arg, struct str path, uint64_t size, int64_t time);
	void *arg;
};

/* Errors are those of symbfile_store.h. */
struct store_backend {
	const char *scheme; /* with "://" */
	void *(*store_new)(const char *url, const struct config *c, struct error *e);
	void (*store_free)(void *store);
	const char *(*store_name)(const void *store);
	/* NULL without memory. */
	void *(*client_new)(void *store);
	void (*client_free)(void *client);
	void *(*put_begin)(void *client, const char *path, const atomic_bool *cancel, struct error *e);
	/* Nothing is to be stored if this object is the same. */
	void (*put_unless_same)(void *put, const char *path);
	enum err (*put_write)(void *put, const uint8_t *data, size_t len, struct error *e);
	enum err (*put_commit)(void *put, struct error *e);
	/* Whatever has become of it; without a commit that succeeded nothing stays behind. */
	void (*put_free)(void *put);
	enum err (*list)(void *client, const char *path, const struct store_found *found, const atomic_bool *cancel,
	        struct error *e);
	/* One that is not there is removed already. */
	enum err (*remove)(void *client, const char *path, struct error *e);
	/* Sets outcome, status, length_known and text of the result. */
	void (*get)(void *client, const char *path, struct store_read *read);
	enum err (*probe)(void *client, struct error *e);
};

extern const struct store_backend store_file, store_s3;

#endif
