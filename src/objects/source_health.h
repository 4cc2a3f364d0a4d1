/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a source answers. A transfer that fails makes it suspect, and then a thread of its own asks it, one request
 * at a time, for an object that cannot exist:
 *
 *   WELL ──► SUSPECT ──► ILL        the thread's request failed, too
 *     ▲─────────┘         │
 *     └───────────────────┘         it is answered: within a second of the source's return; or a transfer succeeds
 *
 * Private to objects.
 */
#ifndef OBJECTS_SOURCE_HEALTH_H
#define OBJECTS_SOURCE_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct source_health;

/* Asks the source, for `limit` nanoseconds at most; *cancel ends that within about a second. ERR_OK: it answers. */
typedef enum err source_asks(void *arg, unsigned source, int64_t limit, const atomic_bool *cancel, struct error *e);

/* source: its number, for the gauge and for `ask`; name: for the log, not owned. longest: the most that a request of
 * the thread may take, in nanoseconds. NULL if out of memory. */
struct source_health *source_health_new(
        unsigned source, const char *name, int64_t longest, source_asks *ask, void *arg);
/* Ends the thread. NULL is fine. */
void source_health_free(struct source_health *h);

/* A transfer failed; it had taken so many nanoseconds. */
void source_health_failed(struct source_health *h, int64_t taken);
/* One succeeded; its first bytes came after so many. Some sources answer each request for an object that they lack as
 * if they failed. */
void source_health_gave(struct source_health *h, int64_t taken);
/* It took so many to say that it lacks an object. The thread does not expect to be answered sooner, nor sooner than
 * sources give what they have. */
void source_health_lacks(struct source_health *h, int64_t taken);
/* Whether it is worth a request while another source can answer: it is not ill, nor suspect of being slow to fail. */
bool source_health_is_good(struct source_health *h);
/* Whether it is ill; then e gets why. */
bool source_health_is_ill(struct source_health *h, struct error *e);
/* Whether it was ill and, as the thread that asks it says, has been well again since then, a clock_now(). */
bool source_health_returned(struct source_health *h, int64_t since);
/* Whether the caller may ask it although it is ill, as one request at a time may. Then source_health_end follows. */
bool source_health_begin(struct source_health *h);
void source_health_end(struct source_health *h);

#endif
