/* SPDX-License-Identifier: Apache-2.0 */
/* Running over the lines of a symbol file that an index does not note, at the speed of memory. Private to symindex.c
 * and its test. */
#ifndef FORMAT_SYMINDEX_SCAN_H
#define FORMAT_SYMINDEX_SCAN_H

#include <stdint.h>

/* The first line, from the one at `at` on, that is neither a record of a function in the form that writers give nor
 * junk that starts with no keyword's letters; end: none. [at, end) is whole lines: the last byte is a line feed. */
typedef const uint8_t *symindex_scan(const uint8_t *at, const uint8_t *end);

enum { SYMINDEX_SCANS = 3 };
/* The best is the last one that this processor has; NULL: it does not. */
symindex_scan *symindex_scan_by(unsigned which);
symindex_scan *symindex_scan_best(void);

#endif
