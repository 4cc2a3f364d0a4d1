/* SPDX-License-Identifier: Apache-2.0 */
/* The offset map: a parsed symbol file cut into small pages, so that a stack needs a few pages and never the file.
 * docs/offset-map.md gives the bytes; this is the map as it lies in memory. */
#ifndef FORMAT_OFFMAP_H
#define FORMAT_OFFMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"

/* Another one is for the test of two versions side by side alone. */
#ifndef OFFMAP_VERSION_OF_TEST
#define OFFMAP_VERSION_OF_TEST 0
#endif

enum {
	OFFMAP_VERSION = OFFMAP_VERSION_OF_TEST ? OFFMAP_VERSION_OF_TEST : 2,
	OFFMAP_PAGE_SIZE = 8192, /* a page is closed when it reaches this many bytes */
	OFFMAP_SHORT_STRING =
	        64, /* files and inlined functions of at most so many escaped bytes lie in the code page */
	OFFMAP_INLINE_NAME = 1024,  /* and names of functions up to this */
	OFFMAP_PIECE_SEGMENTS = 64, /* a function is cut into pieces of so many segments */
	OFFMAP_NODES_MAX = 100000,  /* inline nodes of one function; with more it keeps its lines only */
};

enum page_kind { PAGE_ROOT = 1, PAGE_CODE = 2, PAGE_STRINGS = 3 };
enum page_codec { CODEC_RAW = 0, CODEC_LZ4 = 1, CODEC_ZSTD = 2 };

/* Where the strings of a string page are in its bytes; those that are sound. */
struct string_index {
	uint32_t count;
	struct {
		uint32_t at, len;
	} strings[];
};

/* One page in memory: immutable, counted. */
struct page {
	atomic_uint refs;
	uint32_t len;                         /* of bytes */
	uint32_t raw_len;                     /* of the page itself; differs from len when codec is not CODEC_RAW */
	uint8_t kind, codec;                  /* enum page_kind, enum page_codec */
	atomic_uchar used;                    /* looked at since the cache's clock passed */
	_Atomic(struct string_index *) index; /* of a string page, made by the first lookup */
	uint8_t bytes[];
};

/* A page with one reference, its bytes not set; NULL without memory. */
struct page *page_new(enum page_kind kind, uint32_t len);
void page_ref(struct page *p);
void page_unref(struct page *p); /* NULL is fine */

/* What the root knows. Slots are NULL for pages that are not in memory; whoever shares a map guards them. */
struct offmap {
	uint64_t generation; /* of the symbol bytes; names the pages in memcached */
	uint64_t marker;     /* the invalidation marker in force when its load began; 0: none */
	uint32_t code_count, string_count;
	uint64_t *code_first;   /* first address of each code page, ascending */
	uint32_t *string_first; /* first string id of each string page, ascending from 1 */
	struct page **code, **strings;
	char *code_file; /* of INFO CODE_ID, escaped for JSON; NULL: none */
	uint32_t code_file_len;
	uint64_t funcs, publics, lines, inlines; /* records of the symbol file */
	uint64_t damaged;                        /* lines of it that were skipped */
	uint64_t text_bytes;                     /* its size */
	uint64_t raw_bytes;                      /* of all code and string pages */
};

/* Frees the map and drops its references to pages; NULL is fine. */
void offmap_free(struct offmap *m);

/* The root as bytes, and back. Decoding checks everything: ERR_CORRUPT, ERR_NO_MEMORY. */
struct page *offmap_root_encode(const struct offmap *m);
enum err offmap_root_decode(const uint8_t *bytes, size_t len, struct offmap **out);

/* The code page that an offset falls in, or -1 below the first. */
int64_t offmap_code_page(const struct offmap *m, uint64_t offset);
/* The string page that holds a string id, or -1. */
int64_t offmap_string_page(const struct offmap *m, uint32_t id);
/* Whether a raw page starts where the map says that the page of this kind and number does. */
bool offmap_is_page(const struct offmap *m, const struct page *p, uint32_t number);

#endif
