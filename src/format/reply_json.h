/* Writing a reply's frames: strings come escaped from the map and are copied; nothing is built but bytes. */
#ifndef FORMAT_REPLY_JSON_H
#define FORMAT_REPLY_JSON_H

#include "base/buffer.h"
#include "format/offmap_read.h"

/* A v5 frame from "module_offset" to its closing brace, without what comes before: frame and module. Strings of a are
 * resolved; an answer that was not found gives the offset alone. */
bool reply_v5_tail(struct buffer *out, uint64_t offset, const struct offmap_answer *a);
/* What stands before " (in " in v4: the function, or the offset in hex. */
bool reply_v4_head(struct buffer *out, uint64_t offset, const struct offmap_answer *a);

/* Small pieces; the buffer has room. */
uint8_t *put_text(uint8_t *at, const char *text, size_t len);
uint8_t *put_hex(uint8_t *at, uint64_t v);     /* 0x1f: at most 18 bytes */
uint8_t *put_decimal(uint8_t *at, uint64_t v); /* at most 20 bytes */
#define PUT(at, literal) put_text((at), (literal), sizeof(literal) - 1)

#endif
