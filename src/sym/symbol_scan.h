/* SPDX-License-Identifier: Apache-2.0 */
/* Skips the records of functions in a symbol file, at the speed of memory. */
#ifndef SYM_SYMBOL_SCAN_H
#define SYM_SYMBOL_SCAN_H

#include <stdint.h>

/* Finds the first line at or after `at` that is neither a function's record in the form that writers use nor junk that
 * starts with no keyword's letter; returns end if there is none. [at, end) must be whole lines: the last byte is a line
 * feed. */
typedef const uint8_t *symbol_scan(const uint8_t *at, const uint8_t *end);

enum { SYMBOL_SCANS = 2 };
/* NULL if this processor lacks variant `which`. The last one that is not NULL is the fastest. */
symbol_scan *symbol_scan_by(unsigned which);
symbol_scan *symbol_scan_best(void);

#endif
