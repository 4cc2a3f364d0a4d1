/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "map/value.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/varint.h"

/* The largest raw page: the longest line as a string, each byte escaped to six. */
enum { RAW_MAX = 64 << 20 };

static size_t compress_bound(enum page_codec codec, uint32_t len)
{
	return codec == CODEC_LZ4    ? (size_t)LZ4_compressBound((int)len)
	       : codec == CODEC_ZSTD ? ZSTD_compressBound(len)
	                             : len;
}

/* Returns the bytes written to out, or 0 if that is not smaller. */
static size_t compress(enum page_codec codec, uint8_t *out, size_t room, const uint8_t *in, uint32_t len)
{
	size_t n = 0;
	if (codec == CODEC_LZ4) {
		int done = LZ4_compress_default((const char *)in, (char *)out, (int)len, (int)room);
		n = done > 0 ? (size_t)done : 0;
	} else if (codec == CODEC_ZSTD) {
		n = ZSTD_compress(out, room, in, len, 1);
		n = ZSTD_isError(n) ? 0 : n;
	}
	return n < len ? n : 0;
}

static bool decompress(uint8_t codec, uint8_t *out, uint32_t raw_len, const uint8_t *in, size_t len)
{
	switch (codec) {
	case CODEC_RAW:
		if (len == raw_len)
			memcpy(out, in, len);
		return len == raw_len;
	case CODEC_LZ4:
		return len <= INT32_MAX &&
		       LZ4_decompress_safe((const char *)in, (char *)out, (int)len, (int)raw_len) == (int)raw_len;
	case CODEC_ZSTD:
		return ZSTD_decompress(out, raw_len, in, len) == raw_len;
	default:
		return false;
	}
}

static void write_header(uint8_t *at, const struct value_id *id, uint8_t codec, uint32_t raw_len)
{
	at = put_u32(at, VALUE_MAGIC);
	*at++ = OFFMAP_VERSION;
	*at++ = id->kind;
	*at++ = codec;
	*at++ = 0;
	memcpy(at, id->module.bytes, sizeof id->module.bytes);
	at = put_u64(at + sizeof id->module.bytes, id->generation);
	at = put_u32(at, id->number);
	put_u32(at, raw_len);
}

/* False if the sum cannot be computed; then nothing is believed. */
static bool sum_of(uint64_t *sum, struct mac *mac, const uint8_t *header, const uint8_t *payload, size_t len)
{
	if (mac)
		return mac_tag(mac, header, VALUE_HEADER - 8, payload, len, sum);
	*sum = checksum(header, VALUE_HEADER - 8, payload, len);
	return true;
}

enum err value_encode(
        struct buffer *out, const struct value_id *id, const struct page *page, enum page_codec codec, struct mac *mac)
{
	buffer_reset(out);
	size_t bound = compress_bound(page->codec == CODEC_RAW ? codec : CODEC_RAW, page->len);
	if (!buffer_reserve(out, VALUE_HEADER + (bound > page->len ? bound : page->len)))
		return ERR_NO_MEMORY;
	uint8_t used = page->codec, *payload = out->data + VALUE_HEADER;
	size_t n = 0;
	if (page->codec == CODEC_RAW && codec != CODEC_RAW &&
	        (n = compress(codec, payload, bound, page->bytes, page->len)))
		used = (uint8_t)codec;
	if (!n)
		memcpy(payload, page->bytes, n = page->len);
	write_header(out->data, id, used, page->raw_len);
	uint64_t sum;
	if (!sum_of(&sum, mac, out->data, payload, n))
		return ERR_NO_MEMORY;
	put_u64(out->data + VALUE_HEADER - 8, sum);
	out->len = VALUE_HEADER + n;
	return ERR_OK;
}

enum err value_decode(const uint8_t *value, size_t len, const struct value_id *id, struct mac *mac, struct page **out)
{
	uint8_t expected[VALUE_HEADER];
	*out = NULL;
	if (len < VALUE_HEADER)
		return ERR_CORRUPT;
	uint8_t codec = value[6];
	uint32_t raw_len = get_u32(value + 36);
	write_header(expected, id, codec, raw_len);
	if (memcmp(value, expected, VALUE_HEADER - 8) != 0)
		return ERR_CORRUPT;
	uint64_t sum;
	if (!sum_of(&sum, mac, value, value + VALUE_HEADER, len - VALUE_HEADER))
		return ERR_NO_MEMORY;
	if (get_u64(value + VALUE_HEADER - 8) != sum || raw_len > RAW_MAX)
		return ERR_CORRUPT;
	struct page *p = page_new(id->kind, raw_len);
	if (!p)
		return ERR_NO_MEMORY;
	if (!decompress(codec, p->bytes, raw_len, value + VALUE_HEADER, len - VALUE_HEADER)) {
		page_unref(p);
		return ERR_CORRUPT;
	}
	*out = p;
	return ERR_OK;
}

struct page *page_compress(struct page *p, enum page_codec codec)
{
	if (p->codec != CODEC_RAW || codec == CODEC_RAW)
		return p;
	size_t bound = compress_bound(codec, p->len);
	uint8_t *room = malloc(bound);
	size_t n = room ? compress(codec, room, bound, p->bytes, p->len) : 0;
	struct page *small = n ? page_new(p->kind, (uint32_t)n) : NULL;
	if (small) {
		memcpy(small->bytes, room, n);
		small->codec = (uint8_t)codec;
		small->raw_len = p->raw_len;
		page_unref(p);
		p = small;
	}
	free(room);
	return p;
}

struct page *page_expand(struct page *p)
{
	if (p->codec == CODEC_RAW) {
		page_ref(p);
		return p;
	}
	struct page *raw = page_new(p->kind, p->raw_len);
	if (raw && !decompress(p->codec, raw->bytes, raw->len, p->bytes, p->len)) {
		page_unref(raw);
		return NULL;
	}
	return raw;
}
