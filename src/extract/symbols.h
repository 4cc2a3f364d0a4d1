/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of symbol tables, for code that DWARF does not describe. */
#ifndef EXTRACT_SYMBOLS_H
#define EXTRACT_SYMBOLS_H

#include "extract/coverage.h"
#include "extract/function_names.h"
#include "extract/line_table.h"
#include "extract/result.h"
#include "extract/symbol_files.h"

struct symbols_wanted {
	struct coverage *coverage; /* of code that is described already */
	struct line_table *lines;  /* of other code, sorted */
	struct names *names;
	bool pads;
	bool *others; /* set if there are functions that nobody asked for */
};

/* Adds a range, and return pads if wanted, for code that is free in the coverage and in a function of the table named
 * section. Of functions that overlap the one that begins later counts; those without a size get what the others left,
 * up to the next function. A global label without type and size is one, if the table has local symbols too. Objects
 * with a size get what is left then. */
enum err symbols_read(
        Elf *elf, const char *section, const struct symbols_wanted *w, struct result *out, struct error *e);

/* The same for stubs that call functions of other files: "printf@plt". */
enum err symbols_read_stubs(Elf *elf, const struct symbols_wanted *w, struct result *out, struct error *e);

/* Names for code that debug data describe without one. */
struct symbol_names {
	struct symbol *items; /* by address */
	size_t count;
	struct intern strings;
	struct names names;
};

/* files must stay open. Released also after an error. */
enum err symbol_names_read(
        struct symbol_names *n, const struct symbol_files *files, const struct code_map *code, struct error *e);
/* A cleared one is empty. */
void symbol_names_release(struct symbol_names *n);
/* The name of the symbol that address is in; empty: there is none. It lives as long as n. */
enum err symbol_names_find(struct symbol_names *n, uint64_t address, struct str *name, struct error *e);

/* The number-th symbol that begins at address, or NULL. Any number of threads may ask. */
const char *symbol_names_at(const struct symbol_names *n, uint64_t address, size_t number);

/* Where that symbol's code begins and ends; either may be NULL. False: there is none. */
bool symbol_names_bounds(const struct symbol_names *n, uint64_t address, uint64_t *start, uint64_t *end);
/* Where the first symbol behind address begins, or UINT64_MAX. */
uint64_t symbol_names_next(const struct symbol_names *n, uint64_t address);

#endif
