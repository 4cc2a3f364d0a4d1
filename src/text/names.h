/* SPDX-License-Identifier: Apache-2.0 */
/* Names in place of bytes of a text. */
#ifndef TEXT_NAMES_H
#define TEXT_NAMES_H

#include "base/buffer.h"
#include "text/reader.h"

/* Strings are escaped as in JSON, without quotes: as maps and replies have them. */
struct text_call {
	struct str function, file; /* an empty file: unknown */
	uint32_t line;             /* 0: unknown */
};

/* calls: innermost first, the last is the function itself; at least one. What would be a control character in the text
 * stays escaped, so that a name is never more than a part of its line. */
void text_write_names(struct buffer *out, enum text_style style, const struct text_call *calls, size_t count);

/* A string escaped for JSON, as readers see it: quotes and backslashes are plain, control characters are not. */
void text_write_plain(struct buffer *out, struct str escaped);

#endif
