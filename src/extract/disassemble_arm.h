/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of AArch64 and 32-bit Arm, by Capstone, and data between them. Which is which the mapping symbols tell
 * (AAELF32 5.5.5, AAELF64 5.7.2): $x A64, $a A32, $t T32, $d data; for 32-bit Arm also bit 0 of functions' symbols. */
#ifndef EXTRACT_DISASSEMBLE_ARM_H
#define EXTRACT_DISASSEMBLE_ARM_H

#include <capstone/capstone.h>

#include "extract/code_map.h"
#include "extract/symbol_files.h"

struct arm_mode {
	uint64_t address; /* from here on */
	char what;        /* 'x', 'a', 't' or 'd' */
	bool told;        /* by a mapping symbol */
};

struct arm_decoder {
	struct arm_mode *modes; /* of one section, by address */
	size_t count;
	uint32_t cap;
	csh capstone;
	cs_insn *insn;
	cs_mode mode; /* that capstone is in */
	bool wide;    /* AArch64 */
};

/* For code of this section from start, both of elf. ERR_CORRUPT: not little-endian, no symbol says whether it is A32
 * or T32, or start is between two instructions. Must be closed also after an error. */
enum err arm_decoder_open(struct arm_decoder *d, Elf *elf, const struct symbol_files *files,
        const struct code_section *section, uint64_t start, struct error *e);
/* The same for a Windows program, where all code is A64. */
enum err arm_decoder_open_wide(struct arm_decoder *d, uint64_t start, struct error *e);
/* A cleared one is closed. */
void arm_decoder_close(struct arm_decoder *d);

/* What is at address of the file, and shown as at another one: text of at most size bytes, and where a branch leads
 * (UINT64_MAX: nowhere). Returns how many bytes it is. */
size_t arm_decode(struct arm_decoder *d, const uint8_t *bytes, size_t len, uint64_t address, uint64_t shown, char *text,
        size_t size, uint64_t *target);

#endif
