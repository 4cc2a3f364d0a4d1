/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4 in the header Authorization, as S3 wants it: what is signed is what is sent. Private to the
 * store. */
#ifndef OBJECTS_S3_SIGN_H
#define OBJECTS_S3_SIGN_H

#include <stdbool.h>
#include <time.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/str.h"

struct s3_header {
	const char *name, *value;
};

/* A request, and whose keys sign it. Nothing is owned. */
struct s3_signing {
	const char *access, *secret, *region, *service;
	const char *date;    /* the header x-amz-date, s3_sign_date */
	const char *method;  /* "GET" */
	struct str path;     /* percent-encoded, as it is sent; from the first slash */
	struct str query;    /* likewise, without the question mark: name=value, sorted by name */
	const char *payload; /* SHA-256 of the body in hex, as in x-amz-content-sha256 */
	/* All headers to sign: host, x-amz-date and every other x-amz-... that is sent. Sorted, with names in lower
	 * case and no blanks around values or several in them. */
	const struct s3_header *headers;
	unsigned count;
};
enum { S3_SIGN_DATE = 17 };

/* "20130524T000000Z" */
void s3_sign_date(char out[S3_SIGN_DATE], time_t now);
/* The signature alone, for a URL whose query has the rest. False if out of memory. */
bool s3_signature(char out[SHA256_HEX + 1], const struct s3_signing *s);
/* Appends the value of Authorization. The same. */
bool s3_sign(struct buffer *out, const struct s3_signing *s);

#endif
