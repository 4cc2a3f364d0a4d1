/* SPDX-License-Identifier: Apache-2.0 */
/* Running over the lines of a symbol file that nobody wants, at the speed of a scan for line ends. */
#ifndef FORMAT_BREAKPAD_SCAN_H
#define FORMAT_BREAKPAD_SCAN_H

#include <stdint.h>

/* The first line, from the one at `at` on, that may be a FUNC, PUBLIC, FILE, INLINE_ORIGIN or INFO record; end: none.
 * [at, end) is whole lines: the last byte is a line feed. */
const uint8_t *keyword_line(const uint8_t *at, const uint8_t *end);

#endif
