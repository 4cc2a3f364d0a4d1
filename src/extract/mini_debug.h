/* SPDX-License-Identifier: Apache-2.0 */
/* The symbol table that distributions leave in stripped programs: an ELF file within one, compressed by xz
 * (.gnu_debugdata, "MiniDebugInfo"). */
#ifndef EXTRACT_MINI_DEBUG_H
#define EXTRACT_MINI_DEBUG_H

#include <libelf.h>

#include "base/error.h"
#include "base/str.h"

struct mini_debug {
	char *bytes;
	Elf *elf; /* NULL: there is none */
};

/* ERR_CORRUPT: it is damaged, or needs more memory than any real table; ERR_NO_MEMORY. On failure there is nothing to
 * close. */
enum err mini_debug_open(struct mini_debug *m, Elf *elf, struct error *e);
void mini_debug_close(struct mini_debug *m);

/* Inflates xz into *out, which the caller frees. ERR_CORRUPT, ERR_NO_MEMORY. */
enum err xz_inflate(struct str in, char **out, size_t *len, struct error *e);

#endif
