/* SPDX-License-Identifier: Apache-2.0 */
/* Windows programs (PE): what their headers say, and bytes of their code. Nothing in the file is believed unchecked. */
#ifndef EXTRACT_PE_FILE_H
#define EXTRACT_PE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { PE_X86_64 = 0x8664, PE_I386 = 0x14c, PE_ARM = 0x1c4, PE_AARCH64 = 0xaa64, PE_ID_BYTES = 8 };
/* Of headers of sections, which PDB files have too: bytes; the flag of code that runs. */
enum { PE_SECTION_HEADER = 40, PE_SECTION_CODE = 0x20000000 };

struct pe_file {
	int fd; /* the caller's */
	uint16_t machine, section_count;
	uint64_t sections;                   /* where their headers are in the file */
	uint8_t id[PE_ID_BYTES];             /* the code id: time stamp and size of the image, big-endian */
	uint32_t functions, functions_bytes; /* the table of functions (.pdata); 0: none */
	uint32_t code_map, code_ranges;      /* of a program with code of two machines (ARM64EC, ARM64X); 0: none */
};

/* Whether a file begins like one. */
bool pe_file_is(int fd);
/* Whether its machine is one of these. */
bool pe_file_known(const struct pe_file *pe);
/* Reads the headers. ERR_CORRUPT: the text names the place. */
enum err pe_file_read(struct pe_file *pe, int fd, struct error *e);
/* Reads at most max bytes of code at start, relative to the image; *len: how many the section has. ERR_MISSING: there
 * is no code; ERR_CORRUPT. */
enum err pe_file_code(
        const struct pe_file *pe, uint64_t start, uint8_t *bytes, size_t max, size_t *len, struct error *e);
/* The machine of the code at start; *end: that of another one may begin there, relative to the image. 0: the file does
 * not tell. */
uint16_t pe_file_machine(const struct pe_file *pe, uint64_t start, uint64_t *end);
/* Where the function around start ends, relative to the image; 0: no table tells. */
uint64_t pe_file_function_end(const struct pe_file *pe, uint64_t start);

#endif
