/* Functions of symbol tables, for code that DWARF does not describe. */
#ifndef SYMBTOOL_SYMBOLS_H
#define SYMBTOOL_SYMBOLS_H

#include "extract/coverage.h"
#include "extract/names.h"
#include "extract/result.h"

/* Adds a range, and return pads when wanted, for code that is free in c and in a function of the table named section;
 * of functions that overlap the one that begins later counts. */
enum err symbols_read(Elf *elf, const char *section, struct coverage *c, struct names *names, bool pads,
        struct result *out, struct error *e);

#endif
