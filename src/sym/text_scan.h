/* SPDX-License-Identifier: Apache-2.0 */
/* Fast readers for records in the form that writers use; what they refuse is for the readers of sym/line.h. */
#ifndef SYM_TEXT_SCAN_H
#define SYM_TEXT_SCAN_H

#include "records/records.h"

struct symtext_scan {
	/* Reads up to n lines from *at on while they are line records and start before `until`, and moves *at past
	 * them. Returns how many. The memory ends at `end`, after a line feed. */
	uint32_t (*lines)(
	        const uint8_t **at, const uint8_t *until, const uint8_t *end, struct record_line *out, uint32_t n);
	/* Reads what follows `INLINE `: depth, line, file and origin into out, then the address and size of each range.
	 * *count: in, how many numbers there is room for; out, how many were read. Returns the start of the next line,
	 * or NULL if it has another form or there is no room. */
	const uint8_t *(*inlined)(
	        const uint8_t *at, const uint8_t *end, uint32_t out[4], uint64_t *ranges, uint32_t *count);
};

enum { SYMTEXT_SCANS = 2 };

/* Variant 0 is the plain one. NULL if this machine lacks it. All give the same results, though others may refuse more.
 */
const struct symtext_scan *symtext_scan_by(unsigned which);
const struct symtext_scan *symtext_scan_best(void);

#endif
