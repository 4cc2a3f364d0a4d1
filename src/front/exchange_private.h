/* SPDX-License-Identifier: Apache-2.0 */
/* What the front and the exchanges know of each other; handlers see exchange.h only. */
#ifndef EXCHANGE_PRIVATE_H
#define EXCHANGE_PRIVATE_H

#include <sys/queue.h>

#include "front/fcgi_request.h"
#include "front/exchange.h"

struct front;
struct connection;

/* A reply on its way. */
struct reply {
	int status;
	const char *content_type, *extra;
	const struct error *error; /* for the log; NULL: none */
	uint64_t length, left;     /* of the body as it goes out; what has still to be given */
	struct gzip *gzip;         /* compresses it; NULL: it goes out as it comes */
	bool gzipped;
	bool good; /* all that was given has gone out */
	int64_t deadline;
};

struct exchange_private {
	struct exchange x; /* first: a pointer to one is a pointer to the other */
	struct front *front;
	struct connection *connection;
	struct fcgi_request *fcgi;
	struct arena arena;
	void (*resumed)(struct exchange *x); /* what a worker is to run */
	STAILQ_ENTRY(exchange_private) next; /* in the front's queue or its free list */
	struct reply reply;
	uint64_t bytes_in, bytes_out; /* of the bodies, as sent */
	bool body_ended, broken;      /* all of the body is read; it cannot be read on */
};

static inline struct exchange_private *exchange_private(const struct exchange *x)
{
	return (struct exchange_private *)x;
}

/* exchange.c */

/* NULL without memory. */
struct exchange_private *exchange_new(void);
void exchange_free(struct exchange_private *p);
/* Begins an exchange on a connection that is readable; false: there is none, and fd is closed. */
bool exchange_begin(struct exchange_private *p, const struct config *c, int fd);
/* Reads what is left of the body, within bounds; false when there may be more. */
bool exchange_drain(struct exchange_private *p);
/* Ends it: p is ready for another. Returns the connection, or -1 when it is closed. */
int exchange_end(struct exchange_private *p, bool keep);
/* Likewise without a reply. */
void exchange_drop(struct exchange_private *p);

/* front.c */

/* The reply of p is written: its connection goes back to the others, p to the front. */
void front_release(struct exchange_private *p, bool good);

#endif
