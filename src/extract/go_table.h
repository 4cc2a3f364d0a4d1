/* SPDX-License-Identifier: Apache-2.0 */
/* Go's table of functions (.gopclntab), which the runtime needs and no strip removes: of Go 1.16 and later.
 *
 *   header      magic, the size of an instruction step and of a pointer, number of functions, offsets of what follows
 *   names       NUL-terminated
 *   units       for each compilation unit the offsets of its files' names, 4 bytes each
 *   files       NUL-terminated
 *   steps       tables of (difference of the value, difference of the address), both varints, ended by a zero
 *   functions   address and offset of each function's record, by address, and the end of the last; then the records
 *
 * A record names the steps of the function's files, lines and inlined calls. The calls themselves are elsewhere in the
 * program: 1.18 and later count from a base that only the runtime's moduledata knows. */
#ifndef EXTRACT_GO_TABLE_H
#define EXTRACT_GO_TABLE_H

#include "base/varint.h"
#include "extract/code_map.h"
#include "extract/image.h"

struct go_table {
	struct image image;
	const struct code_map *code;
	uint64_t address;
	struct str whole, names, units, files, steps, functions;
	uint64_t text;    /* what addresses of functions count from; 1.18 and later */
	uint64_t calls;   /* what offsets of inlined calls count from; 0: unknown */
	size_t count;     /* functions */
	unsigned version; /* 16, 18, 20: the first Go 1.x with this form */
	uint8_t quantum;
};

/* A function. Offsets of steps are 0 when there are none. */
struct go_function {
	uint64_t start, end;
	uint32_t name, unit;
	uint32_t file_steps, line_steps, call_steps;
	struct str calls; /* the calls that were inlined */
};

/* An inlined call. */
struct go_call {
	uint32_t name;
	uint64_t site; /* an address whose file and line are the call's; 0: outside the function */
};

/* Values of a function's code, one stretch after the other. */
struct go_steps {
	struct reader r;
	uint64_t at, end; /* address */
	uint32_t value;
	uint8_t quantum;
	bool started;
};

struct go_step {
	uint64_t start, end;
	int32_t value;
};

/* ERR_MISSING: none that can be read; the text says why, unless there is none at all. ERR_NO_MEMORY. The table must be
 * released after any of these. */
enum err go_table_open(struct go_table *t, Elf *elf, const struct code_map *code, struct error *e);
void go_table_release(struct go_table *t);
/* False: the record is malformed, or is of no code. */
bool go_table_function(const struct go_table *t, size_t i, struct go_function *f);
struct go_steps go_steps_of(const struct go_table *t, const struct go_function *f, uint32_t offset);
bool go_steps_next(struct go_steps *s, struct go_step *step);
/* False: there is no such call. */
bool go_table_call(const struct go_table *t, const struct go_function *f, uint32_t i, struct go_call *call);
/* Where the name of a unit's file is in files; false: it has no such file. */
bool go_table_file(const struct go_table *t, uint32_t unit, int32_t file, uint32_t *offset);

#endif
