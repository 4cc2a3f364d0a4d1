/* SPDX-License-Identifier: Apache-2.0 */
/* What functions are called: the demangled linkage name, else the name with its namespaces and classes. */
#ifndef EXTRACT_FUNCTION_NAMES_H
#define EXTRACT_FUNCTION_NAMES_H

#include <elfutils/libdw.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "extract/die_scan.h"
#include "extract/intern.h"

struct scopes;

/* Of one thread. Each entry is looked at once, however many calls and units refer to it. */
struct names {
	struct intern *strings;
	/* Addresses in strings; 1: an empty name. */
	struct map64 by_die;     /* by the address of the entry */
	struct map64 by_linkage; /* by the address of the linkage name, which linkers keep once */
	struct map64 by_unit;    /* struct scopes, by the address of the unit's entry */
	struct scopes *scopes;   /* the same as a list */
	struct abbrev_table abbrevs;
	struct buffer text;
	unsigned nested; /* functions whose names are looked for, each for a class in it */
	bool whole;      /* of symbols: with what demangle_base leaves out */
};

/* strings must outlive n, and holds all names. */
void names_init(struct names *n, struct intern *strings);
void names_release(struct names *n);
/* ERR_NO_MEMORY. The name of a function that die describes, or refers to by its origin or specification; empty when it
 * has none. */
enum err names_get(struct names *n, const Dwarf_Die *die, struct str *name, struct error *e);
/* The same for a symbol, which must stay where it is. data is NULL if out of memory. */
struct str names_of_symbol(struct names *n, struct str symbol);

#endif
