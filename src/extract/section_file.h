/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of an ELF file from which its DWARF is read, inflated and mapped once for all threads. If none is
 * compressed, this is the file itself, else a temporary file with only these sections. */
#ifndef EXTRACT_SECTION_FILE_H
#define EXTRACT_SECTION_FILE_H

#include <stddef.h>

#include "extract/elf_file.h"

struct section_file {
	char *bytes; /* the whole ELF file; never written to */
	size_t len;
	int fd;           /* what is mapped; only while there are bytes */
	struct view view; /* if that is a view, of which bytes and len are */
};

/* f may be closed afterwards. ERR_CORRUPT: a compressed section is damaged or of an unknown kind; ERR_IO,
 * ERR_NO_MEMORY. After a failure s is empty. */
enum err section_file_open(struct section_file *s, const struct elf_file *f, struct error *e);
/* To be called when no handle is open any more. A cleared one is empty. */
void section_file_close(struct section_file *s);
/* A handle for one thread, which must end it. Its sections are already mapped and not compressed. ERR_CORRUPT. */
enum err section_file_elf(const struct section_file *s, Elf **elf, struct error *e);
/* Gives back the memory of what was read; what is needed again comes from the file. Any thread may call it at any time.
 */
void section_file_forget(const struct section_file *s);

/* Map a part of the file a second time, at another address. The first function returns how many bytes that takes, in
 * whole pages. The second maps them at `place`, the start of a page, replacing what is mapped there, and returns
 * where the part begins, or NULL. The caller unmaps them. */
size_t section_file_window_len(const struct section_file *s, struct str part);
const char *section_file_window(const struct section_file *s, struct str part, char *place);

#endif
