/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what may be packed as gzip or zstd, twice at most. */
#ifndef SYMBTOOL_INPUT_H
#define SYMBTOOL_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "symbfile/symbfile.h"

enum input_kind {
	INPUT_ELF, /* and what is read by a view of it as ELF */
	INPUT_SYMBFILE,
	INPUT_OTHER,
};

/* Bytes from `at` to `len` are still to be taken. */
struct input_block {
	size_t at, len;
	uint8_t bytes[64 << 10];
};

struct input;
/* The descriptor stays the caller's. NULL if out of memory. */
struct input *input_new(int fd);
void input_free(struct input *in); /* NULL is fine */
/* *out: the unpacked bytes, at least so many (at most a block) unless they end. ERR_BUSY: a signal came; ERR_IO,
 * ERR_CORRUPT (bad gzip or zstd), ERR_NO_MEMORY. */
enum err input_fill(struct input *in, size_t least, struct input_block **out, struct error *e);
/* Reads what the descriptor has, without a block in between: for what is plain, when its block is empty. */
enum err input_read_some(struct input *in, void *to, size_t size, size_t *len, struct error *e);
/* Whether it is known that nothing is packed; whether the descriptor has ended; whether anything has been read that was
 * not taken, or it has ended. */
bool input_is_plain(const struct input *in);
bool input_ended(const struct input *in);
bool input_has_more(const struct input *in);

/* Reads the first bytes, at most `size`, after inflating them; *len: how many. ERR_IO, ERR_CORRUPT (bad gzip or zstd),
 * ERR_NO_MEMORY. */
enum err input_head(const char *path, void *to, size_t size, size_t *len, struct error *e);
/* Decides by the first bytes, after inflating them. ERR_IO, ERR_CORRUPT (bad gzip or zstd). */
enum err input_kind_of(const char *path, enum input_kind *kind, struct error *e);
/* Passes all bytes to take, whose failure ends the reading. ERR_IO, ERR_CORRUPT, ERR_NO_MEMORY. */
enum err input_read(const char *path, enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e),
        void *arg, struct error *e);
/* Passes the records of a symbfile to sink. The same, and ERR_CORRUPT of symbfile_reader_feed. */
enum err input_symbfile(const char *path, const struct symbfile_sink *sink, struct error *e);

#endif
