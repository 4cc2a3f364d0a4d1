/* SPDX-License-Identifier: Apache-2.0 */
/* For a text in which no frame lacks a name: the line that looks most like a frame, and what it lacks. */
#ifndef TEXT_GUESS_H
#define TEXT_GUESS_H

#include "text/scan.h"

enum { GUESS_MAX = 200 }; /* bytes of the line that are kept */

struct guess {
	unsigned score;      /* 0: no line looks like a frame */
	uint64_t line;       /* its number */
	bool is_named;       /* it has a name, like all the lines that look as much like a frame */
	const char *missing; /* in it, as a sentence */
	uint64_t named;      /* lines of frames that have a name */
	size_t len;
	char text[GUESS_MAX];
};

/* Looks at a line in which no format found a frame. hex: it has a 0x. */
void guess_look(struct guess *g, struct rest line, uint64_t number, bool hex);

#endif
