/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of an ELF file that is put together from sections. Section 0 is none, section 1 has the names. */
#ifndef EXTRACT_ELF_WRITE_H
#define EXTRACT_ELF_WRITE_H

#include <gelf.h>

#include "base/buffer.h"

enum { ELF_WRITE_HEADER_MAX = 64, ELF_WRITE_SECTION_MAX = 64 }; /* bytes of the two below */

/* Class, byte order, machine and flags are those of `like`. sections: where the
 * section headers begin in the file; count: how many there are. */
void elf_write_header(struct buffer *out, const GElf_Ehdr *like, uint64_t sections, unsigned count);
/* name: its offset in section 1. at, len: in the file, in bytes. */
void elf_write_section(
        struct buffer *out, const GElf_Ehdr *like, uint64_t name, uint32_t type, uint64_t at, uint64_t len);

#endif
