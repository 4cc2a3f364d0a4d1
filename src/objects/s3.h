/* SPDX-License-Identifier: Apache-2.0 */
/* S3: places named by URLs, the keys that sign requests, and S3's XML. Private to the store. */
#ifndef OBJECTS_S3_H
#define OBJECTS_S3_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "base/error.h"
#include "base/str.h"
#include "objects/place_clock.h"
#include "objects/transfer.h"

/* Owned texts; NULL if absent. Secrets: they appear in no other text. */
struct s3_keys {
	char *access, *secret, *token;
};
/* Reads the file that the settings name, else the environment; all NULL if there are no keys. Errors name file and
 * line. */
enum err s3_keys_find(struct s3_keys *k, const struct config *c, struct error *e);
void s3_keys_release(struct s3_keys *k);
/* Whether a key or token can go into a header: no blanks, no control characters. */
bool s3_key_is_valid(const char *text);

/* Where the settings and the environment say that keys come from, and the keys in force. Shared by all threads. A file
 * is read again when it changes; temporary keys are renewed before they expire. */
struct s3_credentials;
/* Reads the file or the environment; contacts no service. region need not outlive the call. */
struct s3_credentials *s3_credentials_new(const struct config *c, const char *region, struct error *e);
void s3_credentials_free(struct s3_credentials *c);
/* Whether requests are signed. */
bool s3_credentials_any(const struct s3_credentials *c);
/* Copies the keys in force; the caller releases them. May wait a few seconds for a service. ERR_UNAVAILABLE if the
 * service has no keys to give. */
enum err s3_credentials_get(struct s3_credentials *c, struct s3_keys *k, struct error *e);

/* A bucket and a prefix in it, shared by all threads. */
struct s3_place {
	struct bucket_place place; /* "s3://bucket/prefix/", and S3's clock, which signatures follow */
	char *bucket;              /* URL of the bucket, ready for a query */
	char *host;                /* as the header Host has it */
	size_t above_path;         /* bytes of a URL before its path */
	char *base;                /* URL below which the prefix is; ends with a slash */
	char *prefix;              /* as in object keys: empty, or with a final slash */
	char *region;
	struct s3_credentials *credentials;
	struct transfer_pool *pool; /* its requests are signed, and look at the clock; it is the owner */
	int64_t total_timeout;
	uint64_t retries;
	atomic_llong writable_until; /* clock_now(): until then the heartbeat does not try again */
};
/* Makes a place from a URL s3://bucket/prefix with a percent-encoded prefix. The settings' texts may be NULL. `what` is
 * the setting that names a place to write; NULL: it is a source. Errors begin with it. */
struct s3_place *s3_place_new(const char *url, const char *what, const struct config *c, struct error *e);
void s3_place_free(void *place);
/* Signs its requests; see transfer_settings. */
bool s3_place_sign(void *place, const struct transfer_request *q, struct buffer *lines, struct error *e);
/* A URL by which anybody may GET an object for some seconds; `url` is the object's. S3 says then that it has this
 * content encoding (NULL: what it says otherwise). The caller frees it. NULL without keys, if it would be too long for
 * a header, or if out of memory. */
char *s3_presign(const struct s3_place *p, const char *url, unsigned seconds, const char *encoding);
static inline bool s3_place_has_keys(const struct s3_place *p)
{
	return s3_credentials_any(p->credentials);
}

/* Calls element at the end of each element, with its depth (the root has 1) and, unless it contains other elements, its
 * text. False if the XML is malformed or cut off; elements up to there have been reported. */
bool s3_xml_read(const void *data, size_t len,
        void (*element)(void *arg, unsigned depth, const char *name, struct str text), void *arg);
/* Nanoseconds since 1970 of "2026-11-21T15:17:30.123Z"; -1 for anything else. */
int64_t s3_parse_time(struct str text);
/* The <Code> of an error ("NoSuchKey"), letters and digits only; empty if there is none. */
enum { S3_CODE_SIZE = 64 };
void s3_error_code(char out[S3_CODE_SIZE], const void *data, size_t len);
/* "HTTP status 403, AccessDenied", or why the transfer failed. */
enum { S3_TEXT_SIZE = 180 };
const char *s3_reply_text(char out[S3_TEXT_SIZE], const struct transfer_reply *reply);
/* Interprets a status other than 200: sets outcome and text, and returns the outcome. S3 has a code for every error, so
 * fewer statuses mean "missing" than with a web server: 400 can be a wrong region or an expired token, 404 a missing
 * bucket. */
enum bucket_outcome s3_judge_status(const struct transfer_reply *reply, bool has_keys, struct bucket_result *result);

#endif
