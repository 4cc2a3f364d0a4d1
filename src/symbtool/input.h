/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file in pieces, inflating gzip and zstd on the way. */
#ifndef SYMBTOOL_INPUT_H
#define SYMBTOOL_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "symbfile/symbfile.h"

enum input_kind {
	INPUT_ELF, /* and what is read by a view of it as ELF */
	INPUT_SYMBFILE,
	INPUT_OTHER,
};

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
