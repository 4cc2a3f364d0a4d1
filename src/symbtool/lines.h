/* SPDX-License-Identifier: Apache-2.0 */
/* Reads standard input line by line, as text_input does, as data arrives. */
#ifndef SYMBTOOL_LINES_H
#define SYMBTOOL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbtool/text_input.h"

enum { LINES_MAX = 64 << 20 }; /* bytes of a line */

/* Zeroed at first. */
struct line_input {
	struct text_input *in; /* made for the first line */
	char *text;
	size_t len, cap, at; /* bytes held; at: bytes already returned */
	uint64_t number;     /* of the last line, from 1 */
	bool ended;
};

void lines_release(struct line_input *l);
/* The next line without its end, NUL-terminated, valid until the next call; NULL at the end of the input. ERR_IO,
 * ERR_CORRUPT, ERR_NO_MEMORY, ERR_TOO_LARGE. */
enum err lines_next(struct line_input *l, char **line, struct error *e);
/* After the first call: whether the next line has not arrived yet, so that what was read should be answered first. */
bool lines_wait(const struct line_input *l);

#endif
