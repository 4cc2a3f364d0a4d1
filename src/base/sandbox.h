/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox that the process puts itself into: system calls that it never needs are refused. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include "base/error.h"

/* For the calling thread and all that it starts later; there is no way back. ERR_UNAVAILABLE: the kernel cannot, or
 * libseccomp was not there when this was built. */
enum err sandbox_enter(struct error *e);

#endif
