/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a text as it arrives: gzip and zstd are unpacked, UTF-16 with its byte order mark becomes UTF-8. */
#ifndef SYMBTOOL_TEXT_INPUT_H
#define SYMBTOOL_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { TEXT_INPUT_LEAST = 8 }; /* bytes of room that a reader needs */

struct text_input;
/* The descriptor stays the caller's. NULL if out of memory. */
struct text_input *text_input_new(int fd);
void text_input_free(struct text_input *in); /* NULL is fine */

/* *len: 0 at the end. ERR_BUSY: a signal came before anything else; ERR_IO, ERR_CORRUPT (bad gzip or zstd),
 * ERR_NO_MEMORY. */
enum err text_input_read(struct text_input *in, char *to, size_t size, size_t *len, struct error *e);
/* Whether a read would not wait; if it would, waits for at most so many milliseconds. */
bool text_input_wait(struct text_input *in, int milliseconds);

#endif
