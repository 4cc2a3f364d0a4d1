/* SPDX-License-Identifier: Apache-2.0 */
/* The symbfile format: protobuf messages with the functions, lines and inlined calls of one executable.
 * docs/symbfile.md describes the bytes. */
#ifndef SYMBFILE_SYMBFILE_H
#define SYMBFILE_SYMBFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
	SYMBFILE_MESSAGE_MAX = 16 << 20,                  /* bytes */
	SYMBFILE_ENTRIES_MAX = SYMBFILE_MESSAGE_MAX / 10, /* lines of a range, frames of a return pad */
};

/* What a file is uploaded as. It may contain records of the other kind too. */
enum symbfile_kind { SYMBFILE_RANGES, SYMBFILE_RETURNPADS };
enum { SYMBFILE_KINDS = 2 };
/* "ranges", "returnpads" */
extern const char *const symbfile_kind_names[SYMBFILE_KINDS];

/* Covers the addresses from its offset to the next entry's, or to the end of the range. */
struct symbfile_line {
	uint32_t offset; /* from the range's start, absolute (mod 2^32) */
	uint32_t line;   /* 0: unknown */
};

/* A function (depth 0) or an inlined call, on one range of addresses. */
struct symbfile_range {
	uint64_t va, length; /* ELF virtual address; bytes, below 2^32 */
	uint32_t depth, call_line;
	struct str func, file, call_file;
	bool has_file, has_call_file; /* no call file: the parent's file */
	const struct symbfile_line *lines;
	size_t line_count;
};

struct symbfile_frame {
	struct str func, file; /* an empty file: none */
	uint32_t line;         /* 0: unknown */
};

/* The frames of a call, whose return address is va + 1. */
struct symbfile_pad {
	uint64_t va;
	const struct symbfile_frame *frames; /* outermost first */
	size_t count;
};

/* Receives records in the order of the file, which may have both kinds; what they point to is valid only during the
 * call. Any result but ERR_OK ends the reading with that error, whose text the sink has set. */
struct symbfile_sink {
	enum err (*range)(void *arg, const struct symbfile_range *r, struct error *e);
	enum err (*pad)(void *arg, const struct symbfile_pad *p, struct error *e);
	void *arg;
};

struct symbfile_reader;

/* NULL if out of memory. */
struct symbfile_reader *symbfile_reader_new(const struct symbfile_sink *sink);
void symbfile_reader_free(struct symbfile_reader *r);
/* Feeds more bytes, in chunks of any size. ERR_CORRUPT: the text names the byte offset in the file; ERR_NO_MEMORY; what
 * the sink returned. Later calls return the same error. */
enum err symbfile_reader_feed(struct symbfile_reader *r, const uint8_t *data, size_t len, struct error *e);
/* The file ends here. */
enum err symbfile_reader_finish(struct symbfile_reader *r, struct error *e);

struct symbfile_writer;

/* Passes the bytes to write, which returns ERR_OK to go on, or any error. NULL if out of memory. */
struct symbfile_writer *symbfile_writer_new(
        enum err (*write)(void *arg, const uint8_t *data, size_t len, struct error *e), void *arg);
void symbfile_writer_free(struct symbfile_writer *w);
/* Strings must be UTF-8. Records are kept until their string table is written, in at most some 64 MiB. ERR_TOO_LARGE:
 * no message can hold the record (4 GiB of addresses, a million frames, 16 MiB of strings); it is left out, and writing
 * may go on. After any other error it may not. */
enum err symbfile_write_range(struct symbfile_writer *w, const struct symbfile_range *r, struct error *e);
enum err symbfile_write_pad(struct symbfile_writer *w, const struct symbfile_pad *p, struct error *e);
/* The most bytes that the file can have if it is finished now. */
uint64_t symbfile_writer_bound(const struct symbfile_writer *w);
/* Writes the records that are still kept. */
enum err symbfile_writer_finish(struct symbfile_writer *w, struct error *e);

#endif
