/* SPDX-License-Identifier: Apache-2.0 */
/* Equal functions of a unit of which the linker has kept the code of one (gold --icf). */
#ifndef EXTRACT_FOLDED_H
#define EXTRACT_FOLDED_H

#include "extract/functions.h"
#include "extract/line_table.h"

/* Of functions, and parts of them, that begin where a fold of the line table does, leaves the one whose rows count, so
 * that name and line are of the same function. ERR_NO_MEMORY. */
enum err folded_drop(struct functions *f, const struct die_unit *unit, const struct line_table *lines, struct error *e);

#endif
