/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the messages of a symbfile. */
#ifndef SYMBFILE_WIRE_H
#define SYMBFILE_WIRE_H

#include <stdint.h>

/* Of the types of messages, and of their fields. */
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

#endif
