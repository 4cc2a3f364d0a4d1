/* SPDX-License-Identifier: Apache-2.0 */
/* Pages as memcached values: a 48-byte header, then the page raw or compressed. docs/offset-map.md describes the bytes.
 */
#ifndef MAP_VALUE_H
#define MAP_VALUE_H

#include "base/buffer.h"
#include "base/mac.h"
#include "map/offmap.h"

enum { VALUE_HEADER = 48 };
#define VALUE_MAGIC UINT32_C(0x314d5359) /* "YSM1" */

/* What a value's header must contain for the value to be believed. number: of the page within its kind; a root has
 * number and generation 0. */
struct value_id {
	struct module_hash module;
	uint64_t generation;
	uint32_t number;
	uint8_t kind;
};

/* mac makes the checksum, and must be the same for writing and reading. NULL: XXH3, which detects damage but not
 * forgery. */
/* Replaces the contents of out by the page's value. A raw page is compressed with codec if that makes it smaller. */
enum err value_encode(
        struct buffer *out, const struct value_id *id, const struct page *page, enum page_codec codec, struct mac *mac);
/* Makes a raw page, with one reference, from a value. ERR_CORRUPT for anything but the complete, right value. */
enum err value_decode(const uint8_t *value, size_t len, const struct value_id *id, struct mac *mac, struct page **out);

/* Compresses a page that stays in memory. Takes over p; returns p itself if compression does not pay or memory is
 * short. */
struct page *page_compress(struct page *p, enum page_codec codec);
/* A raw copy of a compressed page; a raw page gets a further reference. NULL if out of memory or corrupt. */
struct page *page_expand(struct page *p);

#endif
