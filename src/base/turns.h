/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is to get a place: what waits is served in turn by client, and of each client alternately the oldest
 * that is new and the oldest that has begun: so what has begun ends soon, and few hold memory at a time. While another
 * client waits none holds more than half of the places, and the last quarter is for clients that hold none. The front
 * gives its workers so, and turnstile.h everything else. The caller has the lock.
 */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/client_key.h"

enum { TURNS_CHAINS = 1024 };

/* What waits. */
struct turn {
	struct client_key client;
	bool begun;    /* it has had a turn */
	bool held;     /* it was noted that it waits since its client holds many */
	int64_t since; /* its age */
	TAILQ_ENTRY(turn) next;
};
TAILQ_HEAD(turn_list, turn);

/* A client that holds places or waits for one. */
struct turn_client {
	struct client_key key;
	unsigned held, waiting;
	struct turn_list fresh, begun;  /* the oldest first */
	bool after_begun;               /* the turn before was that of one that had begun */
	TAILQ_ENTRY(turn_client) order; /* if it waits: in the order of turns */
	LIST_ENTRY(turn_client) chain;  /* by key, or of those that are free */
};

struct turns {
	unsigned places, busy;
	struct client_key held_back; /* whose turn was the last that is `held`, */
	unsigned held_back_count;    /* of so many; reset by whoever tells of it */
	uint64_t seed;
	TAILQ_HEAD(, turn_client) order; /* those that wait */
	LIST_HEAD(turn_chain, turn_client) chains[TURNS_CHAINS], free;
};

void turns_init(struct turns *t, unsigned places, uint64_t seed);
void turns_destroy(struct turns *t);
/* Makes room for one more that may wait or hold a place; so nothing below needs memory. False: there is none. */
bool turns_grow(struct turns *t);
/* One fewer. */
void turns_shrink(struct turns *t);

/* It waits from now on. */
void turns_add(struct turns *t, struct turn *turn);
/* It waits no longer. */
void turns_drop(struct turns *t, struct turn *turn);
/* How many of a client wait. */
unsigned turns_waiting(const struct turns *t, struct client_key client);
/* Whose turn it is; it no longer waits, and *client holds one place more. NULL: nobody may have one. */
struct turn *turns_next(struct turns *t, struct turn_client **client);
/* The same of those alone for which `may` is true; the others keep their turn. */
struct turn *turns_next_that(
        struct turns *t, bool (*may)(const struct turn *turn, void *arg), void *arg, struct turn_client **client);
/* One that waits has to, although places are free, since its client holds many. It counts once. */
void turns_note_held_back(struct turns *t, struct turn *turn);
/* Whether turns_next would give one. */
bool turns_ready(const struct turns *t);
/* The client holds one place less. */
void turns_done(struct turns *t, struct turn_client *client);
/* Any that waits, whoever may have a place; it no longer waits. */
struct turn *turns_remove(struct turns *t);

#endif
