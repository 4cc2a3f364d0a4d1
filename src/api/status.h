/* SPDX-License-Identifier: Apache-2.0 */
/* The status pages' own thread: it asks the backends, so that no worker waits for one that is down. */
#ifndef STATUS_H
#define STATUS_H

#include "base/error.h"

/* After the services, whose backends it asks. */
enum err status_start(struct error *e);
/* After the front and before the services. */
void status_stop(void);

#endif
