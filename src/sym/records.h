/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the records of one function from the text of a symbol file, at the place that the index gives. */
#ifndef SYM_RECORDS_H
#define SYM_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sym/index.h"
#include "sym/line.h"
#include "sym/records_scan.h"

/* Access to the text. */
struct symtext {
	/* Returns the bytes [place, place + len): in place, valid until the same caller's next call, or copied to
	 * `room`, which has len bytes. NULL if they are not available; the caller then fails with ERR_NO_MEMORY.
	 * Several threads may call it at once. */
	const uint8_t *(*get)(void *arg, uint64_t place, size_t len, uint8_t *room);
	void *arg;
};

enum record_kind {
	RECORD_NONE, /* no more records */
	RECORD_LINE,
	RECORD_INLINE,
	RECORD_FAILED, /* the text is not available, or out of memory */
};

/* Reads the records of one symbol, and keeps its memory for the next. Zero it before first use. */
struct symrecords {
	const struct symtext *text;
	/* The symbol's name, not NUL-terminated and valid until symrecords_next, and its place in the text. */
	struct str name;
	uint64_t name_place;
	/* the record read last */
	uint64_t addr, size, file; /* for a line record */
	uint32_t line;
	struct inline_fields fields; /* for an INLINE; ranges are pairs of address and size */
	uint64_t *ranges;
	uint32_t range_count, ranges_cap; /* counted in numbers, two per range */
	uint64_t damaged;                 /* damaged records of the symbol so far */
	/* private */
	uint64_t place, end;              /* the text that is not in the window yet */
	const uint8_t *start, *at, *stop; /* the window: whole lines */
	uint8_t *room;
	uint32_t room_cap;
	const struct symtext_scan *scan;
};

void symrecords_release(struct symrecords *r);
uint64_t symrecords_bytes(const struct symrecords *r);

/* False as for RECORD_FAILED. */
bool symrecords_begin(struct symrecords *r, const struct symtext *text, const struct symindex_symbol *symbol);
/* Reads the next record. Skips lines of definitions and the like, which the index has counted. */
enum record_kind symrecords_next(struct symrecords *r);
/* Reads up to n line records. 0: the next record is not one; use symrecords_next. */
uint32_t symrecords_lines(struct symrecords *r, struct symtext_line *out, uint32_t n);
/* For callers that have a single line: reads the function's record [at, feed). RECORD_NONE if it is none. */
enum record_kind symrecords_read_line(struct symrecords *r, const uint8_t *at, const uint8_t *feed);
/* Continues with the first line that starts at least `bytes` after the next one. False as for RECORD_FAILED. */
bool symrecords_skip(struct symrecords *r, uint64_t bytes);

#endif
