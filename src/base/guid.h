/* SPDX-License-Identifier: Apache-2.0 */
/* GUIDs, which debug ids are written as. */
#ifndef BASE_GUID_H
#define BASE_GUID_H

#include <stdint.h>

enum { GUID_BYTES = 16 };

/* Which byte in memory each pair of hex digits of the text is, where numbers are little-endian: the first three fields
 * of a GUID are numbers. The order is its own inverse. */
static const uint8_t guid_order[GUID_BYTES] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

#endif
