/* SPDX-License-Identifier: Apache-2.0 */
/* What the front and the exchanges know of each other; handlers include exchange.h only. */
#ifndef FRONT_EXCHANGE_PRIVATE_H
#define FRONT_EXCHANGE_PRIVATE_H

#include <stddef.h>
#include <sys/queue.h>

#include "base/turnstile.h"
#include "front/exchange.h"
#include "front/fcgi_request.h"

struct front;
struct connection;
struct fiber;
struct worker;

/* What a paused exchange waits for. */
enum pause {
	PAUSE_TURN,   /* its turn */
	PAUSE_READER, /* that its connection takes more of the reply */
	PAUSE_SLEEP,  /* exchange_wake */
	PAUSE_ERRAND, /* a thread that may wait */
};

/* A reply that is being sent. */
struct reply {
	int status;
	const char *content_type, *extra;
	const struct error *error; /* for the log; NULL: none */
	uint64_t length, left;     /* bytes of the body as sent; bytes still to be added */
	struct gzip *gzip;         /* NULL: the body is sent uncompressed */
	bool gzipped;
	bool stored;    /* sent as it is */
	bool ending;    /* an unsized body is whole */
	bool begun;     /* the head has been sent, or could not be */
	bool good;      /* everything so far has been sent */
	int64_t waited; /* how long its reader was waited for */
	uint64_t taken; /* bytes that the connection had taken when it was last waited for */
	bool slow;      /* it was given up because its reader was too slow */
};

struct exchange_private {
	struct exchange x; /* first: a pointer to one is a pointer to the other */
	struct front *front;
	struct connection *connection;
	struct fcgi_request *fcgi;
	struct arena arena, scratch;
	void (*resumed)(
	        struct exchange *x); /* what a worker runs: its handler, or when it is resumed what was asked for */
	STAILQ_ENTRY(exchange_private) next; /* in the front's free list, or in the queue of errands */
	struct turn turn;
	struct worker *worker; /* which runs it; NULL: a thread of errands */
	struct fiber *fiber;   /* on which it runs or has paused */
	bool paused;
	bool asleep, woken; /* with PAUSE_SLEEP; exchange_wake came before it. Under the front's lock */
	enum pause why;
	int64_t look_at,
	        slice_time; /* when to look whether the slice is over; the thread's time when its half was over */
	LIST_ENTRY(exchange_private) readers; /* with PAUSE_READER */
	int64_t paused_at;                    /* since when it waits for its reader */
	int64_t patience;                     /* how long its reader may be waited for */
	struct turnstile *turnstile;          /* at which it has a place or waits for one; NULL: none */
	struct visit visit;
	atomic_bool gone; /* nobody waits for its reply, as was seen while it was there */
	TAILQ_ENTRY(exchange_private) visitors;
	struct reply reply;
	uint64_t bytes_in, bytes_out; /* of the bodies, as sent */
	bool body_ended, broken;      /* the whole body has been read; reading has failed */
	bool keep;                    /* the connection may carry another request */
};

static inline struct exchange_private *exchange_private(const struct exchange *x)
{
	return (struct exchange_private *)x;
}

static inline struct exchange_private *exchange_of(struct turn *turn)
{
	return (struct exchange_private *)((char *)turn - offsetof(struct exchange_private, turn));
}

static inline struct exchange_private *exchange_of_visit(struct visit *visit)
{
	return (struct exchange_private *)((char *)visit - offsetof(struct exchange_private, visit));
}

/* exchange.c */

/* NULL if out of memory. */
struct exchange_private *exchange_new(void);
void exchange_free(struct exchange_private *p);
/* Begins an exchange on a readable connection; false: there is no request, and fd is closed. */
bool exchange_begin(struct exchange_private *p, const struct config *c, int fd);
/* Reads the rest of the body, within bounds; false if there may be more. */
bool exchange_drain(struct exchange_private *p);
/* Ends the exchange, whether or not it has a reply; p can be reused. Returns the connection if p->keep is set, or -1:
 * it is closed. */
int exchange_end(struct exchange_private *p);

/* front.c */

/* Whether connections are kept, which they are not while the front drains. */
bool front_keeps(const struct front *f);
/* Lets others run, until what it waits for has come. To be called on the fiber of p. False: out of memory, so it has
 * not paused. */
bool front_pause(struct exchange_private *p, enum pause why);
/* The reply of p is written: its connection waits for the next request, and p returns to the front. */
void front_release(struct exchange_private *p);

#endif
