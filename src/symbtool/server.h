/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a symbolication server, retried while that makes sense. */
#ifndef SYMBTOOL_SERVER_H
#define SYMBTOOL_SERVER_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "symbtool/progress.h"

enum { SERVER_REPLY_MAX = 300 << 20 }; /* bytes of a reply with names; servers stop before */

/* What all requests of a command share. Texts are not owned. */
struct server {
	const char *url;     /* http(s)://host[:port][/prefix], or that of the page or of a route */
	const char *ca_file; /* NULL: the system's */
	bool insecure;       /* accept any certificate */
	bool keyed;          /* requests have an API key: as api_key_header takes it */
	const char *key, *key_file;
	uint64_t retry_time; /* seconds after its first failure until a request is given up */
	atomic_bool cancel;  /* ends all requests */
	/* set by server_open, and by a redirect from http to https: */
	char *authorization; /* header line; NULL: none */
	char *base;          /* the URL before all paths */
	atomic_bool settled; /* no redirect is to be expected before a key is sent */
};

/* The URL that was given, else that of SYMBTOOL_URL; NULL: none, as for an empty one. */
const char *server_url(const char *given);

/* Checks the URL and the key; the text says what is wrong. Call once, before any connection, and release it after the
 * last. ERR_CONFIG, ERR_IO, ERR_NO_MEMORY. */
enum err server_open(struct server *s, struct error *e);
void server_release(struct server *s); /* also one that was not opened */

/* One thread's connection. NULL if out of memory. */
struct server_connection;
struct server_connection *connection_new(struct server *s);
void connection_free(struct server_connection *c);

struct server_request {
	const char *path;    /* added to the URL */
	const char *headers; /* lines, each ended by a line feed; NULL: none */
	const char *method;  /* NULL: POST if there is a body, else GET */
	const void *data;    /* the body, of len bytes; NULL: none */
	uint64_t len;
	struct progress *progress; /* of the bytes sent; NULL: nobody looks */
};

/* Puts the body of a reply with status 200 into the caller's buffer. Anything else is a failure, whose text names the
 * URL and includes the server's message with the uuid of its log: ERR_MISSING (404), ERR_FORBIDDEN (401, 403),
 * ERR_UNAVAILABLE (429, 5xx, no reply; retried until retry_time was over), ERR_BAD_REQUEST (any other). Each failed try
 * is reported on standard error. A redirect from http to https on the same host is followed once; the API key is sent
 * only when it is known that there is none. */
enum err connection_send(
        struct server_connection *c, const struct server_request *request, struct buffer *body, struct error *e);
/* The same for a reply that is a JSON object, of at most SERVER_REPLY_MAX bytes; ERR_CORRUPT if it is none. NULL on
 * failure. The caller releases it. */
json_t *connection_ask(struct server_connection *c, const struct server_request *request, struct error *e);

#endif
