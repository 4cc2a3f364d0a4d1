/* SPDX-License-Identifier: Apache-2.0 */
/* A small FastCGI client, as a web server is one: for the tests of the front. Every wait is bounded. */
#ifndef FCGI_CLIENT_H
#define FCGI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIENT_PARAMS = 16 };

struct client_request {
	const char *method, *uri;
	const char *params[CLIENT_PARAMS][2]; /* more of them; ended by a NULL */
	const void *body;
	size_t body_len;
	const char *length; /* CONTENT_LENGTH; NULL: that of the body; "": none */
	unsigned id;        /* 0: 1 */
	bool close;         /* FCGI_KEEP_CONN is not set */
	bool no_end;        /* the end of the body is not sent */
};

struct client_reply {
	char *data; /* what came on STDOUT, and a NUL */
	size_t len, cap;
	bool ended; /* by END_REQUEST */
	bool sound; /* all records were of this request and of a known type */
	int status;
	const char *body;
	size_t body_len;
};

/* A connection to a unix socket; -1 when it is refused. */
int client_connect(const char *path);
/* False when the peer does not take it. */
bool client_send(int fd, const struct client_request *q);
bool client_send_raw(int fd, const void *data, size_t n);
/* Reads a reply to its end, or to that of the connection. pause: microseconds between two reads. */
void client_read(int fd, struct client_reply *r, unsigned id, unsigned pause);
/* The value of a header, up to the end of its line, in out; false when there is none. */
bool client_header(const struct client_reply *r, const char *name, char *out, size_t size);
void client_reply_release(struct client_reply *r);
/* Whether the peer closes the connection, without having sent anything. */
bool client_is_closed(int fd);

#endif
