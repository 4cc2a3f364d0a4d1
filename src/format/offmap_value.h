/* SPDX-License-Identifier: Apache-2.0 */
/* Pages as values of memcached: a 48-byte header, then the page raw or compressed. docs/offset-map.md gives the bytes.
 */
#ifndef FORMAT_OFFMAP_VALUE_H
#define FORMAT_OFFMAP_VALUE_H

#include "base/buffer.h"
#include "base/mac.h"
#include "format/offmap.h"

enum { VALUE_HEADER = 48 };
#define VALUE_MAGIC UINT32_C(0x314d5359) /* "YSM1" */

/* What a value must say of itself to be believed. number: of the page within its kind; 0 and generation 0 for a root.
 */
struct value_id {
	struct module_hash module;
	uint64_t generation;
	uint32_t number;
	uint8_t kind;
};

/* mac: what makes the checksum, the same for writing and reading; NULL: XXH3, which finds damage and no forgery. */
/* Writes the value for a page into out (emptied first). A raw page is compressed with codec if that makes it smaller.
 */
enum err value_encode(
        struct buffer *out, const struct value_id *id, const struct page *page, enum page_codec codec, struct mac *mac);
/* A raw page from a value; ERR_CORRUPT for anything that is not the whole and right value. The new page has one
 * reference. */
enum err value_decode(const uint8_t *value, size_t len, const struct value_id *id, struct mac *mac, struct page **out);

/* The page compressed, for pages that wait in memory; takes p and gives it back when that doesn't pay or memory is
 * short. */
struct page *page_compress(struct page *p, enum page_codec codec);
/* A raw copy of a compressed page; a raw one gets a further reference. NULL: no memory or corrupt. */
struct page *page_expand(struct page *p);

#endif
