/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of an ELF file that its DWARF is read from, inflated and mapped once for all threads.
 * Without compressed sections that is the file itself, else a temporary file with these sections only. */
#ifndef EXTRACT_SECTION_FILE_H
#define EXTRACT_SECTION_FILE_H

#include <stddef.h>

#include "extract/elf_file.h"

struct section_file {
	char *bytes; /* the whole ELF file; never written to */
	size_t len;
};

/* f may be closed behind it. ERR_CORRUPT: a compressed section is damaged or of an unknown kind; ERR_IO, ERR_NO_MEMORY.
 * After a failure s is empty. */
enum err section_file_open(struct section_file *s, const struct elf_file *f, struct error *e);
/* When no handle is open any more. A cleared one is empty. */
void section_file_close(struct section_file *s);
/* A handle for one thread, which it ends. Its sections are mapped already, none is compressed. ERR_CORRUPT. */
enum err section_file_elf(const struct section_file *s, Elf **elf, struct error *e);
/* Gives the memory of what was read back; what is needed again comes from the file. From any thread, at any time. */
void section_file_forget(const struct section_file *s);

#endif
