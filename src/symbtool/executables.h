/* SPDX-License-Identifier: Apache-2.0 */
/* Which executables a command line is about. */
#ifndef SYMBTOOL_EXECUTABLES_H
#define SYMBTOOL_EXECUTABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct executable {
	char *path;
	bool found;            /* below a directory; else it was named */
	uint64_t device, node; /* so that a file with several names is there once */
};

/* Zeroed at first. */
struct executables {
	struct executable *items;
	size_t count, cap;
	size_t others; /* files below directories that are none, debug files among them */
};

void executables_release(struct executables *x);
/* A file, or everything below a directory, in the order of the names. Symbolic links are not followed there, and what
 * cannot be read is counted with the others. ERR_IO, ERR_NO_MEMORY; ERR_BAD_REQUEST: a directory without recursive. */
enum err executables_add(struct executables *x, const char *path, bool recursive, struct error *e);

#endif
