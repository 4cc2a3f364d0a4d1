/* SPDX-License-Identifier: Apache-2.0 */
/* Windows programs (PE/COFF) for a view: sections with code and DWARF, symbols of MinGW's linker, exports, where
 * functions begin by the table for unwinding, and the name and id of the PDB file. */
#ifndef EXTRACT_PE_VIEW_H
#define EXTRACT_PE_VIEW_H

#include "extract/pe_file.h"
#include "extract/view.h"

/* ERR_CORRUPT: the text names the place; ERR_NO_MEMORY. */
enum err pe_view_read(struct view_builder *b, int fd, struct error *e);
/* ELF's number of a PE machine; EM_NONE: not known. */
uint16_t pe_view_machine(uint16_t machine);
/* A name as x86's linker decorates it: _name, _name@8, @name@8. Others as they are. */
struct str pe_plain_name(struct str name, uint16_t elf_machine);

#endif
