/* SPDX-License-Identifier: Apache-2.0 */
/* The status pages' own thread: it asks the backends, so that no worker waits for one that is down. */
#ifndef API_STATUS_H
#define API_STATUS_H

#include "base/error.h"

/* Start it after the services, whose backends it asks, and before the front. */
enum err status_start(struct error *e);
/* Stop it after the front and before the services. */
void status_stop(void);

#endif
