/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A turnstile: so many at a time of something that takes long and that strangers can ask for, shared fairly by clients
 * (turns.h). Who finds no place stands in a line, in which no client has more than half while others stand there, until
 * a deadline, or until nobody waits for it any more. Standing there takes no thread. Each has a lock of its own, under
 * which nobody is called. For any thread.
 *
 * One that is `owned` is used under one lock of its owner alone, so that each `called` is called under it, too. The
 * owner ends waits himself (turnstile_withdraw), tells operators (turnstile_tell), and may read the line.
 */
#ifndef BASE_TURNSTILE_H
#define BASE_TURNSTILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/turns.h"

/* What there are turnstiles for: for the gauges, log lines and refusals. */
enum turnstile_for {
	TURNSTILE_DOWNLOADS,
	TURNSTILE_UPLOADS,
	TURNSTILE_CODE,     /* assembly and source code */
	TURNSTILE_SEGMENTS, /* where executables are loaded, for texts */
	TURNSTILE_FETCHES,  /* of files of executables */
	TURNSTILE_READS,    /* of these by the helper */
	TURNSTILE_LOADS,    /* requests that load modules */
	TURNSTILES,
};
/* "downloads", as the gauges call it. */
const char *turnstile_name(enum turnstile_for what);

enum visit_state { VISIT_NONE, VISIT_WAITS, VISIT_INSIDE, VISIT_REFUSED, VISIT_NO_MEMORY };

/* One that wants a place, has it, or was refused. The owner's, who zeroes it and sets what is his. */
struct visit {
	struct turn turn; /* his: client; and since */
	unsigned prefix;  /* his: bits of an IPv6 address that are one client */
	bool patient;     /* his: the line is never too long for it */
	/* His. Called once if turnstile_enter said VISIT_WAITS, without a lock, on any thread, when `state` is another.
	 * NULL: the owner is in turnstile_wait. */
	void (*called)(struct visit *v);
	bool (*gone)(const struct visit *v); /* his: whether nobody waits for it any more; may be NULL */
	int64_t until;                       /* his: clock_now(), when it is refused */
	enum visit_state state;              /* not to be read while it waits */
	struct turn_client *holder;          /* inside */
	TAILQ_ENTRY(visit) next;             /* in the line, or of those to be called */
};
TAILQ_HEAD(visit_list, visit);

struct turnstile {
	pthread_mutex_t lock;
	enum turnstile_for what;
	bool owned;
	unsigned prefix; /* of the visit that came last */
	struct turns turns;
	struct visit_list line;
	unsigned line_length, line_max;
	int64_t told;           /* clock_now() of the last log line; 0: none yet */
	unsigned lacking;       /* refused since then because all places were taken */
	pthread_cond_t changed; /* for those in turnstile_wait */
	LIST_ENTRY(turnstile) all;
};

void turnstile_init(struct turnstile *t, enum turnstile_for what, unsigned places, unsigned line_max, bool owned);
/* Nobody may be inside or in the line. */
void turnstile_release(struct turnstile *t);
/* How many there may be from now on; whose turn it is gets one that is free. */
void turnstile_set_places(struct turnstile *t, unsigned places);

/* VISIT_INSIDE: it has a place, until turnstile_leave. VISIT_REFUSED: the line is full. VISIT_NO_MEMORY. VISIT_WAITS:
 * `called` follows. */
enum visit_state turnstile_enter(struct turnstile *t, struct visit *v);
/* The same for a thread that has nothing else to do; it waits until v->until. False: refused, or *cancel (may be NULL)
 * was set. Notices within a second. */
bool turnstile_wait(struct turnstile *t, struct visit *v, const atomic_bool *cancel);
/* Gives the place of one that is inside to the next. */
void turnstile_leave(struct turnstile *t, struct visit *v);

/* Takes one out of the line, refused or because it needs no place any more. What shares others have for that counts
 * from the next call on. */
void turnstile_withdraw(struct turnstile *t, struct visit *v, bool refused);
/* Whether a client that has no place would get one at once. */
bool turnstile_has_place(struct turnstile *t);
/* Tells operators who was held back or refused, at most once a minute. May write to the log, so call it without locks.
 * Not needed but for those that are owned. */
void turnstile_tell(struct turnstile *t);

/* Of all turnstiles but those that are owned: refuses who stands in a line and is late, or has gone. To be called a few
 * times a second while anybody stands in one with `called`. */
void turnstiles_tick(int64_t now);

#endif
