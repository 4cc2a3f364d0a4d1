/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that give way to others. */
#ifndef BASE_NICE_H
#define BASE_NICE_H

/* The calling thread has a priority that is so many steps (1 to 19) below the one it had, at most the lowest. So a
 * process that was started with a low priority never raises its own. */
void give_way(int steps);

#endif
