/* SPDX-License-Identifier: Apache-2.0 */
/* Every damaged line of a Breakpad symbol file, and why it cannot be read. */
#ifndef SYMBTOOL_CHECK_SYM_H
#define SYMBTOOL_CHECK_SYM_H

#include <stdbool.h>

#include "base/error.h"

/* Prints what the file contains, and what is wrong with it. ERR_IO, ERR_NO_MEMORY; ERR_CORRUPT when no line could be
 * read. What is wrong further on is no error. */
enum err check_sym(const char *path, bool json, bool *sound, struct error *e);

#endif
