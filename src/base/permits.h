/* SPDX-License-Identifier: Apache-2.0 */
/* Permits to run: of a pool's threads only a few are awake at a time, since on as many cores more of them would only
 * take turns. A thread that waits for somebody else, or works for long, gives its permit to another first. A semaphore
 * holds them, since that has no lock whose holder could lose its core. */
#ifndef BASE_PERMITS_H
#define BASE_PERMITS_H

#include <semaphore.h>
#include <stdbool.h>

/* The calling thread gets a permit, unless it has one; it waits for it. */
void permit_take(sem_t *permits);
/* Gives the calling thread's permit back, if it has one. For any thread, at any time. */
void permit_give(void);
/* Whether the calling thread has one. */
bool permit_held(void);
/* There is one for each of the threads from now on, so none of them waits. */
void permits_end(sem_t *permits, unsigned threads);

#endif
