/* SPDX-License-Identifier: Apache-2.0 */
/* The offset map: a parsed symbol file cut into small pages, so that a stack needs a few pages and never the whole
 * file. This is the map in memory; docs/offset-map.md describes the bytes. */
#ifndef MAP_OFFMAP_H
#define MAP_OFFMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "map/file_map.h"

/* Only the test of two versions side by side sets another one. */
#ifndef OFFMAP_VERSION_OF_TEST
#define OFFMAP_VERSION_OF_TEST 0
#endif

enum {
	OFFMAP_VERSION = OFFMAP_VERSION_OF_TEST ? OFFMAP_VERSION_OF_TEST : 4,
	OFFMAP_PAGE_SIZE = 8192,    /* a page is closed when it reaches this many bytes */
	OFFMAP_SHORT_STRING = 64,   /* file names and names of inlined functions of up to this many escaped bytes are in
	                               the code page */
	OFFMAP_INLINE_NAME = 1024,  /* so are function names of up to this many */
	OFFMAP_PIECE_SEGMENTS = 64, /* segments in each piece of a function that is cut */
	OFFMAP_NODES_MAX = 100000,  /* inline nodes of one function; a function with more keeps only its lines */
	OFFMAP_REPEATED_MAX = 5 * OFFMAP_NODES_MAX, /* the same for a function's nodes in all its spans: each repeats
	                                               the chain at its start */
	OFFMAP_CODE_ID_SIZE = 72,
};

enum page_kind { PAGE_ROOT = 1, PAGE_CODE = 2, PAGE_STRINGS = 3 };
enum page_codec { CODEC_RAW = 0, CODEC_LZ4 = 1, CODEC_ZSTD = 2 };

/* Where the strings of a string page are in its bytes; ends before the first corrupt one. */
struct string_index {
	uint32_t count;
	struct {
		uint32_t at, len;
	} strings[];
};

/* One page in memory: immutable and reference-counted. */
struct page {
	atomic_uint refs;
	uint32_t len;                         /* of bytes */
	uint32_t raw_len;                     /* of the uncompressed page; equals len for CODEC_RAW */
	uint8_t kind, codec;                  /* enum page_kind, enum page_codec */
	atomic_uchar used;                    /* since the cache's clock last passed */
	_Atomic(struct string_index *) index; /* for a string page, made by the first lookup */
	uint8_t bytes[];
};

/* A page with one reference and uninitialised bytes, charged to the account; NULL if out of memory. */
struct page *page_new(enum page_kind kind, uint32_t len);
void page_ref(struct page *p);
void page_unref(struct page *p); /* NULL is fine */

/* What the root holds, and slots for the pages: NULL if a page is not in memory. Threads that share a map must guard
 * the slots. */
struct offmap {
	uint64_t generation; /* hash of the symbol file; part of its pages' keys in memcached */
	uint64_t marker;     /* the invalidation marker when its load began; 0: unknown */
	uint64_t origin;     /* of what list of sources the file came from the last; 0: from none. Not in the root */
	uint32_t code_count, string_count;
	uint64_t *code_first;   /* first address of each code page, ascending */
	uint32_t *string_first; /* first string id of each string page, ascending from 1 */
	struct page **code, **strings;
	char *code_file; /* from INFO CODE_ID, escaped for JSON; code_file_len 0: none */
	uint32_t code_file_len;
	char code_id[OFFMAP_CODE_ID_SIZE];       /* from the same line, as it stands; empty: none, or none that fits */
	struct file_map file;                    /* of an executable, at addresses in the image */
	uint64_t funcs, publics, lines, inlines; /* counts of records in the symbol file */
	uint64_t damaged;                        /* lines that were skipped */
	uint64_t lacking; /* units of debug data of which entries are in files that no source had; then it is not kept
	                     long */
	uint64_t text_bytes; /* size of the symbol file */
	uint64_t raw_bytes;  /* of all code and string pages, uncompressed; 0: not all have been made yet */
};

/* A map with room for so many pages, of which none is in memory, and for a code file of so many bytes. NULL if out of
 * memory. */
struct offmap *offmap_new(uint32_t code_count, uint32_t string_count, size_t code_file_room);
/* Frees the map and releases its pages; NULL is fine. */
void offmap_free(struct offmap *m);

/* Whether all pages have been made, so that memcached has, or had, each of a stored map. */
static inline bool offmap_is_whole(const struct offmap *m)
{
	return m->raw_bytes || !(m->code_count + m->string_count);
}

/* Encode and decode the root. Decoding checks everything: ERR_CORRUPT, ERR_NO_MEMORY. */
struct page *offmap_root_encode(const struct offmap *m);
enum err offmap_root_decode(const uint8_t *bytes, size_t len, struct offmap **out);

/* The number of the code page for an offset, or -1 if it is below the first. */
int64_t offmap_code_page(const struct offmap *m, uint64_t offset);
/* The number of the string page that holds an id, or -1. */
int64_t offmap_string_page(const struct offmap *m, uint32_t id);
/* Whether a raw page starts at the address or id that the map has for the page of this kind and number. */
bool offmap_is_page(const struct offmap *m, const struct page *p, uint32_t number);

#endif
