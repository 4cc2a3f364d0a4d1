/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol files in buckets: sources behind one table chosen by URL scheme (http, https, s3, file). */
#ifndef STORE_BUCKET_H
#define STORE_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/error.h"
#include "base/str.h"
#include "store/object.h"

/* The sources of the configuration, shared by all threads. */
struct bucket_sources;
struct bucket_sources *bucket_sources_new(const struct config *c, struct error *e);
void bucket_sources_free(struct bucket_sources *s);
unsigned bucket_sources_count(const struct bucket_sources *s);
/* Whether a source URL is one that bucket_sources_new takes. */
enum err bucket_check_url(const struct config *c, const char *url, struct error *e);

/* Whether a source on this machine (file://) can be used now; of others ERR_OK. ERR_CONFIG. */
enum err bucket_check_local(const struct config *c, const char *url, struct error *e);

/* One thread's connections to them. */
struct bucket_client;
struct bucket_client *bucket_client_new(struct bucket_sources *s);
void bucket_client_free(struct bucket_client *c);

/* Can a bucket hold this name and id at all? Not: empty, over 1,024 bytes, a slash or backslash, a control character
 * (DEL too), "." or
 * "..", bytes that are no UTF-8, an id that is no hex. */
bool bucket_can_hold(struct str name, struct str id);
/* "name/id/name.sym", each segment percent-encoded but for A-Za-z0-9-._~; a final ".pdb" of any case is replaced by
 * ".sym". out has room for 3 * 1024 * 3 + 16 bytes. Returns the length. */
enum { BUCKET_PATH_MAX = 3 * 3 * 1024 + 16 };
size_t bucket_object_path(char out[BUCKET_PATH_MAX], struct str name, struct str id);

/* One attempt at one source. Retries, other sources and other spellings are the caller's. *cancel (may be NULL) ends it
 * within about a second. */
void bucket_fetch(struct bucket_client *c, unsigned source, struct str name, struct str id,
        const struct bucket_sink *sink, const atomic_bool *cancel, struct bucket_result *result);

/* Asks a source for an object that can't be there, for the heartbeat: ERR_OK when it is missing, ERR_UNAVAILABLE when
 * loads fail (no answer, no such bucket, keys or a directory that let nothing be read). */
enum err bucket_probe(struct bucket_client *c, unsigned source, struct error *e);
const char *bucket_source_name(
        const struct bucket_sources *s, unsigned source); /* URL without user, password or query */

#endif
