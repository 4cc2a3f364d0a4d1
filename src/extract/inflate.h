/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed stretches of files, inflated into other files block by block, so that memory does not grow with them. */
#ifndef EXTRACT_INFLATE_H
#define EXTRACT_INFLATE_H

#include <stdint.h>

#include "base/error.h"

enum inflate_method { INFLATE_NONE, INFLATE_ZLIB, INFLATE_ZSTD, INFLATE_XZ }; /* INFLATE_NONE: the bytes as they are */

/* len bytes of a file from at on. */
struct inflate_source {
	int fd;
	uint64_t at, len;
};

/* Appends the inflated source to the temporary file `to`, and counts the bytes in *size. Several streams may follow
 * each other; whatever follows the one that ends at max bytes is ignored. ERR_CORRUPT: damaged, cut off, or more than
 * max bytes; ERR_IO; ERR_NO_MEMORY. */
enum err inflate_file(enum inflate_method method, const struct inflate_source *source, uint64_t max, int to,
        uint64_t *size, struct error *e);

#endif
