/* SPDX-License-Identifier: Apache-2.0 */
/* The executable sections of a program: which addresses are code, and its bytes. */
#ifndef EXTRACT_CODE_MAP_H
#define EXTRACT_CODE_MAP_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct code_section {
	uint64_t start, end;
	const uint8_t *bytes; /* of the mapped file; NULL: the file has none */
};

struct code_map {
	struct code_section *sections; /* by address, not overlapping */
	size_t count;
	uint16_t machine; /* EM_X86_64, ... */
	bool big;         /* big-endian */
	/* Where function symbols of 64-bit PowerPC's older ABI point to: descriptors, which begin with the address of
	 * the code. */
	struct str opd;
	uint64_t opd_start;
	/* Set by the caller: the addresses that are asked for, in ascending order. 0: all. */
	const uint64_t *asked;
	size_t asked_count;
};

/* elf must stay open as long as the map is used. ERR_CORRUPT: sections outside the file, or more than 4 GiB of code. */
enum err code_map_read(struct code_map *m, Elf *elf, struct error *e);
void code_map_release(struct code_map *m);
/* The section of an address, or NULL. Discarded code is in none. */
const struct code_section *code_map_find(const struct code_map *m, uint64_t address);
/* Where the code of a function begins whose symbol has this value. */
uint64_t code_map_entry(const struct code_map *m, uint64_t value);

/* Whether any address from start to end - 1 is asked for. */
bool code_map_asked(const struct code_map *m, uint64_t start, uint64_t end);

#endif
