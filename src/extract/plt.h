/* SPDX-License-Identifier: Apache-2.0 */
/* The stubs by which a program calls functions of other files (x86-64, aarch64). */
#ifndef EXTRACT_PLT_H
#define EXTRACT_PLT_H

#include <libelf.h>

#include "extract/code_map.h"

struct plt_stub {
	uint64_t start, end;
	const char *symbol; /* of the function that it jumps to; lives as long as the file is open */
};

/* By address; the caller frees *stubs. None, if there are none or the machine is another. ERR_NO_MEMORY. */
enum err plt_read(Elf *elf, const struct code_map *code, struct plt_stub **stubs, size_t *count, struct error *e);

#endif
