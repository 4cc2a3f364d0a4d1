/* SPDX-License-Identifier: Apache-2.0 */
/* What functions are called: the demangled linkage name; else that of a symbol which begins where the function begins;
 * else the name with what debug entries say about its scopes and parameters. */
#ifndef EXTRACT_FUNCTION_NAMES_H
#define EXTRACT_FUNCTION_NAMES_H

#include <elfutils/libdw.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "extract/die_scan.h"
#include "extract/intern.h"

struct scopes;

/* Symbols of any number of threads. */
struct name_symbols {
	void *arg;
	/* The number-th symbol that begins at an address; NULL: there is none. It stays where it is. */
	enum err (*at)(void *arg, uint64_t address, size_t number, const char **symbol, struct error *e);
};

/* Of one thread. Each entry is looked at once, however many calls and units refer to it. */
struct names {
	struct intern *strings;
	/* Addresses in strings; 1: an empty name. */
	struct map64 by_die;     /* by the address of the entry */
	struct map64 incomplete; /* the same keys: names without a linkage name, in languages that have them */
	struct map64 by_linkage; /* by the address of the linkage name, which linkers keep once */
	struct map64 by_unit;    /* struct scopes, by the address of the unit's entry */
	struct scopes *scopes;   /* the same as a list */
	struct abbrev_table abbrevs;
	struct buffer text;
	unsigned nested;                    /* functions whose names are looked for, each for a class in it */
	bool whole;                         /* of symbols: with what demangle_base leaves out */
	bool no_memory;                     /* while types are looked at */
	const struct name_symbols *symbols; /* NULL: none; of the caller */
};

/* strings must outlive n, and holds all names. */
void names_init(struct names *n, struct intern *strings);
void names_release(struct names *n);
/* ERR_NO_MEMORY. The name of a function that die describes, or refers to by its origin or specification; empty when it
 * has none. */
enum err names_get(struct names *n, const Dwarf_Die *die, struct str *name, struct error *e);
/* Whether the name that names_get gave for die may be found more complete among symbols. */
bool names_incomplete(const struct names *n, const Dwarf_Die *die);
/* Replaces such a name of a function that begins at address by a symbol's, if one there is of this function. */
enum err names_complete(struct names *n, uint64_t address, struct str *name, struct error *e);
/* The name of a symbol, which must stay where it is. data is NULL if out of memory. */
struct str names_of_symbol(struct names *n, struct str symbol);
/* Of the stub that calls it. */
struct str names_of_stub(struct names *n, struct str symbol);

/* For type_names.c: attributes, also those that libdw does not find, and an empty text if there is none. */
bool names_attribute(struct names *n, const Dwarf_Die *die, unsigned attribute, Dwarf_Attribute *a);
struct str names_text(struct names *n, const Dwarf_Die *die, unsigned attribute);
/* Appends the scopes around die, each with "::". */
enum err names_append_scopes(struct names *n, struct buffer *out, Dwarf_Die *die, struct error *e);

#endif
