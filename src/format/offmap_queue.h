/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded queue of symbols to a thread of its own, which works on them in order. Private to the offset map's builder.
 */
#ifndef FORMAT_OFFMAP_QUEUE_H
#define FORMAT_OFFMAP_QUEUE_H

#include "format/offmap_flat.h"

struct symbol_queue;

/* work is called on the thread. NULL: no memory, or no thread to be had. */
struct symbol_queue *symbol_queue_start(void (*work)(void *arg, struct parsed_symbol *s), void *arg);
/* Waits until all is worked on, ends the thread and frees the queue; NULL is fine. */
void symbol_queue_stop(struct symbol_queue *q);

/* The symbol to be filled next, as it was left by another; waits for room. The same one until it is put. */
struct parsed_symbol *symbol_queue_next(struct symbol_queue *q);
void symbol_queue_put(struct symbol_queue *q);
/* Waits until all is worked on. What the thread did is seen by the caller, and the other way round. */
void symbol_queue_drain(struct symbol_queue *q);

#endif
