/* SPDX-License-Identifier: Apache-2.0 */
/* Where a function of an executable begins. */
#ifndef SYMBTOOL_FUNCTION_ADDRESS_H
#define SYMBTOOL_FUNCTION_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

/* By the name that the symbol table of the ELF file at path has for it, mangled where it is. False: the file has no
 * such function, or cannot be read. */
bool function_address(const char *path, const char *name, uint64_t *address);

#endif
