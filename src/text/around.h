/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around a line that a program wrote, in a log of it: prefixes (prefix.h) and colours, or an object of JSON
 * that has the line as a string, as docker keeps it. */
#ifndef TEXT_AROUND_H
#define TEXT_AROUND_H

#include "base/str.h"

struct text_around {
	size_t before, after; /* bytes; with some after it the line is a string of JSON, with its escapes */
};

/* line: of the log, without its end. */
struct text_around text_around_line(struct str line);

#endif
