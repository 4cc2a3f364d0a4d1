/* SPDX-License-Identifier: Apache-2.0 */
/* What a map says, to be compared with plain_sym.h. */
#ifndef FUZZ_PLAIN_MAP_H
#define FUZZ_PLAIN_MAP_H

#include "base/buffer.h"
#include "map/offmap.h"

/* Appends what an offset is, in the form of plain_sym_describe. Ends the process when a page is not sound. */
void plain_map_describe(const struct offmap *m, uint64_t offset, struct buffer *out);

#endif
