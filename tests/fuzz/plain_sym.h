/* SPDX-License-Identifier: Apache-2.0 */
/* A slow plain reader of symbol files, from docs/sym-files.md alone: lists that every answer walks from the start. The
 * yardstick of fuzz_sym. */
#ifndef FUZZ_PLAIN_SYM_H
#define FUZZ_PLAIN_SYM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

/* Texts of no more than this cannot reach the limits of inlined calls, which are not in here. */
enum { PLAIN_SYM_MAX = 8192 };

struct plain_sym;

/* The text must stay. Ends the process without memory. */
struct plain_sym *plain_sym_new(struct str text);
void plain_sym_free(struct plain_sym *s);

bool plain_sym_corrupt(const struct plain_sym *s);
uint64_t plain_sym_damaged(const struct plain_sym *s);
/* As in the file; empty: none. */
struct str plain_sym_code_file(const struct plain_sym *s);

/* Both ends of all that the file names, and what is around them, ascending and each once: at most max. */
size_t plain_sym_offsets(const struct plain_sym *s, uint64_t *offsets, size_t max);

/* Appends what an offset is, one field a line: "-", or the inlined calls from the innermost on and the function, each
 * with name, file and line, and then offset and size in the function. */
void plain_sym_describe(const struct plain_sym *s, uint64_t offset, bool nearest, struct buffer *out);

#endif
