/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests may load: `cold_requests` have a place, `cold_queue` more wait for one in line, and none is let in
 * while memory is full. Whoever calls these functions holds the lock of struct modules, but for gate_above_memory. */
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
	uint64_t places, lined; /* requests that have a place, and that wait for one */
	TAILQ_HEAD(, load_wait) line;
	uint64_t memory_max; /* resident bytes; never changes */
	bool memory_full;    /* there are more, until gate_note_memory */
};

void gate_init(struct gate *g, const struct config *c);

/* What a request without a place gets that needs something loaded; `starts`: that nobody loads yet. LOAD_WAIT: it
 * stands in line, and its wait has begun. */
enum load_result gate_enter(struct gate *g, struct waits *waits, struct load_wait *wait, bool starts);
void gate_leave_line(struct gate *g, struct load_wait *wait);
/* It gives its place back. */
void gate_leave(struct gate *g, struct load_wait *wait);
/* Gives free places to those that wait for them. */
void gate_admit(struct gate *g, struct waits *waits, struct wait_list *over);

/* Whether there are more bytes than memory_max. Without the lock. */
bool gate_above_memory(const struct gate *g);
bool gate_memory_full(struct gate *g);
/* Whether it is full. True if it is, or was until now. */
bool gate_note_memory(struct gate *g, bool full);

#endif
