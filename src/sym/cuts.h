/* SPDX-License-Identifier: Apache-2.0 */
/* Where pages may begin within a FUNC that has more text than a page may read. */
#ifndef SYM_CUTS_H
#define SYM_CUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sym/index.h"
#include "sym/records.h"

/* Looks for cuts. Zero it, and set page_text, before first use. */
struct cut_finder {
	uint64_t page_text; /* bytes of text that a page may read */
	uint64_t *cuts;     /* addresses within FUNCs, of one after the other; ascending in each */
	uint32_t count, cap;
	bool (*grown)(void *arg); /* told when an array has grown, before it is touched; false: no more. NULL: it may */
	void *arg;
	struct symrecords records; /* free for other use between two calls */
	/* private */
	uint64_t *events; /* addresses where a segment of the FUNC may start */
	uint32_t event_count, events_cap;
};

/* Whether it has so much text, or covers so many addresses, that it is cut. */
bool cuts_are_needed(const struct cut_finder *f, const struct symindex_symbol *s);
/* Adds the FUNC's cuts: its text is shared evenly, and no segment starts too far above a page's first address. False if
 * out of memory, or if the text is not available; then some may have been added. */
bool cuts_find(struct cut_finder *f, const struct symtext *text, const struct symindex_symbol *s);
void cuts_release(struct cut_finder *f);
uint64_t cuts_bytes(const struct cut_finder *f);

/* The cuts of FUNCs that were found while the text arrived. Zero it, and set its finder's page_text, before first use.
 */
struct known_cuts {
	struct cut_finder finder;
	struct known_cut {
		uint64_t place; /* of the FUNC in the text, ascending */
		uint32_t first, count;
	} * funcs;
	uint32_t count, cap;
};

void known_cuts_release(struct known_cuts *k);
/* Looks for those of a FUNC behind the one before. Without text or memory they stay unknown. */
void known_cuts_add(struct known_cuts *k, const struct symtext *text, const struct symindex_symbol *s);
/* NULL: they are unknown. */
const struct known_cut *known_cuts_of(const struct known_cuts *k, const struct symindex_symbol *s);
uint64_t known_cuts_bytes(const struct known_cuts *k);

#endif
