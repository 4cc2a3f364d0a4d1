/* SPDX-License-Identifier: Apache-2.0 */
/* The executables that a command line names, and symbol files. */
#ifndef SYMBTOOL_EXECUTABLES_H
#define SYMBTOOL_EXECUTABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct executable {
	char *path;
	bool sym;              /* a symbol file, or a ZIP of them, by its name */
	bool found;            /* found below a directory; otherwise it was named */
	uint64_t device, node; /* so that a file with several names is listed once */
};

/* Zeroed at first. */
struct executables {
	struct executable *items;
	size_t count;
	uint32_t cap;
	size_t others; /* files below directories that are not executables, or are debug files */
};

void executables_release(struct executables *x);
/* Adds a file, or everything below a directory, ordered by name. Symbolic links are not followed there, and unreadable
 * files count as others. ERR_IO, ERR_NO_MEMORY; ERR_BAD_REQUEST: a directory without recursive. */
enum err executables_add(struct executables *x, const char *path, bool recursive, struct error *e);

#endif
