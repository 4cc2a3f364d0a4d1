/* SPDX-License-Identifier: Apache-2.0 */
/* An ELF file open for reading, its sections by name, and its debug companion. Files of Windows and macOS are read by
 * a view of them as ELF. */
#ifndef EXTRACT_ELF_FILE_H
#define EXTRACT_ELF_FILE_H

#include <libelf.h>
#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "extract/view.h"

struct elf_file {
	int fd;
	Elf *elf;
	struct view view; /* bytes NULL: the file is ELF itself */
};

/* ERR_IO: cannot be read; ERR_CORRUPT: no ELF executable or library. */
enum err elf_file_open(struct elf_file *f, const char *path, struct error *e);
/* The same of a file that belongs to another, or of a slice; wanted: NULL, or as view_open has it. */
enum err elf_file_open_as(struct elf_file *f, const char *path, const struct view_wanted *wanted, struct error *e);
/* Also of other types of ELF files, such as relocatable ones. Files that are not ELF have no symbols then. */
enum err elf_file_open_any(struct elf_file *f, const char *path, struct error *e);
void elf_file_close(struct elf_file *f);
/* NULL: no such section. A ".debug_" section may be there in its old compressed form, as ".zdebug_". */
Elf_Scn *elf_find_section(Elf *elf, const char *name);
/* The bytes of a section, empty when there is none. libdw has inflated the sections that it knows. */
struct str elf_section_bytes(Elf *elf, const char *name);
bool elf_is_big(Elf *elf); /* big-endian */
/* Whether it has DWARF of its own. */
bool elf_has_dwarf(Elf *elf);

/* How an ELF file's build id makes a debug id: enum view_kind, or 0 for ELF's own way. */
unsigned elf_view_kind(Elf *elf);

/* Finds the file with the debug data of f (which is at path), by build id below debug_dir, else by .gnu_debuglink
 * beside f, in .debug there, and below debug_dir. Only a file with the same build id, or else checksum, counts.
 * If there is none, found is a file of another build in its place, or empty. */
bool debug_file_find(const struct elf_file *f, const char *path, const char *debug_dir, char found[PATH_MAX]);
/* False: the build ids of the two differ. */
bool debug_file_fits(const struct elf_file *f, const struct elf_file *debug);

#endif
