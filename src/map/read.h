/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the pages of an offset map. Every read is bounded; a malformed page is ERR_CORRUPT and does no harm. */
#ifndef MAP_READ_H
#define MAP_READ_H

#include "base/arena.h"
#include "base/reason.h"
#include "base/varint.h"
#include "map/offmap.h"

/* The bytes; docs/offset-map.md explains them. */
enum {
	CODE_HEADER = 24,   /* base u64, pieces u32, strings u32, offset of string codes u32, offset of far bytes u32 */
	CODE_ENTRY = 8,     /* address - base u32, offset of the body u32 | PIECE_HAS_LINES */
	STRINGS_HEADER = 8, /* first id u32, count u32 */
	STRING_INLINE_MAX = 127,
	STRING_EXTERNAL = 0x84, /* data: id u32 */
	STRING_FAR = 0x86,      /* data: offset in the far bytes u32, length u16 */
	PIECE_PUBLIC = 1,
	PIECE_CONTINUED = 2,
	PIECE_WHOLE = 4,
	SEGMENT_SAME_NODE = 0,
	SEGMENT_NEW_NODE = 1,
	SEGMENT_NODE = 2,
	SEGMENT_NODE_FILE = 3,
};
#define PIECE_HAS_LINES UINT32_C(0x80000000)

/* A string, escaped for JSON: bytes in the page where it was found, or the id of one in a string page. */
struct offmap_string {
	const uint8_t *data;
	union {
		uint32_t len;  /* without external: of data */
		uint32_t page; /* with external: the caller's number for the string page */
	};
	uint32_t external; /* the id in a string page; 0: data and len hold */
};

struct offmap_call {
	struct offmap_string function, file; /* an empty file is unknown */
	uint32_t line;                       /* 0: unknown */
};

struct offmap_answer {
	bool found;   /* a FUNC or PUBLIC answers */
	bool between; /* not found, but a later symbol is in the same page */
	bool has_size;
	uint64_t function_offset, function_size;
	struct offmap_call frame;    /* the function itself */
	struct offmap_call *inlines; /* innermost first, in the arena */
	uint32_t inline_count;
};

/* Looks up an offset in the raw code page that offmap_code_page names. Strings point into the page. ERR_CORRUPT,
 * ERR_NO_MEMORY. */
enum err offmap_lookup(const struct page *code, uint64_t offset, struct arena *arena, struct offmap_answer *answer);
/* The same for the function only: no file, line or inlined calls, and no memory for them. ERR_CORRUPT. */
enum err offmap_lookup_function(const struct page *code, uint64_t offset, struct offmap_answer *answer);

/* Why an offset has no name. answer: of its lookup; zeroed if no page holds the offset. */
enum reason offmap_reason(const struct offmap *m, uint64_t offset, const struct offmap_answer *answer);

/* Looks up a string in a raw string page. ERR_CORRUPT, ERR_NO_MEMORY. */
enum err offmap_string_lookup(const struct page *strings, uint32_t id, struct offmap_string *out);

/* The steps of offmap_lookup, for callers that read a whole page. */

struct piece {
	uint64_t address, size, from; /* from: the piece's start, as an offset in the function */
	uint64_t covered;             /* bytes it answers for; 0: endless */
	bool is_public, has_lines;
	uint32_t name, segments;
	uint32_t root_file, root_line, node_count;
	struct reader nodes, rest; /* rest: the segments */
};

uint32_t code_page_pieces(const struct page *p); /* 0 if the page is malformed */
bool piece_read(const struct page *p, uint32_t index, struct piece *out);

#endif
