/* SPDX-License-Identifier: Apache-2.0 */
/* The executables that a command line names, and symbol files. */
#ifndef SYMBTOOL_EXECUTABLES_H
#define SYMBTOOL_EXECUTABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "symbfile/build_id.h"
#include "symbtool/file_kind.h"

struct executable {
	char *path;
	struct build_id slice; /* of a universal Mach-O file; len 0: it is none */
	struct build_id id;    /* of a program, library or debug file of Windows or macOS */
	bool debug;            /* a PDB or dSYM file, without code */
	char *debug_file;      /* the one of its id that was named or found, too; NULL: none */
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
	size_t other_kinds[OTHER_KINDS];
};

void executables_release(struct executables *x);
/* Adds a file, or everything below a directory, ordered by name. Symbolic links are not followed there, and unreadable
 * files count as others. ERR_IO, ERR_NO_MEMORY; ERR_BAD_REQUEST: a directory without recursive. */
enum err executables_add(struct executables *x, const char *path, bool recursive, struct error *e);

/* "3 texts, 1 empty file": the kinds of the others, for people; empty if there are none. */
enum { OTHERS_TEXT = 256 };
void executables_others(char out[OTHERS_TEXT], const struct executables *x);

/* Once all are there: a PDB or dSYM file whose program is there, too, becomes the program's. */
void executables_pair(struct executables *x);

#endif
