/* SPDX-License-Identifier: Apache-2.0 */
/* What an ELF file begins with that is put together from sections. */
#ifndef EXTRACT_ELF_WRITE_H
#define EXTRACT_ELF_WRITE_H

#include <gelf.h>

#include "base/buffer.h"

enum { ELF_WRITE_MAX = 4096 }; /* bytes for up to 20 sections with names as those of DWARF */

struct elf_part {
	const char *name;
	uint64_t at, len; /* in the file, in bytes */
};

/* Appends the header of the file, those of its sections, and their names, which are in section 1. Class, byte order,
 * machine and flags are those of `like`. */
void elf_write_headers(struct buffer *out, const GElf_Ehdr *like, const struct elf_part *parts, size_t count);

#endif
