/* SPDX-License-Identifier: Apache-2.0 */
/* The records of one unit, until they are handed on. */
#ifndef EXTRACT_RESULT_H
#define EXTRACT_RESULT_H

#include "base/arena.h"
#include "symbfile/symbfile.h"

/* Code without a gap, and the records for it. */
struct result_piece {
	uint64_t start, end;
	size_t first_range, first_pad; /* up to those of the next piece */
};

/* A line of code that the unit has no function for. */
struct result_line {
	uint64_t start, end;
	struct str path;
	uint32_t line;
};

struct result {
	struct arena arena; /* lines and frames; names and paths belong to the maker's intern set */
	struct symbfile_range *ranges;
	struct symbfile_pad *pads;
	struct result_piece *pieces;
	struct result_line *lines;
	size_t line_count;
	uint32_t line_cap;
	size_t range_count, pad_count, piece_count;
	uint32_t range_cap, pad_cap, piece_cap;
	enum err err; /* why something is missing, or everything */
	struct error error;
};

struct result *result_new(void);
void result_free(struct result *r);
/* Roughly the memory that it takes, in bytes. */
size_t result_size(const struct result *r);

#endif
