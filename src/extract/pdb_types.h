/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a PDB's functions: with namespaces, classes and the types of arguments, as dump_syms writes them:
 * mozilla::dom::Foo::Bar(int, char const *). */
#ifndef EXTRACT_PDB_TYPES_H
#define EXTRACT_PDB_TYPES_H

#include "base/varint.h"
#include "extract/intern.h"
#include "extract/pdb.h"

enum { PDB_NEAR = 256 };

/* Of one thread. */
struct pdb_namer {
	struct pdb *p;
	struct intern *strings; /* holds all names */
	uint64_t *by_id;        /* addresses of names, by index from the first one on; of the whole file */
	struct map64 by_import; /* the same by an index that means something in one module only */
	struct map64 sizes;     /* of classes whose own record does not say it, + 1, by index */
	struct str imports;     /* of the module */
	struct buffer text;
	unsigned steps; /* of the name that is made */
	/* Where records begin behind places of the types, by the number of the place: the types of a module are near
	 * each other. */
	struct pdb_near {
		const struct pdb_place *place; /* NULL: nothing is known yet */
		uint32_t *offsets;             /* of the indices from the place's on, in all records */
		uint32_t count;
	} near[PDB_NEAR];
};

/* Finds the types of p, for all namers. ERR_CORRUPT, ERR_NO_MEMORY. */
enum err pdb_types_open(struct pdb *p, struct error *e);
void pdb_namer_init(struct pdb_namer *n, struct pdb *p, struct intern *strings);
void pdb_namer_release(struct pdb_namer *n);
/* Begins another module; imports: its subsection of them. */
void pdb_namer_module(struct pdb_namer *n, struct str imports);
/* The name of a function with the arguments of its type; is_id: type is the index of an id, which has the type. Data is
 * NULL if out of memory. */
struct str pdb_name_function(struct pdb_namer *n, struct str name, uint32_t type, bool is_id);
/* The name of a function that is inlined. */
struct str pdb_name_inlinee(struct pdb_namer *n, uint32_t id);

/* The first subsection of a kind in a module's C13 part; empty: none. */
struct str pdb_subsection(struct str c13, uint32_t kind);
enum { PDB_LINES = 0xf2, PDB_CHECKSUMS = 0xf4, PDB_INLINEES = 0xf6, PDB_IMPORTS = 0xf7, PDB_EXPORTS = 0xf8 };
/* Steps through them. False: no more. */
bool pdb_next_subsection(struct reader *r, uint32_t *kind, struct str *data);

#endif
