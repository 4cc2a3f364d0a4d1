/* SPDX-License-Identifier: Apache-2.0 */
/* One file: what it says about its code goes to the server, record by record. */
#ifndef HELPER_JOB_H
#define HELPER_JOB_H

#include "elf/packet.h"

/* Enters the cage and works; the last packet tells how it ended. file is closed. One at a time in a process. */
void job_run(int socket, int file, const struct job_limits *l);

#endif
