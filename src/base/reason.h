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
	REASONS_OF_MODULE, /* each kind goes up to where the next begins */
	REASON_NO_ID = REASONS_OF_MODULE,
	REASON_NOT_FOUND,
	REASON_OTHER_BUILD,
	REASON_STRIPPED,
	REASON_CORRUPT,
	REASON_TOO_LARGE,
	REASONS_OF_OFFSET,
	REASON_BELOW_FIRST = REASONS_OF_OFFSET,
	REASON_BETWEEN,
	REASON_ABOVE_LAST,
	REASON_WRONG_OFFSET,
	REASON_NO_SEGMENTS,
	REASON_NOT_LOADED,
	REASON_NO_FUNCTION,
	REASONS_OF_NEITHER,
	REASON_NO_ANSWER = REASONS_OF_NEITHER,
	REASONS,
};

/* Whether it tells of the module, whatever the offset is. */
static inline bool reason_is_of_module(enum reason reason)
{
	return reason >= REASONS_OF_MODULE && reason < REASONS_OF_OFFSET;
}

/* Whether it tells of the offset: the module has symbols, or a file. */
static inline bool reason_is_of_offset(enum reason reason)
{
	return reason >= REASONS_OF_OFFSET && reason < REASONS_OF_NEITHER;
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
