/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a map as text that can be read: each field on a line, with its offset and what it means. */
#ifndef TESTS_OFFMAP_DUMP_H
#define TESTS_OFFMAP_DUMP_H

#include "base/buffer.h"
#include "map/value.h"

/* Appends all that the value of the page has: header and payload, which must be raw. Reads the bytes by itself, not
 * with the service's reader. */
void dump_value(struct buffer *out, const struct value_id *id, const struct page *page);

#endif
