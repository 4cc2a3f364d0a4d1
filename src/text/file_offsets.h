/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets in files (TEXT_FILE) of which nobody knows at first where that part of the file is loaded. They are looked up
 * as if they were offsets in the image, as they are after GNU ld, but not after lld and mold. What was found counts
 * only if it is confirmed by a frame of the same module that has its name already: for "main+0x15" main must have been
 * found, 0x15 bytes behind its start. */
#ifndef TEXT_FILE_OFFSETS_H
#define TEXT_FILE_OFFSETS_H

#include "text/reader.h"

struct text_answer {
	struct str function; /* empty: none was found */
	uint64_t behind;     /* bytes from its start */
};

struct text_guesses {
	size_t count; /* of frames */
	void *arg;
	const struct text_frame *(*frame)(void *arg, size_t i);
	/* Whether a frame confirmed the module; NULL: what was found for this frame is no guess. */
	bool *(*confirmed)(void *arg, size_t i);
	struct text_answer (*found)(void *arg, size_t i);
	struct str text; /* in which the frames' edits lie, so far as it is there */
	uint64_t base;   /* where it begins in the whole text */
};

/* Notes which modules are confirmed. */
void text_confirm_guesses(const struct text_guesses *g);
/* Calls drop for each frame that is a guess, and whose module is not confirmed. */
void text_drop_guesses(const struct text_guesses *g, void (*drop)(void *arg, size_t i));

/* Whether what was found confirms a frame's module. name: what the text has at the frame's first edit. */
bool text_confirms(const struct text_frame *f, struct str name, struct str function, uint64_t behind);

#endif
