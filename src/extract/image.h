/* SPDX-License-Identifier: Apache-2.0 */
/* A program as a loader lays it out: bytes and pointers by their addresses. In position-independent programs,
 * pointers are in relocations, and may be missing from the data. */
#ifndef EXTRACT_IMAGE_H
#define EXTRACT_IMAGE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct image_section {
	uint64_t start;
	struct str bytes;
	bool writable;
};

/* A pointer at address that the loader sets. */
struct image_pointer {
	uint64_t address, value;
};

struct image {
	struct image_section *sections;
	struct image_pointer *pointers; /* by address */
	size_t section_count, pointer_count;
	uint32_t section_cap, pointer_cap;
	unsigned pointer_size;
	bool big;
};

/* elf must stay open. Malformed sections and relocations are left out. ERR_NO_MEMORY; the image must be released
 * even then. */
enum err image_read(struct image *m, Elf *elf, struct error *e);
/* Reads the relocations, too. Once. */
enum err image_read_pointers(struct image *m, Elf *elf, struct error *e);
void image_release(struct image *m);
/* The bytes from address to the end of its section; empty if there are none. */
struct str image_bytes(const struct image *m, uint64_t address);
/* The pointer at address; 0 when there is none. */
uint64_t image_pointer(const struct image *m, uint64_t address);

#endif
