/* SPDX-License-Identifier: Apache-2.0 */
/* Why a frame has no name: the one vocabulary of replies, symbtool, the page and docs/api.md. */
#ifndef BASE_REASON_H
#define BASE_REASON_H

#include "base/str.h"

enum reason {
	REASON_NONE, /* the frame has a name */
	REASON_NO_MODULE,
	REASON_NO_OFFSET,
	REASON_NO_INTEGER,
	/* of a module */
	REASON_NO_ID,
	REASON_NOT_FOUND,
	REASON_OTHER_BUILD,
	REASON_STRIPPED,
	REASON_CORRUPT,
	REASON_TOO_LARGE,
	REASON_PARTS_MISSING,
	/* of an offset */
	REASON_BELOW_FIRST,
	REASON_BETWEEN,
	REASON_ABOVE_LAST,
	REASON_WRONG_OFFSET,
	REASON_NO_SEGMENTS,
	REASON_NOT_LOADED,
	REASON_NO_FUNCTION,
	/* of neither */
	REASON_NO_ANSWER,
	REASONS,
};

/* Whether it tells of the module, whatever the offset is. */
static inline bool reason_is_of_module(enum reason reason)
{
	return reason >= REASON_NO_ID && reason <= REASON_PARTS_MISSING;
}

/* Plain ASCII without quotes and backslashes, so that no form of output has to escape it. */
struct reason_row {
	const char *word;  /* short, and never changed: programs compare it */
	const char *means; /* a sentence */
	const char *help;  /* what to do about it */
};

/* Not for REASON_NONE. */
const struct reason_row *reason_row(enum reason reason);
/* The reason with this word; REASON_NONE: there is none. */
enum reason reason_of_word(struct str word);

#endif
