/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a PDB's module, with inlined calls and lines, as records: as unit_reader.h has it for a unit of
 * DWARF. */
#ifndef EXTRACT_PDB_MODULE_H
#define EXTRACT_PDB_MODULE_H

#include "extract/pdb_types.h"
#include "extract/records.h"

/* Code of one line. */
struct pdb_row {
	uint64_t start, end;
	struct str path; /* interned; data NULL: out of memory */
	uint32_t line;
};

struct pdb_rows {
	struct pdb_row *items; /* by start, not overlapping once they are sorted */
	size_t count;
	uint32_t cap;
};

/* A call that was inlined, of the procedure that is read. */
struct pdb_site {
	uint32_t inlinee, end;        /* end: where its record's scope ends in the stream */
	uint32_t parent, child, next; /* sites: number + 1; 0: the procedure, none */
	unsigned depth;
	size_t row, row_count;     /* in site_rows */
	size_t span, span_count;   /* its code, in spans */
	size_t owned, owned_count; /* the same as pieces of nodes, in owned */
};

struct pdb_span {
	uint64_t start, end;
};

/* What one thread needs, and what it has learnt so far. */
struct pdb_reader {
	struct pdb *p;
	const struct code_map *code;
	bool pads;
	struct intern strings; /* of all results */
	struct pdb_namer namer;
	struct functions functions;
	struct segments segments;
	struct line_table lines;
	struct records records;
	uint64_t code_left; /* bytes of code that procedures may still be said to have */
	uint64_t steps;     /* as pdb_place has them */
	/* of the module */
	struct msf_bytes stream;
	struct str symbols, c13, checksums;
	struct map64 paths;      /* address of the path + 1, by offset of the file */
	uint32_t last_file;      /* rows of one follow each other */
	struct str last_path;    /* data NULL: there is none yet */
	struct map64 inlinees;   /* offset in c13 of where each begins + 1, by id */
	struct map64 procedures; /* offsets of their records, by section and offset; for parts of them */
	bool procedures_listed;
	struct pdb_rows rows;
	uint64_t budget; /* pieces of code that may still be made */
	/* of the procedure */
	struct pdb_site *sites;
	size_t site_count;
	uint32_t site_cap;
	struct pdb_rows site_rows;
	struct pdb_span *spans, *work;
	size_t span_count, work_count;
	uint32_t span_cap, work_cap;
	struct code_piece *owned;
	size_t owned_count;
	uint32_t owned_cap;
	uint32_t *site_of; /* of each node: number + 1 of its site */
	uint32_t site_of_cap;
	size_t site_of_count;
};

/* p, whose types are open, and code must outlive r. */
void pdb_reader_open(struct pdb_reader *r, struct pdb *p, const struct code_map *code, bool pads);
/* Results must not be used any more. A cleared one is closed. */
void pdb_reader_close(struct pdb_reader *r);
/* The records of a module. The result says what failed, and may have records even if a part is ERR_CORRUPT. NULL if out
 * of memory. */
struct result *pdb_reader_read(struct pdb_reader *r, uint32_t module);

#endif
