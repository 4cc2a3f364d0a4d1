/* SPDX-License-Identifier: Apache-2.0 */
/* The address that an attribute of a debug entry gives, in whatever form. */
#ifndef EXTRACT_DIE_ADDRESS_H
#define EXTRACT_DIE_ADDRESS_H

#include "extract/die_scan.h"

/* LLVM's two forms of an address in .debug_addr plus an offset, which libdw does not know: a form of its own, and an
 * expression. */
enum { FORM_LLVM_ADDRX_OFFSET = 0x2001 };

/* False: a is no address. */
bool die_address(const struct die_unit *u, Dwarf_Attribute *a, Dwarf_Addr *address);

#endif
