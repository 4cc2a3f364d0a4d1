/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to answers: sorted by module and offset, pages fetched together, each distinct frame looked up once. */
#ifndef MODULES_SYMBOLICATE_H
#define MODULES_SYMBOLICATE_H

#include "format/offmap_read.h"
#include "modules/modules.h"
#include "store/page_memcached.h"

/* One frame to look up. */
struct lookup {
	uint64_t offset;
	uint32_t want;  /* index of its module */
	uint32_t frame; /* the caller's number for it */
};

/* A distinct frame, ready to be written. */
struct symbol {
	uint64_t offset;
	uint64_t size; /* of its text: v5 tail or v4 head */
	struct offmap_answer answer;
};

/* The symbols of a request, and what their strings lie in, until its reply is written. */
struct symbols {
	uint64_t max_size, max_pages;
	int64_t deadline; /* clock_now() */
	struct arena *arena;
	struct page_get *pages; /* with a reference each */
	uint32_t page_count, page_cap;
	uint64_t page_bytes; /* of these pages */
	uint64_t size;       /* of the texts of all lookups */
	uint64_t largest;    /* of one text */
};

enum symbolicate_result {
	SYMBOLICATE_OK,
	SYMBOLICATE_LOAD,      /* some wants have become LOAD: a page was lost; load them and call again */
	SYMBOLICATE_TOO_LATE,  /* the deadline has passed */
	SYMBOLICATE_TOO_LARGE, /* the texts are larger than a reply may be */
	SYMBOLICATE_NO_MEMORY,
};

struct symbolicate_stats {
	uint64_t found; /* lookups that a symbol answers */
	uint64_t cache_count, cache_hits,
	        cache_bytes; /* pages: wanted, in memory or memcached, and the bytes that came over the wire */
	int64_t cache_time;
};

/* At most max_size bytes of text; while their pages are within max_pages bytes they are held, and of what is more the
 * strings are copied. The arena is theirs alone. */
void symbols_init(struct symbols *s, struct arena *arena, uint64_t max_size, uint64_t max_pages, int64_t deadline);
/* Gives everything back, and empties the arena; ready to be used again. */
void symbols_release(struct symbols *s);

/* What is looked up, and where the answers go. */
struct symbolication {
	struct modules *modules;
	struct module_want *wants; /* those that lookups refer to are FOUND */
	size_t want_count;
	struct lookup *lookups; /* they are sorted */
	size_t lookup_count;
	bool functions_only;             /* as v4 has it: no files, lines and inlined calls */
	struct symbols *symbols;         /* empty */
	const struct symbol **symbol_of; /* by lookup.frame */
	struct symbolicate_stats *stats; /* is added to */
};

/* Looks all frames up, each distinct one once. */
enum symbolicate_result symbolicate(const struct symbolication *in);

#endif
