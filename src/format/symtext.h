/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a symbol file, read where an index says: the records of one function. */
#ifndef FORMAT_SYMTEXT_H
#define FORMAT_SYMTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/breakpad_line.h"
#include "format/symindex.h"
#include "format/symtext_scan.h"

/* Where the text is. */
struct symtext {
	/* The bytes [place, place + len) of it: as they lie, to stay until the next call of who asked, or copied to
	 * `room`, which holds as many. NULL: they cannot be had, which ends what is being done with ERR_NO_MEMORY. To
	 * be called by several threads at once where pages are built by several. */
	const uint8_t *(*get)(void *arg, uint64_t place, size_t len, uint8_t *room);
	void *arg;
};

/* A text that lies in one piece. */
struct symtext symtext_whole(const uint8_t *text);

enum record_kind {
	RECORD_NONE, /* no more */
	RECORD_LINE,
	RECORD_INLINE,
	RECORD_FAILED, /* the text cannot be had, or no memory */
};

/* Reads the records of one symbol. Memory is kept for the next. All zero is a fresh one. */
struct symrecords {
	const struct symtext *text;
	/* The symbol's name, not terminated, where symrecords_begin found it, until symrecords_next; and its place. */
	struct str name;
	uint64_t name_place;
	/* the record read last */
	uint64_t addr, size, file; /* of a line record */
	uint32_t line;
	struct inline_fields fields; /* of an INLINE, and address and size of its ranges */
	uint64_t *ranges;
	uint32_t range_count, ranges_cap; /* counted in numbers: two a range */
	uint64_t damaged;                 /* lines so far that are records of the symbol and cannot be read */
	/* the reader's */
	uint64_t place, end;              /* of the text that is not in the window */
	const uint8_t *start, *at, *stop; /* the window: whole lines */
	uint8_t *room;
	uint32_t room_cap;
	const struct symtext_scan *scan;
};

void symrecords_release(struct symrecords *r);
uint64_t symrecords_bytes(const struct symrecords *r);

/* false: as RECORD_FAILED. */
bool symrecords_begin(struct symrecords *r, const struct symtext *text, const struct symindex_symbol *symbol);
/* Gives no line twice: those of definitions and the like, which the index counted, are passed over. */
enum record_kind symrecords_next(struct symrecords *r);
/* Reads line records that come next, n at most. 0: what comes next is for symrecords_next. */
uint32_t symrecords_lines(struct symrecords *r, struct symtext_line *out, uint32_t n);
/* For who has lines only: reads the one [at, feed), of a function's records. RECORD_NONE: it is none. */
enum record_kind symrecords_read_line(struct symrecords *r, const uint8_t *at, const uint8_t *feed);
/* Goes on with the first line that starts `bytes` behind the one that would be next. false: as RECORD_FAILED. */
bool symrecords_skip(struct symrecords *r, uint64_t bytes);

#endif
