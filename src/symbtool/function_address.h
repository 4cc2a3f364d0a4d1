/* SPDX-License-Identifier: Apache-2.0 */
/* Where a function of an executable begins. */
#ifndef SYMBTOOL_FUNCTION_ADDRESS_H
#define SYMBTOOL_FUNCTION_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* By the name that the symbol table of the ELF file at path has for it, mangled where it is. False: the file has no
 * such function, or cannot be read. */
bool function_address(const char *path, const char *name, uint64_t *address);

/* The functions of an ELF file, by name. */
struct function_table;
/* NULL: the file cannot be read, or there is no memory. */
struct function_table *function_table_read(const char *path);
void function_table_free(struct function_table *f);
/* The function of this name and size; the kernel counts the padding behind it, too. False: there is none, or several.
 */
bool function_table_find(const struct function_table *f, struct str name, uint64_t size, uint64_t *address);

#endif
