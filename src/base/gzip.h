/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming gzip compression and decompression, with ISA-L if configure found it, else with zlib. */
#ifndef BASE_GZIP_H
#define BASE_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"

/* Decompresses. Several members make one text. As in gzip, zero bytes after the last member are padding; other bytes
 * that do not start a new member are an error. */
struct gunzip;
struct gunzip *gunzip_new(void);
void gunzip_free(struct gunzip *g);
void gunzip_reset(struct gunzip *g);
/* From now on what follows the last member and starts no other is ignored, as gzip(1) does; gunzip_trails says whether
 * there was such. */
void gunzip_ignore_trailing(struct gunzip *g);
bool gunzip_trails(const struct gunzip *g);
/* Consumes *in and *in_len, fills out, and sets *out_len to the bytes written. ERR_CORRUPT (bad header, data, CRC or
 * length), ERR_NO_MEMORY; then *in and *in_len mean nothing. Call again while *in_len > 0 or *out_len == out_cap. */
enum err gunzip_step(
        struct gunzip *g, const uint8_t **in, size_t *in_len, uint8_t *out, size_t out_cap, size_t *out_len);
/* Whether the input so far ends exactly at the end of a member, or in padding. */
bool gunzip_complete(const struct gunzip *g);

/* Compresses a text, piece by piece, to one gzip member at a fast level. size: about how many bytes will come. */
struct gzip;
struct gzip *gzip_new(uint64_t size);
void gzip_free(struct gzip *g); /* NULL is fine */
/* false if out of memory. */
bool gzip_add(struct gzip *g, const void *data, size_t len);
/* Hands out the bytes made so far, if they are at least `least`, else none; they are valid until the next call. */
struct iovec gzip_take(struct gzip *g, size_t least);
/* Ends the member and returns its bytes, less those that were taken, in memory from malloc that the caller frees. */
enum err gzip_finish(struct gzip *g, uint8_t **out, size_t *out_len);

/* All of it at once. */
enum err gzip_compress(const void *data, size_t len, uint8_t **out, size_t *out_len);

#endif
