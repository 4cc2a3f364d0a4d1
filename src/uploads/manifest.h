/* SPDX-License-Identifier: Apache-2.0 */
/* A set's manifest: what makes its parts visible, and says what is known of them, as JSON. */
#ifndef UPLOADS_MANIFEST_H
#define UPLOADS_MANIFEST_H

#include <jansson.h>

#include "symbfile/segments.h"
#include "uploads/layout.h"

/* From the poorest to the best. */
enum set_quality {
	QUALITY_UNKNOWN, /* of a set without a manifest */
	QUALITY_EMPTY,
	QUALITY_DYNAMIC, /* functions, from dynamic symbols alone */
	QUALITY_FUNCTIONS,
	QUALITY_LINES,   /* functions with lines */
	QUALITY_INLINES, /* functions with lines and inlined calls */
};
enum set_quality set_quality_of(const struct symbfile_counts *counts, bool dynamic);
/* "functions" */
const char *set_quality_name(enum set_quality quality);

enum { UPLOADER_SIZE = 64, PROGRAM_NAME_SIZE = 256 };

/* What an upload says of itself and its executable. */
struct manifest {
	enum symbfile_kind kind;
	const char *set; /* not owned */
	int64_t time;    /* nanoseconds since 1970 */
	char uploader[UPLOADER_SIZE];
	char program[PROGRAM_NAME_SIZE]; /* the name of the executable's file; empty: not told */
	bool dynamic, forced;
	uint64_t size; /* of all parts, in bytes */
	struct symbfile_counts counts;
	struct build_id build_id; /* len 0: none */
	uint64_t image_base;
	struct load_segments segments;
};

/* Stores it, with the names of the set's parts in order. ERR_UNAVAILABLE, ERR_NO_MEMORY. */
enum err manifest_put(
        const struct manifest *m, json_t *names, struct store_client *c, const struct file_id *id, struct error *e);
/* Reads that of the set that m says by kind, set and forced. *names becomes an array of the names of its parts, which
 * the caller gives back; NULL: there is none, or it is no manifest. ERR_UNAVAILABLE, ERR_NO_MEMORY. */
enum err manifest_get(struct manifest *m, json_t **names, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e);

/* "2026-11-24T22:41:00Z"; empty for what is no time. */
enum { TIME_TEXT = 40 };
void manifest_time(char out[TIME_TEXT], int64_t time);
/* What it says, for people: adds to the object. False if out of memory. */
bool manifest_show(const struct manifest *m, json_t *object);

#endif
