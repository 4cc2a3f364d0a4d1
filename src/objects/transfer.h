/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests with libcurl: one handle per thread, limits, cancelling, no redirects into private networks. Private to
 * the store. */
#ifndef OBJECTS_TRANSFER_H
#define OBJECTS_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/config.h"
#include "base/error.h"
#include "objects/object.h"

struct transfer_request;
struct transfer_reply;

/* Texts are not owned and must outlive the handles; NULL counts as empty. */
struct transfer_settings {
	const char *user, *password; /* sent to the first host only; empty: none */
	/* Appends the headers that sign a request, each as a line "Name: value\n". They may include Host. NULL:
	 * requests are not signed. False, with e set, if signing fails: the request is not sent. */
	bool (*sign)(void *owner, const struct transfer_request *q, struct buffer *lines, struct error *e);
	/* Told of each reply that has a date, when the request was sent, and now, by this machine's clock. True: it was
	 * refused for the time of its signature, and is sent once more. NULL: nobody is told. */
	bool (*dated)(void *owner, const struct transfer_reply *reply, int64_t sent, int64_t now);
	void *owner;
	bool follow;         /* follow redirects; never when requests are signed */
	bool gzip;           /* accept gzip, and pass it on as it comes */
	const char *ca_file; /* of the authorities to be trusted; NULL: the system's */
	char *headers;       /* of every request, "Name: value\n" each; owned by the pool; NULL: none */
};

/* Sets ca_file and, unless requests are signed, headers to what the settings say about a server; with headers redirects
 * are not followed, which might lead to another's. ERR_NO_MEMORY. */
enum err transfer_settings_for(struct transfer_settings *s, const struct config *c, const char *url);

/* Whether those settings can be used. */
enum err transfer_check_settings(const struct config *c, struct error *e);

/* What all threads share for one server: limits, settings, DNS cache and TLS sessions. NULL if out of memory. */
struct transfer_pool;
struct transfer_pool *transfer_pool_new(const struct bucket_limits *limits, const struct transfer_settings *settings);
void transfer_pool_free(struct transfer_pool *p);

/* One thread's handle and its connections. NULL if out of memory. */
struct transfer;
struct transfer *transfer_new(struct transfer_pool *p);
/* Of the settings. */
void *transfer_owner(const struct transfer *t);
/* Takes a struct transfer; untyped, since it is the end of a client of any backend over HTTP. */
void transfer_free(void *transfer);

struct transfer_request {
	const char *method; /* GET, PUT, POST, DELETE */
	const char *url; /* sent as it is; in path and query everything except A-Za-z0-9-._~/ must be upper-case %XX */
	const char *lines;   /* more headers, "Name: value\n" each; may be NULL */
	const uint8_t *data; /* the body to send; not with GET and DELETE */
	size_t len;
	const char *copy_source;  /* the header x-amz-copy-source; may be NULL */
	const char *content_type; /* type of data; NULL: TRANSFER_CONTENT_TYPE */
	bool takes_long;          /* the server works before it answers: only total_timeout counts */
	int64_t limit;            /* nanoseconds for all of it, by a new connection; 0: as the pool's limits say */
	/* Receives the body of a 200, when the reply already has the head; false ends the transfer. */
	bool (*body)(void *arg, const uint8_t *data, size_t len);
	bool body_waits; /* how long it takes does not count */
	void *arg;
	const atomic_bool *cancel; /* may be NULL */
};

#define TRANSFER_CONTENT_TYPE "application/octet-stream"

enum { TRANSFER_ERROR_BODY = 1024, TRANSFER_PROBLEM = 256 };

struct transfer_reply {
	int status; /* 0: none came */
	bool whole; /* as far as HTTP can tell */
	bool cancelled;
	bool address_refused; /* of a redirect */
	bool too_large;       /* as its Content-Length says */
	bool chunked;         /* its end is marked */
	bool many_lengths;    /* more than one Content-Length; one is in head */
	struct bucket_head head;
	int64_t date;                         /* the server's clock, seconds since 1970; -1: not given, or a cache's */
	char problem[TRANSFER_PROBLEM];       /* if it is not whole; without secrets */
	char error_body[TRANSFER_ERROR_BODY]; /* the beginning of the body of another status */
	size_t error_len;
};

/* A body's receiver that appends to a struct buffer, its arg. */
bool transfer_to_buffer(void *arg, const uint8_t *data, size_t len);

/* Returns reply->whole. */
bool transfer_run(struct transfer *t, const struct transfer_request *request, struct transfer_reply *reply);

#endif
