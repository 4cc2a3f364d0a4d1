/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a job from anything but its work: limits of memory, time and files, and a list of the system calls that it
 * may make. */
#ifndef HELPER_CAGE_H
#define HELPER_CAGE_H

#include "base/error.h"
#include "elf/packet.h"

/* For the calling process and its threads, for good. It ends by SIGXCPU when it has used its time; the server also
 * looks at the clock. ERR_UNAVAILABLE: there is no filter of system calls, though the limits ask for one. */
enum err cage_enter(const struct job_limits *l, struct error *e);

#endif
