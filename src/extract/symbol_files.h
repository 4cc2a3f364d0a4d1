/* SPDX-License-Identifier: Apache-2.0 */
/* The symbol tables of an executable, in the order in which they count: of its debug file, its own, and the one that is
 * compressed in it. */
#ifndef EXTRACT_SYMBOL_FILES_H
#define EXTRACT_SYMBOL_FILES_H

#include "extract/elf_file.h"
#include "extract/function_names.h"
#include "extract/mini_debug.h"

enum { SYMBOL_TABLES = 4 };

struct symbol_table {
	Elf *elf;
	const char *section;
};

struct symbol_files {
	struct elf_file debug;
	struct mini_debug mini;
	struct error mini_error; /* why the compressed one is not read */
	struct symbol_table tables[SYMBOL_TABLES];
	size_t count;
};

/* elf, the executable, must stay open; debug_path is empty if there is no debug file; wanted: of
 * that, as elf_file_open_as has it. Must be closed even after an
 * error. */
enum err symbol_files_open(
        struct symbol_files *f, Elf *elf, const char *debug_path, const struct view_wanted *wanted, struct error *e);
/* Whether any of them is more than the executable's dynamic symbols. */
bool symbol_files_have_symtab(const struct symbol_files *f);
/* A cleared one is closed. */
void symbol_files_close(struct symbol_files *f);

#endif
