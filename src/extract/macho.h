/* SPDX-License-Identifier: Apache-2.0 */
/* Mach-O files of 32 and 64 bits (Apple's mach-o/loader.h, nlist.h), for a view. */
#ifndef EXTRACT_MACHO_H
#define EXTRACT_MACHO_H

#include "extract/view.h"

/* Reads the file, or the slice of one, at an offset: segments, sections with code and DWARF, symbols, where functions
 * begin. ERR_CORRUPT, ERR_NO_MEMORY. */
enum err macho_read(struct view_builder *b, uint64_t at, size_t len, struct error *e);
/* Its UUID; empty: it has none. False: its machine is not known, or it is no program, library or dSYM file. */
bool macho_id(struct build_id *id, const uint8_t *file, size_t len);

#endif
