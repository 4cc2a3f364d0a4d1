/* SPDX-License-Identifier: Apache-2.0 */
/* What can go wrong, and the one table that maps it to an HTTP status. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

enum err {
	ERR_OK = 0,
	ERR_NO_MEMORY,    /* an allocation failed; the request gets 503 */
	ERR_BAD_REQUEST,  /* malformed request: 400 */
	ERR_UNAUTHORIZED, /* no key, or a malformed one: 401 */
	ERR_FORBIDDEN,    /* unknown or revoked key, or a key without the right: 403 */
	ERR_NOT_FOUND,    /* no such route: 404 */
	ERR_BAD_METHOD,   /* 405 */
	ERR_TOO_LARGE,    /* body above a limit: 413 */
	ERR_INTERNAL,     /* a defect or an impossible state: 500 */
	ERR_GONE,         /* the client went away: 499, for the log and the metrics */
	ERR_UNAVAILABLE,  /* temporary; the client should try again: 503 with Retry-After */
	ERR_BUSY,         /* the same, because others are at it */
	ERR_CORRUPT,      /* malformed data */
	ERR_MISSING,      /* no such object */
	ERR_CONFIG,       /* configuration file or flags */
	ERR_IO,           /* a system call failed */
};

/* The detail of a failure, in the caller's memory. The text is one line, without a newline. */
struct error {
	enum err code;
	char text[256];
	char place[80]; /* where in a request the mistake is, as a JSON object; empty: it has no place */
};

/* Fills e (which may be NULL) without a place and returns code, for use in a return statement. */
enum err error_set(struct error *e, enum err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for a failed allocation: ERR_NO_MEMORY. */
enum err no_memory(struct error *e);

/* The HTTP status for an error: 400, 401, ...; 500 for errors without a status of their own. */
int error_http_status(enum err code);

/* "Bad Request" for 400, and so on; "Unknown" for a status that this server never sends. */
const char *http_status_phrase(int status);

#endif
