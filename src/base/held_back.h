/* SPDX-License-Identifier: Apache-2.0 */
/* Tells operators of clients that are held back: a counter, and a line at most once a minute. For any thread. */
#ifndef BASE_HELD_BACK_H
#define BASE_HELD_BACK_H

#include <stdint.h>

#include "base/client_key.h"

/* `count` requests waited, or were refused, only because their client holds much already; `prefix`: bits of an IPv6
 * address that are one client. May write to the log, so call it without locks. */
void held_back_note(struct client_key client, uint64_t count, unsigned prefix);

#endif
