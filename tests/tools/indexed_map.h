/* SPDX-License-Identifier: Apache-2.0 */
/* Maps that are made from records, in the ways in which they may be: for tests. */
#ifndef TESTS_INDEXED_MAP_H
#define TESTS_INDEXED_MAP_H

#include "base/error.h"
#include "base/str.h"
#include "map/offmap.h"

struct indexed_how {
	bool nearest;
	size_t chunk;       /* bytes that are fed at once; 0: all */
	uint64_t shuffle;   /* pages are made in an order that this chooses; 0: in theirs */
	unsigned threads;   /* that make pages; 0 and no shuffle: as sympages_all */
	uint32_t page_text; /* as of records_new */
};

/* The whole map, its pages raw; NULL with *e: corrupt. Ends the process without memory. */
struct offmap *indexed_map(struct str text, struct str id, const struct indexed_how *how, struct error *e);

#endif
