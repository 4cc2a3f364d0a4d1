/* SPDX-License-Identifier: Apache-2.0 */
/* Turns frames into answers: sorts them by module and offset, fetches their pages together, and looks up each distinct
 * frame once. */
#ifndef API_SYMBOLICATE_H
#define API_SYMBOLICATE_H

#include "base/help.h"
#include "base/yield.h"
#include "cache/hot_frames.h"
#include "cache/page_memcached.h"
#include "map/read.h"
#include "modules/modules.h"

/* One frame to look up. */
struct lookup {
	uint64_t offset;
	uint32_t want;  /* index of its module */
	uint32_t frame; /* the caller's number for it */
};

/* A distinct frame, ready to be written. */
struct symbol {
	uint64_t offset;
	uint64_t size;               /* bytes of its text: v5 tail or v4 head */
	const struct hot_frame *hot; /* that text, if it was kept: then only `found` is set in answer */
	struct offmap_answer answer;
};

/* The symbols of a request and the memory that holds their strings, until the reply is written. */
struct symbols {
	uint64_t max_size, max_pages;
	int64_t deadline; /* clock_now() */
	struct arena *arena;
	struct page_get *pages; /* a reference to each */
	uint32_t page_count, page_cap;
	struct hot_frame **hot; /* a reference to each */
	uint32_t hot_count, hot_cap;
	uint64_t size;                /* bytes of the texts of all lookups */
	uint64_t largest;             /* bytes of the largest text */
	struct symbols_share *shares; /* what helpers looked up */
};

enum symbolicate_result {
	SYMBOLICATE_OK,
	SYMBOLICATE_LOAD,      /* a page was lost, so some wants are LOAD again: load them and call again */
	SYMBOLICATE_GONE,      /* yield has returned false */
	SYMBOLICATE_TOO_LATE,  /* the deadline has passed */
	SYMBOLICATE_TOO_LARGE, /* the texts are larger than a reply may be */
	SYMBOLICATE_NO_MEMORY,
	SYMBOLICATE_NO_SEGMENTS, /* not by symbolicate: what tells where a module is loaded cannot be asked right now */
};

struct symbolicate_stats {
	uint64_t found; /* lookups that found a symbol */
	uint64_t cache_count, cache_hits,
	        cache_bytes; /* pages wanted; pages found in memory or memcached; bytes received from memcached */
	int64_t cache_time;
};

/* max_size: most bytes of text. max_pages: up to so many bytes of pages are held; beyond that, strings are copied.
 * deadline: clock_now(). The arena must be used for nothing else. */
void symbols_init(struct symbols *s, struct arena *arena, uint64_t max_size, uint64_t max_pages, int64_t deadline);
/* Releases everything and empties the arena; the symbols can be used again. */
void symbols_release(struct symbols *s);

struct symbolication {
	struct modules *modules;
	struct module_want *wants; /* those that lookups refer to must be FOUND */
	size_t want_count;
	struct lookup *lookups; /* symbolicate sorts them */
	size_t lookup_count;
	bool functions_only;             /* as in v4: no files, lines or inlined calls */
	struct hot_frames *hot;          /* where texts are kept; NULL: the caller needs the answers themselves */
	struct symbols *symbols;         /* must be empty */
	const struct symbol **symbol_of; /* out, by lookup.frame */
	struct symbolicate_stats *stats; /* added to */
	struct yield yield;
	struct help help; /* for many lookups */
};

/* Looks up all frames, each distinct one once. Call it again after SYMBOLICATE_LOAD. */
enum symbolicate_result symbolicate(const struct symbolication *in);

#endif
