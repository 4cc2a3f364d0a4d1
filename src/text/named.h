/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that have a name in the text already, so that nothing is to be looked up: one table of their forms. */
#ifndef TEXT_NAMED_H
#define TEXT_NAMED_H

#include "text/scan.h"

struct text_named {
	struct str function, file, module; /* parts of the line; empty: it does not tell */
	uint32_t line;                     /* of the file; 0: it does not tell */
};

/* below: a frame stands right above the line. Some forms, such as Java's, are none without. */
bool text_read_named(struct rest line, bool below, struct text_named *out);

/* What a line numbers itself as in its stack. */
enum { TEXT_UNNUMBERED = -1, TEXT_NEXT = -2 }; /* TEXT_NEXT: it follows the line above, or is the first */
int64_t text_frame_number(struct rest line);

/* "f" of "f+0x12", "f + 18" and "f+16". */
struct str text_without_offset(struct str name);
/* Whether this stands in place of a function's name: "??", "<unknown>", an address. */
bool text_is_placeholder(struct str name);

#endif
