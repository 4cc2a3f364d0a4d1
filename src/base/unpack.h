/* SPDX-License-Identifier: Apache-2.0 */
/* Decompresses what is gzip or zstd by its first bytes, whatever a header or a name says. */
#ifndef BASE_UNPACK_H
#define BASE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum packing { PACKING_UNKNOWN, PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };
enum { PACKING_HEAD = 4 }; /* bytes that tell it for sure */

/* How data that begins with these bytes is packed; PACKING_UNKNOWN: it takes more bytes to tell. */
enum packing packing_of(const uint8_t *head, size_t len);

/* The first bytes of data, until they tell how it is packed. Zeroed at first. */
struct packing_head {
	uint8_t bytes[PACKING_HEAD];
	size_t len;
	enum packing packing;
};
/* Moves bytes of *data to the head while its packing is unknown. False: it still is, and *len is 0. */
bool packing_look(struct packing_head *h, const uint8_t **data, size_t *len);

/* For one text at a time. What it needs is made when it is first needed, and kept. */
struct unpacker;
struct unpacker *unpacker_new(void);
void unpacker_free(struct unpacker *u); /* NULL is fine */
/* Makes it ready for a text that is packed as gzip or zstd. False if out of memory. */
bool unpacker_start(struct unpacker *u, enum packing packing);
/* Consumes *in and *in_len, fills out, and sets *out_len to the bytes written. ERR_CORRUPT, ERR_NO_MEMORY. Call again
 * while *in_len > 0 or *out_len == out_cap. */
enum err unpacker_step(
        struct unpacker *u, const uint8_t **in, size_t *in_len, uint8_t *out, size_t out_cap, size_t *out_len);
/* Whether the input so far is whole. */
bool unpacker_complete(const struct unpacker *u);
/* Whether bytes that belong to no gzip followed it, which were ignored. */
bool unpacker_trails(const struct unpacker *u);
/* "bad gzip" and "gzip ends early", or the same with zstd. */
const char *unpacker_bad(const struct unpacker *u);
const char *unpacker_cut(const struct unpacker *u);

#endif
