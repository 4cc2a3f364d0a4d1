/* Frames to answers: sorted by module and offset, pages fetched together, each distinct frame rendered once. */
#ifndef SYMBOLICATE_H
#define SYMBOLICATE_H

#include "base/buffer.h"
#include "modules.h"

/* One frame to look up. */
struct lookup {
	uint64_t offset;
	uint32_t want;  /* index of its module */
	uint32_t frame; /* the caller's number for it */
};

/* Where a frame's text is in the rendered bytes. */
struct rendered {
	uint64_t at;
	uint32_t len;
};

enum symbolicate_result {
	SYMBOLICATE_OK,
	SYMBOLICATE_LOAD,      /* some wants have become LOAD: a page was lost; load them and call again */
	SYMBOLICATE_TOO_LARGE, /* the rendered bytes are above the cap of their buffer */
	SYMBOLICATE_NO_MEMORY,
};

struct symbolicate_stats {
	uint64_t found; /* lookups that a symbol answers */
	uint64_t cache_count, cache_hits,
	        cache_bytes; /* pages: wanted, in memory or memcached, and the bytes that came over the wire */
	int64_t cache_time;
};

/* Looks all frames up and renders each distinct one into `bytes` (v5 tails, or v4 heads); places[lookup.frame] says
 * where. All wants that lookups refer to are FOUND. Sorts the lookups. */
enum symbolicate_result symbolicate(struct modules *m, struct module_want *wants, size_t want_count,
        struct lookup *lookups, size_t count, bool v4, struct buffer *bytes, struct rendered *places,
        struct symbolicate_stats *stats);

#endif
