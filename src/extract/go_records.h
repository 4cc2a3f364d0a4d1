/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges and return pads from Go's own table of functions. */
#ifndef EXTRACT_GO_RECORDS_H
#define EXTRACT_GO_RECORDS_H

#include "extract/coverage.h"
#include "extract/go_table.h"
#include "extract/records.h"

/* A node of the function that is read, for an inlined call; valid when mark is the reader's. */
struct go_node {
	uint32_t mark, node;
};

struct go_reader {
	struct go_table table;
	bool pads; /* whether return pads are wanted */
	struct coverage *coverage;
	struct intern strings;   /* of all results */
	struct map64 names;      /* addresses in strings, by offset + 1 */
	struct map64 files;      /* number of a file in lines, by offset + 1 */
	struct line_table lines; /* rows of the function that is read, files of all */
	struct functions functions;
	struct segments segments;
	struct records records;
	struct go_step *calls; /* of the function that is read */
	size_t call_count;
	uint32_t call_cap;
	struct go_node *nodes; /* by the number of the call */
	uint32_t node_cap;
	uint32_t mark;
};

/* coverage must outlive it. ERR_MISSING as go_table_open. The reader must be closed after any error. */
enum err go_reader_open(struct go_reader *g, Elf *elf, const struct code_map *code, struct coverage *coverage,
        bool pads, struct error *e);
void go_reader_close(struct go_reader *g);
/* Adds the records of some of the functions from *next on, except code that has records already, and moves *next past
 * them. At the end *next is the table's count. ERR_NO_MEMORY. */
enum err go_reader_read(struct go_reader *g, size_t *next, struct result *out, struct error *e);

#endif
