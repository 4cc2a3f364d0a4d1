/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the frames of a reply. Strings in the map are already escaped, so they are copied; no tree is built. */
#ifndef FORMAT_REPLY_JSON_H
#define FORMAT_REPLY_JSON_H

#include <string.h>

#include "format/offmap_read.h"

/* A v5 frame from "module_offset" to its closing brace, without frame and module, which come before. The strings of a
 * must be resolved; if nothing was found, only the offset is written. `put` writes exactly as many bytes as `size`
 * says, and returns the end. */
uint64_t v5_tail_size(uint64_t offset, const struct offmap_answer *a);
uint8_t *put_v5_tail(uint8_t *at, uint64_t offset, const struct offmap_answer *a);
/* What comes before " (in " in v4: the function, or the offset in hex. */
uint64_t v4_head_size(uint64_t offset, const struct offmap_answer *a);
uint8_t *put_v4_head(uint8_t *at, uint64_t offset, const struct offmap_answer *a);

/* The buffer must have room. */
uint8_t *put_hex(uint8_t *at, uint64_t v);     /* 0x1f: at most 18 bytes */
uint8_t *put_decimal(uint8_t *at, uint64_t v); /* at most 20 bytes */
static inline uint8_t *put_text(uint8_t *at, const void *text, size_t len)
{
	memcpy(at, text, len);
	return at + len;
}
#define PUT(at, literal) put_text((at), (literal), sizeof(literal) - 1)

#endif
