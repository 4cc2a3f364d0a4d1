/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol files in buckets: sources of several kinds, chosen by URL scheme (http, https, s3, file). */
#ifndef OBJECTS_BUCKET_H
#define OBJECTS_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/error.h"
#include "base/str.h"
#include "objects/object.h"

/* The sources in the configuration, opened once and shared by all threads: each has one set of limits, credentials and
 * clocks, and is watched (source_health.h). A URL that ends in "#symstore" has the two-level layout of symstore: a
 * folder named after the first two characters of the name above all. Of executables and their debug files an index2.txt
 * in the source says so, too, for paths as symstore has them. */
struct bucket_sources;
struct bucket_sources *bucket_sources_new(const struct config *c, struct error *e);
/* The place that sym_store names, which is among them; NULL if it names none. Theirs. */
struct symbfile_store;
struct symbfile_store *bucket_sources_store(const struct bucket_sources *s);
/* With these URLs alone, which nobody watches. */
struct bucket_sources *bucket_sources_of(const struct config *c, const struct config_list *urls, struct error *e);
void bucket_sources_free(struct bucket_sources *s);
unsigned bucket_sources_count(const struct bucket_sources *s);
/* Checks that bucket_sources_new would accept this source URL. */
enum err bucket_check_url(const struct config *c, const char *url, struct error *e);

/* Checks that a source on this machine (file://) can be used now; ERR_OK for others. ERR_CONFIG. */
enum err bucket_check_local(const struct config *c, const char *url, struct error *e);

/* The folder of sym_store that is asked after all sources. */
#define BUCKET_TRY "try"

/* One thread's connections to them. */
struct bucket_client;
struct bucket_client *bucket_client_new(struct bucket_sources *s);
void bucket_client_free(struct bucket_client *c);
/* One that was given back, with its connections, or a new one; NULL if out of memory. */
struct bucket_client *bucket_client_take(struct bucket_sources *s);
void bucket_client_give(struct bucket_client *c); /* NULL is fine */

/* Whether a bucket can hold this name and id at all. It cannot if one is empty or longer than 1,024 bytes, contains a
 * slash, a backslash or a control character (DEL too), is "." or "..", if the name is not UTF-8, or if the id is not
 * hex. */
bool bucket_can_hold(struct str name, struct str id);
/* How an id may be spelled in a bucket: as it is; in upper case; and, which few buckets have, in lower case; and
 * without an age of 0 or, of 32 digits, with one, in upper and in lower case. False: it is that of another spelling, or
 * there is none. */
enum bucket_spelling {
	SPELLED_SO,
	SPELLED_UPPER,
	BUCKET_USUAL_SPELLINGS,
	SPELLED_LOWER = BUCKET_USUAL_SPELLINGS,
	SPELLED_BY_AGE,
	SPELLED_LOWER_BY_AGE,
	BUCKET_SPELLINGS
};
enum { BUCKET_ID_MAX = 1024 };
bool bucket_spell(struct str id, enum bucket_spelling how, char text[BUCKET_ID_MAX + 1], struct str *spelled);
/* The name without a final ".pdb" of any case: what ".sym" is appended to. */
struct str bucket_stem(struct str name);
/* "name/id/name.sym", with each segment percent-encoded except A-Za-z0-9-._~; a final ".pdb" in any case is replaced by
 * ".sym". Returns the length, which leaves room for a folder above it. */
enum { BUCKET_PATH_MAX = 3 * 3 * 1024 + 48 };
size_t bucket_object_path(char *out, struct str name, struct str id);

struct bucket_object {
	struct str name, id;
};
/* One attempt at one source. Retries, other sources and other spellings: source_search.h. *cancel (may be NULL) ends
 * it within about a second. */
void bucket_fetch(struct bucket_client *c, unsigned source, struct bucket_object object, const struct bucket_sink *sink,
        const atomic_bool *cancel, struct bucket_result *result);

/* The same for the bytes as they are stored. Of the result, text_bytes is the number of these. */
void bucket_fetch_raw(struct bucket_client *c, unsigned source, struct bucket_object object,
        const struct bucket_raw_sink *sink, const atomic_bool *cancel, struct bucket_result *result);

/* The URL by which anybody may GET an object for some minutes, if the source has it and gives such URLs (S3 with keys);
 * the caller frees it. NULL: it must be fetched, unless the outcome is BUCKET_MISSING. zstd: whether the reader takes
 * an object that is packed so. One attempt. */
char *bucket_locate(
        struct bucket_client *c, unsigned source, struct bucket_object object, bool zstd, struct bucket_result *result);

/* What a source has. */
enum bucket_kind {
	BUCKET_SYMS,       /* symbol files */
	BUCKET_DEBUGINFOD, /* executables and debug files by their build ids, as debuginfod has them: "debuginfod+" URLs
	                    */
	BUCKET_ELF,        /* the same in the layouts of trees of such files: "elf+" URLs */
};
enum bucket_kind bucket_kind_of_url(const char *url);
/* Whether it is a directory. */
bool bucket_source_is_folder(const struct bucket_sources *s, unsigned source);
enum bucket_kind bucket_source_kind(const struct bucket_sources *s, unsigned source);
/* One attempt at any object, of at most max bytes inflated, by its percent-encoded path below the source. One of more
 * than BUCKET_PLAIN_MAX bytes is missing, and so is one that is a page of HTML: the listing of a folder. */
enum { BUCKET_PLAIN_MAX = 3 * 1024 };
void bucket_fetch_path(struct bucket_client *c, unsigned source, const char *path, uint64_t max,
        const struct bucket_sink *sink, const atomic_bool *cancel, struct bucket_result *result);

/* bucket_fetch_raw and bucket_locate for such an object. */
void bucket_fetch_path_raw(struct bucket_client *c, unsigned source, const char *path, uint64_t max,
        const struct bucket_raw_sink *sink, const atomic_bool *cancel, struct bucket_result *result);
char *bucket_locate_path(
        struct bucket_client *c, unsigned source, const char *path, bool zstd, struct bucket_result *result);

/* Passes the name of each entry of a folder below the source to `found`, until that returns false: none if there is no
 * such folder. ERR_CONFIG: the source is not of the kind file://, and cannot be asked; ERR_NO_MEMORY; ERR_UNAVAILABLE.
 */
enum err bucket_list(
        struct bucket_client *c, unsigned source, const char *folder, store_found *found, void *arg, struct error *e);

/* For the heartbeat, asks a source for an object that cannot exist: ERR_OK if it is missing, ERR_UNAVAILABLE if loads
 * would fail (no answer, no such bucket, or no permission to read). */
enum err bucket_probe(struct bucket_client *c, unsigned source, struct error *e);
const char *bucket_source_name(
        const struct bucket_sources *s, unsigned source); /* URL without user, password or query */

/* A set of sources: one bit each. */
typedef uint64_t source_set;
/* Whether any of these failed, and has been well again since then, a clock_now(). */
bool bucket_sources_returned(const struct bucket_sources *s, source_set which, int64_t since);
/* Whether none of these is known to fail. */
bool bucket_sources_well(const struct bucket_sources *s, source_set which);
/* For each source, what the list of sources up to it is, in any process: without secrets, and never 0. */
const uint64_t *bucket_sources_digests(const struct bucket_sources *s);

#endif
