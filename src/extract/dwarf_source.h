/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the DWARF of an executable, and the file with which it shares entries (dwz -m), for any number of
 * threads. */
#ifndef EXTRACT_DWARF_SOURCE_H
#define EXTRACT_DWARF_SOURCE_H

#include <elfutils/libdw.h>
#include <stdatomic.h>

#include "base/buffer.h"
#include "extract/ids.h"
#include "extract/section_file.h"
#include "extract/split.h"

enum { ALTERNATE_NAME_MAX = 256 };

struct dwarf_source {
	struct section_file main, alternate; /* alternate: may be empty */
	char missing[ALTERNATE_NAME_MAX];    /* the name of the alternate if it is needed and was not found */
	uint8_t missing_id[BUILD_ID_MAX];    /* and its build id */
	size_t missing_id_len;
	struct split_source split; /* opened by the caller that knows the program */
	atomic_size_t read;        /* bytes of units since memory was given back */
	size_t bad_headers;        /* units whose header cannot be read */
};

/* One thread's view. */
struct dwarf_handle {
	Elf *elf, *alternate_elf;
	Dwarf *dwarf, *alternate; /* dwarf NULL: it is not open */
	struct buffer nothing;    /* the alternate's bytes while there is none */
};

/* path: the file with the DWARF; wanted: as elf_file_open_as has it. Alternates are looked for beside it and below
 * debug_dir, by name and build id; only one of the right build id counts. Closed also after a failure, whose text names
 * the file. */
enum err dwarf_source_open(struct dwarf_source *s, const char *path, const struct view_wanted *wanted,
        const char *debug_dir, struct error *e);
/* Uses the file at path as the missing alternate, if it has the right build id. */
void dwarf_source_complete(struct dwarf_source *s, const char *path);
void dwarf_source_close(struct dwarf_source *s);
enum err dwarf_handle_open(struct dwarf_handle *h, const struct dwarf_source *s, struct error *e);
void dwarf_handle_close(struct dwarf_handle *h);
/* Reports that a unit of this many bytes was read. From time to time the memory of such units is given back. */
void dwarf_source_done(struct dwarf_source *s, size_t bytes);

#endif
