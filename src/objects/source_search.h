/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A search of the sources, by one rule for whoever searches: in their order; for the id as it was sent and, if that is
 * missing, in upper case; then in the next source. If all lack it, the same for rarer spellings (bucket_spell). The
 * first good file wins, also behind corrupt ones. A source that fails is asked again, `bucket_retries` times, when no
 * other has the file. One that is ill is passed over while a later one can answer, and asked by one search at a time if
 * none has the file.
 */
#ifndef OBJECTS_SOURCE_SEARCH_H
#define OBJECTS_SOURCE_SEARCH_H

#include "objects/bucket.h"

/* What came of one attempt; what of a search. */
enum source_answer {
	SOURCE_MISSING,
	SOURCE_GOOD,
	SOURCE_CORRUPT, /* it has a file that cannot be used */
	SOURCE_FAILED,  /* for now */
	SOURCE_STOP,    /* the search ends with this attempt; or *cancel was set */
};

struct source_search {
	unsigned kinds; /* 1 << enum bucket_kind of each kind of sources that are asked */
	struct str id;  /* for sources of the kind BUCKET_SYMS; empty: there is only one spelling */
	uint64_t tries; /* that are made again */
	const atomic_bool *cancel, *stopping; /* each may be NULL */
	enum source_answer (*ask)(void *arg, unsigned source, struct str id);
	void *arg;
	/* out */
	source_set passed; /* those that failed or were passed over before the one that answered */
	/* private */
	enum bucket_spelling first, end; /* of those that are asked for */
};
/* SOURCE_FAILED if any source failed, else SOURCE_CORRUPT if any has such a file. */
enum source_answer source_search(const struct bucket_sources *s, struct source_search *w);

#endif
