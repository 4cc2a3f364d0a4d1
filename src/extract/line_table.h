/* SPDX-License-Identifier: Apache-2.0 */
/* The line table of one unit: the file and line of each address (DWARF 2 to 5). libdw's reader mixes the rows of
 * discarded code with those of live code at the same addresses. */
#ifndef EXTRACT_LINE_TABLE_H
#define EXTRACT_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "extract/code_map.h"
#include "extract/intern.h"

/* The sections that line tables are in. */
struct line_sections {
	struct str line, line_str, str;
	bool big; /* big-endian */
};

struct line_row {
	uint64_t start, end;
	uint32_t file, line; /* line 0: unknown */
};

struct line_file {
	struct str name, path; /* path: of the intern set once it was asked for, data NULL before */
	uint64_t dir;
};

/* Code of equal functions that the linker has kept once: where it begins, by the rows of the function that counts. */
struct line_fold {
	uint64_t start;
	uint32_t file, line;
};

struct line_table {
	struct line_row *rows; /* live code only, by address, not overlapping */
	size_t row_count;
	uint32_t row_cap;
	struct line_fold *folds; /* by address */
	size_t fold_count;
	uint32_t fold_cap;
	struct line_file *files; /* by their number; version 5 counts from 0, older ones from 1 */
	size_t file_count;
	uint32_t file_cap;
	struct str *dirs;
	size_t dir_count;
	uint32_t dir_cap;
	struct str comp_dir; /* set before line_table_read */
};

/* A cleared struct line_table is an empty one. Strings point into the sections; comp_dir must live as long.
 * ERR_CORRUPT, ERR_NO_MEMORY; the table must be released also then. */
enum err line_table_read(struct line_table *t, const struct line_sections *s, uint64_t offset, uint8_t address_size,
        const struct code_map *code, struct error *e);
void line_table_release(struct line_table *t);
/* Adds a row whose path is known; the path must live as long as t. False if out of memory. Call line_table_sort
 * before the table is used. */
bool line_table_add(struct line_table *t, uint64_t start, uint64_t end, struct str path, uint32_t line);
/* Of rows that overlap what begins first counts. */
void line_table_sort(struct line_table *t);
/* The first row that ends after address; row_count if there is none. */
size_t line_table_find(const struct line_table *t, uint64_t address);
/* The whole path of a file; empty if there is no such file. data is NULL if out of memory. */
struct str line_table_path(struct line_table *t, uint64_t file, struct intern *strings);

#endif
