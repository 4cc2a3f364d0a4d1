/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 validity, and JSON string escaping with repair. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the valid UTF-8 sequence at p (1 to 4), or 0 if p does not start one. n > 0 bytes may be read. */
unsigned utf8_sequence(const uint8_t *p, size_t n);

/* The number of bytes that json_escape would write for these. */
size_t json_escaped_length(const uint8_t *p, size_t n);

/* Writes the inside of a JSON string (no quotes): `"`, `\` and control characters escaped, each byte that is not
 * part of a valid UTF-8 sequence replaced by U+FFFD (its three bytes). out has room for json_escaped_length bytes
 * (6 n is always enough). Returns the number written. */
size_t json_escape(uint8_t *out, const uint8_t *p, size_t n);

#endif
