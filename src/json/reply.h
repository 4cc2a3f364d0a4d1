/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the frames of a reply. Strings in the map are already escaped, so they are copied; no tree is built. */
#ifndef JSON_REPLY_H
#define JSON_REPLY_H

#include "base/put.h"
#include "map/read.h"

/* A v5 frame from "module_offset" to its closing brace, without frame and module, which come before. The strings of a
 * must be resolved; if nothing was found, only the offset is written. `put` writes exactly as many bytes as `size`
 * says, and returns the end. */
uint64_t v5_tail_size(uint64_t offset, const struct offmap_answer *a);
uint8_t *put_v5_tail(uint8_t *at, uint64_t offset, const struct offmap_answer *a);
/* What comes before " (in " in v4: the function, or the offset in hex. */
uint64_t v4_head_size(uint64_t offset, const struct offmap_answer *a);
uint8_t *put_v4_head(uint8_t *at, uint64_t offset, const struct offmap_answer *a);

#endif
