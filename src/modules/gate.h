/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests may load: `cold_requests` of them have a place, `cold_queue` more wait in line, and none may start
 * while memory is full. A free place goes to the client in line that holds fewest; shares.h bounds what one may hold.
 * Call these functions with the lock of struct modules held, except gate_above_memory. */
#ifndef MODULES_GATE_H
#define MODULES_GATE_H

#include "modules/wait.h"

enum load_result {
	LOAD_READY,   /* nothing to wait for */
	LOAD_WAIT,    /* done will be called; then call modules_load again, with the wants that are still LOAD */
	LOAD_REFUSED, /* too many requests are loading, or memory is full: 503 */
};

struct gate {
	const struct config *config;
	uint64_t places, lined; /* requests that have a place, and those in line for one */
	TAILQ_HEAD(, load_wait) line;
	uint64_t memory_max;         /* in resident bytes; constant */
	struct client_key held_back; /* the client that last had to wait, or was refused, only for what it holds */
	uint64_t held_back_count;    /* how often that happened since gate_held_back was called last */
	bool memory_full;            /* more bytes were resident; until gate_note_memory clears it */
};

void gate_init(struct gate *g, const struct config *c);

/* For a request without a place that needs a load. `starts`: one that nobody has started. LOAD_WAIT: it stands in line,
 * and its wait has begun. */
enum load_result gate_enter(struct gate *g, struct waits *waits, struct load_wait *wait, bool starts);
/* Whether a request that comes now gets a place at once; share: of its client, NULL for one that holds none. */
bool gate_has_place(const struct gate *g, const struct share *share);
/* How often a client was held back since the last call, and the last one. */
uint64_t gate_held_back(struct gate *g, struct client_key *client);
void gate_leave_line(struct gate *g, struct load_wait *wait);
/* Gives the request's place back. */
void gate_leave(struct gate *g, struct load_wait *wait);
/* Gives free places to requests in line, whose waits then end. */
void gate_admit(struct gate *g, struct waits *waits, struct wait_list *over);

/* Whether more than memory_max bytes are resident. Needs no lock. */
bool gate_above_memory(const struct gate *g);
bool gate_memory_full(struct gate *g);
/* Records whether memory is full. Returns true if it is full now or was before. */
bool gate_note_memory(struct gate *g, bool full);

#endif
