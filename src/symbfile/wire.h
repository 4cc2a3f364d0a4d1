/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a symbfile as they are in the file: addresses may be relative, and strings may be references. */
#ifndef SYMBFILE_WIRE_H
#define SYMBFILE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* Numbers of the types of messages and of their fields. */
enum { MESSAGE_HEADER = 1, MESSAGE_RANGE = 2, MESSAGE_PAD = 3, MESSAGE_TABLE = 4, MESSAGE_TYPE_MAX = INT32_MAX };
enum {
	RANGE_DELTA = 1,
	RANGE_LENGTH = 2,
	RANGE_FUNC = 3,
	RANGE_FILE = 4,
	RANGE_CALL_LINE = 5,
	RANGE_CALL_FILE = 6,
	RANGE_DEPTH = 7,
	RANGE_LINES = 8,
	RANGE_FUNC_REF = 9,
	RANGE_FILE_REF = 10,
	RANGE_CALL_FILE_REF = 11,
	RANGE_SET = 12,
	LINES_OFFSET = 1,
	LINES_LINE = 2,
	PAD_DELTA = 1,
	PAD_FUNC = 2,
	PAD_FILE = 3,
	PAD_LINE = 4,
	PAD_SET = 5,
	TABLE_STRING = 1,
};

#define SYMBFILE_MAGIC "symbfile"

/* The first fault in the body of a message, and its place in the body. */
struct wire_fault {
	const char *text;
	const uint8_t *at;
};

struct wire_address {
	enum { ADDRESS_NONE, ADDRESS_DELTA, ADDRESS_SET } kind;
	uint64_t value; /* for ADDRESS_DELTA a difference, modulo 2^64 */
};

struct wire_text {
	enum { TEXT_NONE, TEXT_LITERAL, TEXT_REF } kind;
	struct str literal; /* in the message */
	uint32_t ref;
	const uint8_t *at; /* the field */
};

struct wire_column {
	uint32_t *items;
	size_t count;
	uint32_t cap;
};

/* These keep their memory from one message to the next. Zero them before their first use; the functions below release
 * them. */

/* A range or a return pad. */
struct wire_record {
	struct wire_address address;
	struct wire_text func, file, call_file;
	uint64_t length;
	uint32_t call_line, depth;
	struct wire_column offsets, funcs, files, lines;
};

struct wire_table {
	uint8_t *copy;         /* of the message */
	struct wire_column at; /* of each string's field in the copy */
	size_t len;            /* of the copy */
};

/* Replace the old contents. ERR_CORRUPT, with the fault set, or ERR_NO_MEMORY. */
enum err wire_header_read(struct str body, struct wire_fault *fault);
enum err wire_range_read(struct wire_record *r, struct str body, struct wire_fault *fault);
enum err wire_pad_read(struct wire_record *r, struct str body, struct wire_fault *fault);
enum err wire_table_read(struct wire_table *t, struct str body, struct wire_fault *fault);
void wire_record_release(struct wire_record *r);
void wire_table_release(struct wire_table *t);

/* index must be below t->at.count. The string points into the table. */
struct str wire_table_string(const struct wire_table *t, uint32_t index);

#endif
