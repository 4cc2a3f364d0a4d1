/* SPDX-License-Identifier: Apache-2.0 */
/* S3: places by URL, the keys that sign requests, and what its XML says. Private to the store. */
#ifndef STORE_S3_H
#define STORE_S3_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "base/error.h"
#include "base/str.h"
#include "store/transfer.h"

/* Owned texts; NULL where there is none. Secrets: they appear in no other text. */
struct s3_keys {
	char *access, *secret, *token;
};
/* The file that the settings name, else the environment; all NULL when neither has keys. Errors name file and line. */
enum err s3_keys_find(struct s3_keys *k, const struct config *c, struct error *e);
void s3_keys_release(struct s3_keys *k);

/* Where keys come from, by the settings and the environment, and those in force. Shared by all threads. A file is read
 * again when it changes, and what a service gives for a time is asked for anew before it is over. */
struct s3_credentials;
/* Reads what a file or the environment has; asks no service. region may be gone afterwards. */
struct s3_credentials *s3_credentials_new(const struct config *c, const char *region, struct error *e);
void s3_credentials_free(struct s3_credentials *c);
/* Requests are to be signed. */
bool s3_credentials_any(const struct s3_credentials *c);
/* A copy of the keys in force, which the caller releases. May wait for a service, some seconds at most. ERR_UNAVAILABLE
 * when that has none to give. */
enum err s3_credentials_get(struct s3_credentials *c, struct s3_keys *k, struct error *e);

/* A bucket and a prefix in it, immutable. */
struct s3_place {
	char *name;   /* "s3://bucket/prefix/" as it may be shown */
	char *bucket; /* URL of the bucket, ready for a query */
	char *base;   /* URL below which the prefix is; ends with a slash */
	char *prefix; /* as it is in keys: empty, or with a slash at its end */
	char *region;
	struct s3_credentials *credentials;
	struct transfer_settings settings; /* for requests to it, which it signs */
};
/* Of a URL s3://bucket/prefix, whose prefix is percent-decoded. The settings' texts may be NULL. Errors begin with
 * what, the setting that has the URL. */
struct s3_place *s3_place_new(const char *url, const char *what, const struct config *c, struct error *e);
void s3_place_free(struct s3_place *p);
static inline bool s3_place_has_keys(const struct s3_place *p)
{
	return s3_credentials_any(p->credentials);
}

/* Calls element at the end of each element, with its depth (the root has 1) and the characters in it, if no other
 * element is. False when it is no XML, or a cut one; elements until there have been told. */
bool s3_xml_read(const void *data, size_t len,
        void (*element)(void *arg, unsigned depth, const char *name, struct str text), void *arg);
/* The <Code> of an error ("NoSuchKey"), only letters and digits; empty when there is none. */
enum { S3_CODE_SIZE = 64 };
void s3_error_code(char out[S3_CODE_SIZE], const void *data, size_t len);
/* "HTTP status 403, AccessDenied", or what the transfer came to grief at. */
enum { S3_TEXT_SIZE = 180 };
const char *s3_reply_text(char out[S3_TEXT_SIZE], const struct transfer_reply *reply);
/* What a status other than 200 means for the object that was asked for: sets outcome and text, and returns the outcome.
 * S3 has a code for every error, so less than of a web server is taken for a missing object: 400 is also a wrong region
 * or an expired token, 404 also a missing bucket. */
enum bucket_outcome s3_judge_status(const struct transfer_reply *reply, bool has_keys, struct bucket_result *result);

#endif
