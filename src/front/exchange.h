/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request, as nginx passed it over FastCGI, and the reply to it. */
#ifndef FRONT_EXCHANGE_H
#define FRONT_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/client_key.h"
#include "base/config.h"
#include "base/error.h"
#include "base/help.h"
#include "base/metrics.h"
#include "base/str.h"

enum { EXCHANGE_SMALL = 256 << 10 }; /* bytes of a body, or read from it, that count as small */
enum { EXCHANGE_FRAME = 448 };       /* bytes of the arena for each of max_frames */

/* An exchange lives from the arrival of a request until its reply is written. It may pass from thread to thread, but
 * only one thread has it at a time. Opaque except for these fields. */
struct exchange {
	struct str method;   /* "GET" */
	struct str path;     /* as the client sent it: REQUEST_URI up to '?', still percent-encoded */
	struct str query;    /* what follows that, likewise */
	char request_id[64]; /* from nginx (param REQUEST_ID), or made here; goes into the log line and X-Request-Id */
	struct client_key client; /* by REMOTE_ADDR */
	struct arena *arena;      /* freed with the exchange */
	/* Another, without a bound, for one user who may empty it. Both keep a block for the next exchange, and are
	 * charged: as ACCOUNT_BODIES, and this one as ACCOUNT_REPLIES. */
	struct arena *scratch;
	const struct config *config; /* the settings in force when the request came */
	int64_t started;             /* clock_now() */
	void *user;                  /* the handler's own state, for when it is resumed */
	/* Set by a handler that parks the exchange; called, on any thread, if the process ends before a reply. Releases
	 * what `user` holds. May be NULL. */
	void (*dropped)(struct exchange *x);
	uint64_t body_charged; /* bytes of the body; given back with the exchange, or when the body is freed before */
	unsigned route;        /* for the metrics, filled by the router */
	bool health_check;     /* set by the router; logged only if the settings say so, or if it fails */
	/* for the log line, filled by the handler */
	uint64_t frames, modules, loads;
	/* A header line for exchange_reply_begin: how many frames were found and named; NULL: none. In the arena. */
	const char *frames_header;
};

/* A FastCGI parameter ("HTTP_DEBUG"), or NULL. */
const char *exchange_param(const struct exchange *x, const char *name);

/* The whole body, inflated when Content-Encoding says gzip, within max_body as received, max_body_inflated, and what
 * the buffer may hold. A refused body is drained. Errors: ERR_TOO_LARGE, ERR_BAD_REQUEST (short body, bad gzip, other
 * encodings), ERR_GONE, ERR_UNAVAILABLE (the account of memory has no room), ERR_NO_MEMORY. */
enum err exchange_read_body(struct exchange *x, struct buffer *body, struct error *e);

/* The same, but passes the body to `take` in pieces as it arrives; at most max bytes, both as received and inflated.
 * Any result of take other than ERR_OK stops it and is returned. */
enum err exchange_stream_body(struct exchange *x, uint64_t max,
        enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e), void *arg, struct error *e);

/* Gives back what is charged for the body, which its owner has freed. */
void exchange_uncharge_body(struct exchange *x);

/* Writes the reply, its log line and its metrics, and ends the exchange: x is gone. `extra` is NULL or header lines,
 * each ending in "\r\n". The body is compressed if that pays and the client accepts gzip. Content-Length, CORS,
 * X-Request-Id and Vary are added. */
void exchange_reply_text(struct exchange *x, int status, const char *content_type, const char *extra, struct str body);
/* The same in pieces, for a body that is produced while it is sent. After `begin` come exactly `length` bytes by `add`,
 * then `end`; then x is gone. The body goes out as it comes, compressed or not; `add` waits for the reader and may
 * return on another thread. Once `add` has returned false (the client went away, or out of memory) further adds do
 * nothing. A body that turns out shorter breaks the connection. */
void exchange_reply_begin(struct exchange *x, int status, const char *content_type, uint64_t length);
bool exchange_reply_add(struct exchange *x, const void *data, size_t len);
void exchange_reply_end(struct exchange *x);
/* Like exchange_reply_begin, for a body that is sent as it is stored somewhere: never compressed, and without
 * leaving the thread. `extra` must live until the first add. Of EXCHANGE_UNSIZED it is not known how long it will
 * be. If it breaks off, exchange_reply_cut takes the place of end, and breaks the connection. */
#define EXCHANGE_UNSIZED UINT64_MAX
void exchange_reply_begin_stored(
        struct exchange *x, int status, const char *content_type, const char *extra, uint64_t length);
void exchange_reply_cut(struct exchange *x);
/* Whether the client accepts a content coding ("gzip"), by name or by *. */
bool exchange_accepts(const struct exchange *x, const char *coding);
/* {"error":…,"title":…,"status":…}; 503 carries Retry-After: retry_after seconds (at least 1). */
void exchange_reply_error(struct exchange *x, const struct error *e, unsigned retry_after);
/* The same for several at once: e is the one for the log, text all of them. */
void exchange_reply_problems(struct exchange *x, const struct error *e, struct str text, unsigned retry_after);
/* The header lines that an error's status brings with it, for a reply of the caller's own. */
void exchange_error_headers(char extra[64], enum err code, unsigned retry_after);
/* As exchange_reply_error, with the caller's own header lines instead. */
void exchange_reply_refusal(struct exchange *x, const struct error *e, const char *extra);

/* Frees the thread before the reply is known. Whoever holds x calls exchange_resume later, once, from any thread; fn
 * then runs on a worker, and may park again. */
void exchange_resume(struct exchange *x, void (*fn)(struct exchange *x));
/* For who has begun a reply, and so cannot park: lets others run until exchange_wake, which comes once, from any
 * thread, perhaps before. It may return on another thread. */
void exchange_sleep(struct exchange *x);
void exchange_wake(struct exchange *x);
/* To be called now and then by whoever works for long, on the thread that has x and without locks: when a slice of
 * processor time is used up, lets those run that wait for their turn. It may return on another thread. False: the
 * client has gone, so nobody waits for the reply. */
bool exchange_turn(struct exchange *x);
/* For calls that wait for somebody else: a bucket, a store, the helper, the reader of a stored reply. Waits for a place
 * at the turnstile, without a thread and up to cold_wait; then the exchange goes on on a thread that may wait, where
 * exchange_turn lets nobody else run. ERR_BUSY: there is no place; ERR_GONE; ERR_NO_MEMORY: in any case it goes on on a
 * worker. The place is given back by exchange_leave, after which it goes on on a worker, or with the reply. */
struct turnstile;
enum err exchange_enter(struct exchange *x, struct turnstile *t, struct error *e);
void exchange_leave(struct exchange *x);
/* Set within a second after the client of one that has a place has gone. */
const atomic_bool *exchange_cancel(const struct exchange *x);
/* Workers that are idle help with the work, as long as no request waits; see struct help. */
void exchange_offer(struct exchange *x, struct help_work *w);
void exchange_take_back(struct exchange *x, struct help_work *w);
/* Whether nginx has closed the connection, so that nobody waits for the reply. Does not block; only for whoever holds
 * x. */
bool exchange_gone(const struct exchange *x);

#endif
