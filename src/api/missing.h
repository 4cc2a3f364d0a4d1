/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the modules that requests ask for in vain. */
#ifndef API_MISSING_H
#define API_MISSING_H

#include "front/exchange.h"

void missing_note_request(const struct exchange *x, struct str name, struct str id);
/* Tells other hosts, now and then, if there is anything new. To be called after notes, and by health checks, so that
 * the last note does not wait for another request. */
void missing_share_soon(void);

#endif
