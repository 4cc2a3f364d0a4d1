/* SPDX-License-Identifier: Apache-2.0 */
/* The code of one function, cut where another function or inlined call begins or ends. */
#ifndef EXTRACT_SEGMENTS_H
#define EXTRACT_SEGMENTS_H

#include "extract/functions.h"

/* Code of the innermost call that it is in. */
struct segment {
	uint64_t start, end;
	uint32_t node;
};

struct open_piece {
	uint64_t end;
	uint32_t node;
};

struct segments {
	struct segment *items; /* by address */
	size_t count;
	uint32_t cap;
	struct open_piece *open; /* while they are made */
	size_t open_count;
	uint32_t open_cap;
};

/* Fills s from the pieces of one function, sorted. A call counts only within its function and
 * within the calls around it, unless they do not begin before it: strict DWARF 2 has only the first of a call's pieces.
 * False if out of memory. */
bool segments_make(struct segments *s, struct code_node *nodes, const struct code_piece *pieces, size_t count);
void segments_release(struct segments *s);

#endif
