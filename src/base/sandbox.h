/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox that the process enters: system calls that it never needs are refused. */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include "base/error.h"

/* Applies to the calling thread and all threads it starts later, for good. ERR_UNAVAILABLE: the kernel cannot do it, or
 * this was built without libseccomp. */
enum err sandbox_enter(struct error *e);

#endif
