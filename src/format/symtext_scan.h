/* SPDX-License-Identifier: Apache-2.0 */
/* Records in the form that writers give, read as fast as the machine allows; what is refused here is for the readers of
 * breakpad_line.h. */
#ifndef FORMAT_SYMTEXT_SCAN_H
#define FORMAT_SYMTEXT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* A line record, or the four numbers with which an INLINE begins. */
struct symtext_line {
	uint64_t addr, size, line, file;
};

struct symtext_scan {
	/* Reads lines from *at on as long as they are line records, n at most, and leaves *at behind them. Returns how
	 * many. The memory ends at `end`, behind a line feed. */
	uint32_t (*lines)(const uint8_t **at, const uint8_t *end, struct symtext_line *out, uint32_t n);
	/* Reads what is behind `INLINE `: depth, line, file and origin into out, and the address and size of each of
	 * its ranges. *count: how many numbers there is room for, and how many there were. Returns the start of the
	 * next line, or NULL when it is not of this form, or there is no room. */
	const uint8_t *(*inlined)(
	        const uint8_t *at, const uint8_t *end, uint32_t out[4], uint64_t *ranges, uint32_t *count);
};

enum { SYMTEXT_SCANS = 2 };

/* The plain one is 0. NULL: not on this machine. All read the same, but that others may refuse more. */
const struct symtext_scan *symtext_scan_by(unsigned which);
const struct symtext_scan *symtext_scan_best(void);

#endif
