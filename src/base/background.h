/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that give way to requests.
 *
 * They run as SCHED_IDLE (sched(7)): on a core that nothing else wants, and a thread that is woken takes the core from
 * them at once. A busy machine would starve them, so together they are owed a share of a core (background_share) for
 * each load:
 *
 *      they are owed time, it wants a core, and its turn came
 *   SCHED_IDLE ---------------------------------------> SCHED_OTHER, its nice value
 *              <---------------------------------------
 *              they have had it, or it sleeps
 *
 * To come back from SCHED_IDLE a process needs CAP_SYS_NICE or a limit on nice values that allows it (RLIMIT_NICE;
 * LimitNICE= of systemd). Without either, the threads only have a lower priority, and none where they are owed 10
 * percent or more. */
#ifndef BASE_BACKGROUND_H
#define BASE_BACKGROUND_H

#include <stdbool.h>

/* Before any thread enters: notes the process's nice value, and tries whether there is a way back. `percent` of a core
 * is what they are owed; 100: they are like any other thread. */
void background_begin(unsigned percent);

/* The calling thread is one of them until background_leave. helps: it works for a load that has a thread of its own;
 * both are owed one share. If that is less than 10 percent, its nice value is 10 above the process's for good, at most
 * 19. Does nothing if the process did not begin, or at 100 percent. Call it once a thread. */
void background_enter(bool helps);

/* Before a thread that entered ends. */
void background_leave(void);

/* To be called by long work between two steps, of a few hundred microseconds at most; on any thread, cheap. A
 * thread that is SCHED_IDLE lets others have the core if it has run for a while, and so does one that is lifted, unless
 * much is owed. The kernel gives them a core that others want now and then, and would take it away only at its next
 * tick: 4 ms later, at 250 Hz. */
void background_give_way(void);

/* To be called every 100 ms, by a thread that did not enter and takes no lock that those hold: a thread that starves
 * may hold one. Takes some microseconds a thread. */
void background_tick(void);

#endif
