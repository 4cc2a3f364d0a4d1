/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses and modules that the user asks about. */
#ifndef SYMBTOOL_QUESTION_H
#define SYMBTOOL_QUESTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbtool/ask.h"

enum { QUESTION_FRAMES = 200000, QUESTION_MODULES = 10000 }; /* at most, as a server accepts */

struct question {
	char **modules; /* as they were given */
	size_t module_count;
	uint32_t module_cap;
	json_t *numbers; /* of the modules, by name */
	struct ask_frame *frames;
	uint64_t *as_hex; /* of each what its digits mean in hex, if they were read as decimal and mean something else;
	                     or 0 */
	size_t count;
	uint32_t cap, hex_cap;
	size_t *ends; /* of each stack, in frames */
	size_t stack_count;
	uint32_t stack_cap;
	bool hex;              /* addresses without 0x are hex */
	bool return_addresses; /* look up all frames of a stack except the first one byte before */
	/* Where a function of a module begins, or false; NULL: functions are not known. */
	bool (*function)(const char *module, const char *name, uint64_t *address);
};

/* Zeroed at first. */
void question_release(struct question *q);
/* The number of a module, which is added if it is new. ERR_NO_MEMORY, ERR_TOO_LARGE. */
enum err question_module(struct question *q, const char *name, uint32_t *number, struct error *e);
/* Adds a frame to the current stack: ADDRESS, of this module, FUNCTION+ADDRESS of module 0, or MODULE+ADDRESS.
 * ERR_BAD_REQUEST as well. */
enum err question_frame(struct question *q, uint32_t module, const char *text, struct error *e);
/* Ends the stack; an empty one is ignored. */
enum err question_end_stack(struct question *q, struct error *e);
/* Adds a stack, whose frames are separated by blanks. The first word may be the module of those that follow, behind
 * CODE and within quotes, as llvm-symbolizer has it. A line with a malformed frame adds nothing. */
enum err question_line(struct question *q, char *line, struct error *e);
/* Keeps only the frames whose digits may have been meant as hex, at most max, read so: of those that were answered
 * without a name. Returns how many. */
size_t question_read_as_hex(struct question *q, size_t max);
/* Forgets the frames; modules keep their numbers. */
void question_reset(struct question *q);

#endif
