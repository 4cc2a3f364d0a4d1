/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming decompression of zstd, with the calls of gunzip (gzip.h). */
#ifndef BASE_UNZSTD_H
#define BASE_UNZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The largest window that is read, as a power of two: what `zstd -d` reads unless it is told more. */
enum { UNZSTD_WINDOW_LOG_MAX = 27 };

/* Several frames make one text; anything else after a frame is an error. A window is charged to the account. */
struct unzstd;
struct unzstd *unzstd_new(void);
void unzstd_free(struct unzstd *z);
/* Gives a large window back. */
void unzstd_reset(struct unzstd *z);
/* As gunzip_step: ERR_CORRUPT also for a frame whose window is too large. */
enum err unzstd_step(
        struct unzstd *z, const uint8_t **in, size_t *in_len, uint8_t *out, size_t out_cap, size_t *out_len);
/* Whether the input so far ends exactly at the end of a frame. */
bool unzstd_complete(const struct unzstd *z);

#endif
