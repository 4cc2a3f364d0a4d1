/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that give way to others. */
#ifndef BASE_NICE_H
#define BASE_NICE_H

/* Lowers the calling thread's priority by this many steps (1 to 19) below its current one. A process that was started
 * with a low priority never raises its own. */
void give_way(int steps);

#endif
