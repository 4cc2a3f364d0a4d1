/* SPDX-License-Identifier: Apache-2.0 */
/* The store of uploaded symbfiles: the parts of sets, and the build ids of executables, in a directory or in S3, chosen
 * by URL. docs/buckets.md describes the layout. */
#ifndef UPLOADS_STORE_H
#define UPLOADS_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/error.h"
#include "objects/object.h"
#include "symbfile/build_id.h"
#include "symbfile/file_id.h"
#include "symbfile/symbfile.h"

/* The place that the setting symbfile_store names, shared by all threads. */
struct symbfile_store;
/* NULL on failure; ERR_CONFIG also if the setting is empty. */
struct symbfile_store *symbfile_store_new(const struct config *c, struct error *e);
void symbfile_store_free(struct symbfile_store *s);
/* Checks that symbfile_store_new would succeed, or that the setting is empty. */
enum err symbfile_store_check(const struct config *c, struct error *e);
/* Checks that a store on this machine (file://) can be read and written now; ERR_OK for others. */
enum err symbfile_store_check_local(const struct config *c, struct error *e);

/* One thread's access to it. NULL if out of memory. */
struct store_client;
struct store_client *store_client_new(struct symbfile_store *s);
void store_client_free(struct store_client *c);

enum { STORE_SET_MAX = 64, STORE_PARTS_MAX = 100000 };
/* Marks generations in the names of sets that the upload did not name: uploads/sets.h. */
enum { STORE_SET_GENERATION = '~' };

/* One part of a set: one upload. */
struct store_key {
	struct file_id id;
	enum symbfile_kind kind;
	const char *set; /* 1 to STORE_SET_MAX of A-Za-z0-9._-, not starting with a dot; or as uploads/sets.h says */
	unsigned part, parts; /* part < parts <= STORE_PARTS_MAX */
};
bool store_key_is_valid(const struct store_key *key);

/* Storing a part: begin, any number of writes, and then either commit or abort; both free it. A client stores one
 * part at a time, and does nothing else meanwhile except put a claim. *cancel (may be NULL) ends a wait for the
 * network.
 *
 * When commit returns ERR_OK the part is durable, complete and listed; until then the store is unchanged. Other
 * content replaces the part. The same content leaves it and its time alone, so uploading a set again does not make
 * it newer. Failures: ERR_BAD_REQUEST for a key that is not valid, ERR_TOO_LARGE for more than S3 takes,
 * ERR_NO_MEMORY, else ERR_UNAVAILABLE. */
struct store_put;
struct store_put *store_put_begin(
        struct store_client *c, const struct store_key *key, const atomic_bool *cancel, struct error *e);
/* If another part of the same executable and kind has this content, nothing is stored, and commit succeeds. */
void store_put_unless_same(struct store_put *p, const struct store_key *other);
enum err store_put_write(struct store_put *p, const void *data, size_t len, struct error *e);
enum err store_put_commit(struct store_put *p, struct error *e);
void store_put_abort(struct store_put *p);

struct store_part {
	enum symbfile_kind kind;
	char set[STORE_SET_MAX + 1];
	unsigned part, parts;
	uint64_t size; /* bytes */
	int64_t time;  /* when it was stored: nanoseconds since 1970, in whole seconds if the store has no finer time */
	bool is_time;  /* not the part itself but the object beside it, which holds its time */
	bool told;     /* time comes from such an object; set only by uploads/sets.c */
};
/* Lists every part of an executable, in any order, with bucket_retries retries like store_get; found returns false to
 * stop. No parts at all is ERR_OK. After ERR_UNAVAILABLE or ERR_NO_MEMORY the parts reported so far may not be all. */
enum err store_list(struct store_client *c, const struct file_id *id,
        bool (*found)(void *arg, const struct store_part *part), void *arg, const atomic_bool *cancel, struct error *e);

/* The same, and also reports the objects beside parts, which hold the times at which parts were stored and survive a
 * copy of the store. Parts stored by older versions have none. If a part has several, the newest counts. */
enum err store_list_with_times(struct store_client *c, const struct file_id *id,
        bool (*found)(void *arg, const struct store_part *part), void *arg, const atomic_bool *cancel, struct error *e);

/* Fetches the bytes of a part as they were stored, under the rules of bucket_fetch. A fetch that fails may have given
 * the sink some bytes. */
void store_get(struct store_client *c, const struct store_key *key, const struct bucket_sink *sink,
        const atomic_bool *cancel, struct bucket_result *result);

/* What an upload says of its executable: its build id, and where its image begins among its addresses. */
struct store_claim {
	struct build_id build_id;
	struct file_id id;
	uint64_t image_base;
	int64_t time; /* of storing, as a part's; only store_list_claims sets it */
};
/* When it returns ERR_OK the claim is durable and listed. An existing claim is left alone. Fails as store_put_commit
 * does. */
enum err store_put_claim(
        struct store_client *c, const struct store_claim *claim, const atomic_bool *cancel, struct error *e);
/* The claims that may answer a question, and perhaps others, under the rules of store_list. */
enum err store_list_claims(struct store_client *c, const struct build_id_question *q,
        bool (*found)(void *arg, const struct store_claim *claim), void *arg, const atomic_bool *cancel,
        struct error *e);

/* For pruning. Lists every object by its path below the store's URL, without "symbfiles/"; found returns false to
 * stop. The objects of one executable come one after the other. Fails as store_list does. */
enum err store_walk(struct store_client *c, bool (*found)(void *arg, struct str path, uint64_t size, int64_t time),
        void *arg, struct error *e);
enum { STORE_PATH_SIZE = 256 };
/* Such a path of a part, or of the object beside it. */
void store_part_path(char path[STORE_PATH_SIZE], const struct file_id *id, const struct store_part *part);
/* Removes the object at such a path; succeeds if there is none. ERR_UNAVAILABLE. */
enum err store_remove(struct store_client *c, const char *path, struct error *e);

/* For the heartbeat: ERR_OK if the store answers and can be read and written. Leaves nothing behind. */
enum err store_probe(struct store_client *c, struct error *e);

#endif
