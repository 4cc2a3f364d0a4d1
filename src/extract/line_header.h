/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a line table: parameters of its program, directories and files. */
#ifndef EXTRACT_LINE_HEADER_H
#define EXTRACT_LINE_HEADER_H

#include "extract/dwarf_bytes.h"
#include "extract/line_table.h"

struct line_header {
	struct reader program;
	bool big;
	uint8_t address_size, min_instruction, max_operations, line_range, opcode_base;
	int8_t line_base;
	const uint8_t *operands; /* number of operands of each standard opcode, from 1 */
};

/* Fills h, and the files and directories of t. */
enum err line_header_read(struct line_header *h, struct line_table *t, const struct line_sections *s, uint64_t offset,
        uint8_t address_size, struct error *e);
/* Adds a file that the program itself defines or the header lists. */
bool line_header_add_file(struct line_table *t, struct str name, uint64_t dir);

#endif
