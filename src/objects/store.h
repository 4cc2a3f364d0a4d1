/* SPDX-License-Identifier: Apache-2.0 */
/* A place for objects that the server itself writes, in a directory or in S3, chosen by URL: put, get, list and remove
 * by path. */
#ifndef OBJECTS_STORE_H
#define OBJECTS_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/config.h"
#include "base/error.h"
#include "base/str.h"
#include "objects/object.h"

/* Paths are relative, with single slashes, and shorter than this. Those that are listed, read or removed consist of
 * A-Za-z0-9._~- besides, and their first segment is STORE_FOLDER. */
enum { STORE_PATH_MAX = 1024 };
#define STORE_FOLDER "symbfiles"
/* What is being stored, or was left behind by a process that died. */
#define STORE_TEMPORARY STORE_FOLDER "/.tmp"

/* The place that the setting symbfile_store names, shared by all threads. */
struct symbfile_store;
/* NULL on failure; ERR_CONFIG also if the setting is empty. */
struct symbfile_store *symbfile_store_new(const struct config *c, struct error *e);
/* The same for another place, by the URL that the setting `what` (not owned) holds. */
struct symbfile_store *store_new(const char *url, const char *what, const struct config *c, struct error *e);
void symbfile_store_free(struct symbfile_store *s);
/* Checks that store_new would succeed, or that the setting is empty; with `use` also that a store on this machine
 * (file://) can be read and written now. */
enum err store_check(const char *url, const char *what, bool use, const struct config *c, struct error *e);

/* One thread's access to it. NULL if out of memory. The store keeps a few that are given back, with their connections,
 * for whoever takes one next. */
struct store_client;
struct store_client *store_client_take(struct symbfile_store *s);
/* Another one of the same store, for what is done at the same time. */
struct store_client *store_client_another(const struct store_client *c);
void store_client_give(struct store_client *c); /* NULL is fine */

/* Storing an object: begin, any number of writes, and then commit, which gives it its path, or abort; both free it.
 *
 * When commit returns ERR_OK the object is durable, complete and listed, and has replaced any other at that path; until
 * then the store is unchanged. Failures: ERR_TOO_LARGE for more than S3 takes, ERR_NO_MEMORY, else ERR_UNAVAILABLE. */
struct store_put;
struct store_put *store_put_begin(struct store_client *c, struct error *e);
enum err store_put_write(struct store_put *p, const void *data, size_t len, struct error *e);
enum err store_put_commit(struct store_put *p, const char *path, struct error *e);
void store_put_abort(struct store_put *p);
/* The same for an object in memory. */
enum err store_put_object(struct store_client *c, const char *path, struct str data, struct error *e);

/* Now, in nanoseconds since 1970, by the clock that all hosts share: the store's own, as far as this process has seen
 * it. A put that has begun, and a listing in S3, have just looked. */
int64_t store_now(const struct store_client *c);

/* Lists every object below path, in any order, with bucket_retries retries; of STORE_FOLDER also those below
 * STORE_TEMPORARY. None at all is ERR_OK. After ERR_UNAVAILABLE or ERR_NO_MEMORY those reported so far may not be all.
 * Objects of one folder come one after the other. */
enum err store_list(struct store_client *c, const char *path, store_found *found, void *arg, const atomic_bool *cancel,
        struct error *e);

/* A listing that is kept. Begin with all 0. */
struct store_objects {
	struct store_object {
		char *path; /* below the listed one */
		uint64_t size;
		int64_t time;
	} * items;
	size_t count;
	uint32_t cap;
	bool no_memory;
};
/* Adds an object: a store_found, whose arg is struct store_objects. False if out of memory. */
bool store_objects_add(void *arg, struct str path, uint64_t size, int64_t time);
/* Lists all below path; the same errors. */
enum err store_objects_list(struct store_objects *o, struct store_client *c, const char *path, struct error *e);
void store_objects_release(struct store_objects *o);

/* Passes the bytes of an object as they were stored to add, until that returns false, under the rules of bucket_fetch.
 * A fetch that fails may have passed some. */
void store_get(struct store_client *c, const char *path, bool (*add)(void *arg, const uint8_t *data, size_t len),
        void *arg, const atomic_bool *cancel, struct bucket_result *result);
/* The same into a buffer, whose max holds. ERR_MISSING, ERR_UNAVAILABLE. */
enum err store_get_object(
        struct store_client *c, const char *path, struct buffer *b, const atomic_bool *cancel, struct error *e);

/* Removes an object; succeeds if there is none. ERR_UNAVAILABLE. */
enum err store_remove(struct store_client *c, const char *path, struct error *e);

/* For the heartbeat: ERR_OK if the store answers and can be read and written. Leaves nothing behind. */
enum err store_probe(struct store_client *c, struct error *e);

#endif
