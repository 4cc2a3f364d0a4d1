/* SPDX-License-Identifier: Apache-2.0 */
/* Every damaged line of a Breakpad symbol file, and why it cannot be read. */
#ifndef SYMBTOOL_CHECK_SYM_H
#define SYMBTOOL_CHECK_SYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { SYM_LINE_SHOWN = 120 }; /* bytes of a damaged line that are kept */

struct sym_damage {
	uint64_t number; /* of the line, from 1 */
	const char *reason;
	char text[SYM_LINE_SHOWN + 1]; /* what is not printable is '?' */
};

struct sym_report {
	uint64_t funcs, publics, lines, inlines;
	uint64_t damaged;
	struct sym_damage *items; /* of the first of them */
	size_t count;
	uint32_t cap;
	uint64_t problem_line; /* 0: of the file as a whole */
	char problem[256];     /* why it is no symbol file; empty: it is one */
};

/* ERR_IO, ERR_NO_MEMORY; ERR_CORRUPT when no line could be read. What is wrong further on is no error but in the
 * report. */
enum err check_sym(const char *path, struct sym_report *report, struct error *e);
void sym_report_release(struct sym_report *r);
bool sym_report_is_sound(const struct sym_report *r);
void sym_report_print(const struct sym_report *r, const char *path, bool json);

#endif
