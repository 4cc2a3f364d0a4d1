/* SPDX-License-Identifier: Apache-2.0 */
/* A line on a terminal that shows the progress of long work. */
#ifndef SYMBTOOL_PROGRESS_H
#define SYMBTOOL_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *label;
	const char *unit;
	_Atomic int64_t total; /* 0: unknown */
	bool on;               /* standard error is a terminal */
	int64_t started;
	_Atomic int64_t done, next; /* next: when to draw it again */
	pthread_mutex_t lock;       /* of drawing */
	bool drawn;
};

/* The label is not copied. Nothing is drawn during the first half second. */
void progress_begin(struct progress *p, const char *label, const char *unit, uint64_t total);
/* From any thread; n may be negative, if something starts again. */
void progress_add(struct progress *p, int64_t n);
/* The total grows, or shrinks, by this much. */
void progress_resize(struct progress *p, int64_t n);
/* Removes the line. */
void progress_end(struct progress *p);

#endif
