/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of ELF files that are put together from sections, in the class and byte order of their first bytes. */
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

/* The header of a file; one of a section of a file with the header `like`. */
void elf_write_header(struct buffer *out, const GElf_Ehdr *h);
void elf_write_section(struct buffer *out, const GElf_Ehdr *like, const GElf_Shdr *s);

#endif
