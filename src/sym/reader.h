/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a Breakpad symbol file into records as it arrives, in one pass; docs/sym-files.md has the grammar. The text is
 * not needed afterwards. */
#ifndef SYM_READER_H
#define SYM_READER_H

#include "base/error.h"
#include "records/records.h"

/* Read-only for users. */
struct symreader {
	struct records *records;
	char *code_file; /* from INFO CODE_ID, unescaped; NULL: none */
	size_t code_file_len;
	char code_id[OFFMAP_CODE_ID_SIZE]; /* from the same line, or from one that names no file; empty if there is
	                                      none, or none that fits */
	uint64_t damaged;                  /* lines so far */
	uint64_t text_bytes, generation;   /* generation: after the end */
	struct symreader_state *state;     /* private, during the pass */
};

/* The text must have the debug id `id` (in either case); an empty id accepts any. page_text: as of records_new. NULL if
 * out of memory. */
struct symreader *symreader_new(struct str id, uint32_t page_text);
/* What has been read to an end already: finished records, which it takes in any case. NULL if out of memory. */
struct symreader *symreader_of(struct records *records);
void symreader_free(struct symreader *x); /* NULL is fine */

/* Takes the next bytes of the text. ERR_CORRUPT, as early as possible, if this is no symbol file or has another id;
 * ERR_NO_MEMORY. */
enum err symreader_feed(struct symreader *x, const uint8_t *data, size_t len, struct error *e);
/* Ends the text. ERR_CORRUPT also if there was no symbol. */
enum err symreader_finish(struct symreader *x, struct error *e);

/* Bytes of memory that it takes with its records, also while it is fed. */
uint64_t symreader_bytes(const struct symreader *x);

#endif
