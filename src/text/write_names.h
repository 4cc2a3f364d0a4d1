/* SPDX-License-Identifier: Apache-2.0 */
/* Writes names in place of bytes of a text. */
#ifndef TEXT_WRITE_NAMES_H
#define TEXT_WRITE_NAMES_H

#include "base/buffer.h"
#include "text/reader.h"

/* Strings are escaped as in JSON, without quotes, as in maps and replies. */
struct text_call {
	struct str function, file; /* an empty file: unknown */
	uint32_t line;             /* 0: unknown */
};

/* Whether an edit is applied to a text of which the first *done bytes are settled; then those up to its end are, too.
 * One inside what another replaces is not. All who write names, or tell of edits, ask this of every edit in turn. */
bool text_edit_applies(const struct text_edit *edit, uint64_t *done);

/* calls: innermost first, the last is the function itself; at least one. Control characters stay escaped, so that a
 * name is never more than a part of its line. */
void text_write_names(struct buffer *out, const struct text_edit *edit, const struct text_call *calls, size_t count);

/* Changes the edits of a frame whose line has nothing else, so that inlined calls stand on lines of their own below it.
 * before, after: the lines of the frames before and after this one; 0: there is none. text: from `base` of the whole
 * text on, with the frame's whole line. */
void text_put_inlines_below(struct text_frame *f, uint64_t before, uint64_t after, struct str text, uint64_t base);

#endif
