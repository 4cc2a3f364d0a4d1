/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the modules that requests ask for in vain. */
#ifndef API_MISSING_H
#define API_MISSING_H

#include "base/error.h"
#include "front/exchange.h"

void missing_note_request(const struct exchange *x, struct str name, struct str id);

/* A thread that tells other hosts what is new: memcached may let it wait. Start it after the services, stop it after
 * the front and before the services. */
enum err missing_start(struct error *e);
void missing_stop(void);

#endif
