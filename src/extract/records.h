/* SPDX-License-Identifier: Apache-2.0 */
/* From the segments of a function to ranges and return pads. */
#ifndef EXTRACT_RECORDS_H
#define EXTRACT_RECORDS_H

#include "extract/function_names.h"
#include "extract/line_table.h"
#include "extract/result.h"
#include "extract/segments.h"

/* A range that is being made, of one depth. */
struct open_range {
	uint32_t node;
	size_t range; /* index in the result */
	struct symbfile_line *lines;
	size_t line_count;
	uint32_t line_cap;
};

/* What records are made with. All but open and copies belongs to the caller, who clears copies_known for a new unit. */
struct records {
	const struct die_unit *unit;
	const struct code_map *code;
	struct functions *functions;
	struct line_table *lines;
	struct names *names;
	struct intern *strings;
	struct result *out;
	struct open_range open[INLINE_DEPTH_MAX + 1];
	size_t open_count;
	struct map64 copies; /* of the unit: numbers of functions + 1, by the entry that each is a copy of */
	bool copies_known;
	size_t row; /* of the line table, at or after the address that is looked at */
};

/* Adds the ranges of a function, and the pieces that they are for. */
enum err records_add_ranges(struct records *r, const struct segments *s, struct error *e);
/* Begins a piece, without records so far: code that does not adjoin what was before. If nobody asked for its function,
 * it stays so: other code and lines end there all the same. */
enum err records_add_code(struct records *r, uint64_t start, uint64_t end, struct error *e);
/* Adds the return pads of a function, after its ranges. first is its first piece in the result. */
enum err records_add_pads(struct records *r, const struct segments *s, size_t first, struct error *e);
void records_release(struct records *r);
/* Adds the rows of a unit's line table outside the pieces of its result: code that none of its entries describes, as
 * assembler, thunks, folded functions. Symbol tables have the names of such code. */
enum err loose_lines_collect(struct result *r, struct line_table *t, struct intern *strings, struct error *e);

/* The name of a node, looked up once. */
enum err records_name(struct records *r, uint32_t node, struct error *e);
/* Moves r->row to the row of an address; false: there is none. */
bool records_seek(struct records *r, uint64_t address);

#endif
