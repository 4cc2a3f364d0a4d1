/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a unit's line table for code that none of its entries describes: assembler, thunks, folded functions. Symbol
 * tables have the names of such code. */
#ifndef EXTRACT_LOOSE_LINES_H
#define EXTRACT_LOOSE_LINES_H

#include "extract/line_table.h"
#include "extract/result.h"

/* Adds to r the rows of t outside its pieces; paths are in strings. */
enum err loose_lines_collect(struct result *r, struct line_table *t, struct intern *strings, struct error *e);

#endif
