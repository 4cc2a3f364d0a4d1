/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what a symbfile says: from that follows how good an upload is. */
#ifndef SYMBFILE_COUNTS_H
#define SYMBFILE_COUNTS_H

#include "symbfile/symbfile.h"

/* Ranges: functions are those of depth 0, inlines the others, lines the entries of line tables that have a line.
 * Return pads: functions are those that have frames, lines those with a line, inlines those with several frames. */
struct symbfile_counts {
	uint64_t functions, lines, inlines;
};

/* Accepts all records, and adds them to counts. */
struct symbfile_sink symbfile_counts_sink(struct symbfile_counts *counts);
static inline void symbfile_counts_add(struct symbfile_counts *to, const struct symbfile_counts *more)
{
	to->functions += more->functions;
	to->lines += more->lines;
	to->inlines += more->inlines;
}

#endif
