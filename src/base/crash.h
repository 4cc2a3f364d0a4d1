/* SPDX-License-Identifier: Apache-2.0 */
/* What a process says when it dies of a signal. */
#ifndef BASE_CRASH_H
#define BASE_CRASH_H

/* For the start, before the sandbox: whoever dies of a fault or abort(3) writes an event "crash" to the log, and below
 * it the stack of the thread, as glibc prints one: symbtool symbolicate --filter names its frames. The process dies of
 * the signal all the same. Signals that have a handler already, as those of a sanitizer, keep it. A stack that has
 * overflown has no room to say anything. */
void crash_catch(void);

#endif
