/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the lines of a Breakpad symbol file one at a time; docs/sym-files.md has the grammar. For speed, try
 * sym/text_scan.h first for line and INLINE records, and use this for what it refuses. */
#ifndef SYM_LINE_H
#define SYM_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { BREAKPAD_LINE_MAX = (1 << 20) + (1 << 16) }; /* bytes without the line end; longer lines are damaged */

/* The unread part of a line, without its line end. */
struct line {
	const uint8_t *at, *end;
};

enum line_kind {
	LINE_BLANK,
	LINE_FUNC,
	LINE_INLINE,
	LINE_PUBLIC,
	LINE_ORIGIN,
	LINE_FILE,
	LINE_STACK,
	LINE_INFO,
	LINE_OTHER, /* a line record, or damaged */
};

/* The part of the line [at, end), without its line feed, that counts: up to a NUL, and without trailing CRs. */
struct line line_content(const uint8_t *at, const uint8_t *end);
/* Skips blanks and the keyword; for LINE_OTHER there is no keyword. */
enum line_kind line_take_kind(struct line *l);

/* Read the fields after the keyword. False if the line is damaged. Strings point into the line; a name may be empty. */
bool line_read_module(struct line l, struct str *id); /* keyword included; a byte order mark may precede it */
/* What a first line that is not MODULE shows the file to be: ": it is UTF-16, not UTF-8", or "". */
const char *line_foreign(const uint8_t *at, const uint8_t *end);
/* Whether it is the id that is asked for, whatever the case. One of 32 digits lacks its age: 0. */
bool line_is_module_id(struct str id, struct str asked);
/* FUNC or PUBLIC, which has size 0. */
bool line_read_symbol(struct line l, bool is_public, uint64_t *addr, uint64_t *size, struct str *name);
/* What FILE and INLINE_ORIGIN define. */
struct definition_fields {
	uint64_t id;
	struct str name;
	uint32_t file; /* of an origin, in the form of 2021 */
	bool has_file;
};

bool line_read_definition(struct line l, bool is_origin, struct definition_fields *out);
/* *line is 0 if it is none, such as a negative one. */
bool line_read_record(struct line l, uint64_t *addr, uint64_t *size, uint32_t *line, uint64_t *file);
/* Reads code id and name of the code file; false if this INFO line has no id. */
bool line_read_code_file(struct line l, struct str *id, struct str *name);

/* An INLINE record without its ranges. */
struct inline_fields {
	uint32_t depth, call_line, call_file, origin;
	bool has_call_file; /* false in the form of 2021 */
};

/* Leaves *l at the ranges, of which there is at least one. */
bool line_read_inline(struct line *l, struct inline_fields *out);
/* Reads the next range; false if there are no more. */
bool line_take_range(struct line *l, uint64_t *addr, uint64_t *size);

/* Read the digits at *at, of a number of at most 64 bits. *at stays where it is if there are none, or more. */
bool line_slow_hex(const uint8_t **at, const uint8_t *end, uint64_t *value);
bool line_slow_decimal(const uint8_t **at, const uint8_t *end, uint64_t *value);

#endif
