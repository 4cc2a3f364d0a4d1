/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what version 1.0 stored of an executable: KIND/SET/PARTS/PART below its folder. Nothing is stored like this any
 * more.
 *
 * A set that the upload did not name is called after its number of parts, "3". When another extraction yielded another
 * part, it began the next generation of the set, "3~1", then "3~2". A generation has the parts from the first that
 * changed to the last, and older generations complete it. An empty object beside a part, PART.TIME, tells when the part
 * was stored; versions before 1.0 wrote none.
 */
#ifndef UPLOADS_OLD_H
#define UPLOADS_OLD_H

#include "uploads/layout.h"

struct old_part {
	enum symbfile_kind kind;
	char set[SET_NAME_MAX + 1];
	unsigned part, parts;
	uint64_t size; /* bytes */
	int64_t time;  /* when it was stored: nanoseconds since 1970 */
	bool is_time;  /* not the part itself but the object beside it, which holds its time */
	bool told;     /* time comes from such an object */
};
/* Parses such a path, and sets all but size, told and, except for the object of a time, time. */
bool old_part_parse(struct old_part *p, struct str path);
/* The path of a part below its executable's folder. */
void old_part_path(char out[STORE_PATH_MAX], const struct old_part *p);

/* The set of one kind that version 1.0 used: the newest complete one, or the newest if none is complete. A set is as
 * old as its oldest part; only stored times count in it, and a set without any is older than one with some. */
struct old_set {
	char set[SET_NAME_MAX + 1];
	unsigned parts;               /* in the complete set; 0: there is none */
	const struct old_part **have; /* the parts that are there, ascending; freed by the caller */
	unsigned have_count;
	int64_t time; /* of the oldest part */
	bool told;    /* time was stored with the part */
};
/* By enum symbfile_kind. Sorts the parts, of which there are count and among which have points. False if out of memory:
 * then nothing is to be freed. */
bool old_sets(struct old_set sets[SYMBFILE_KINDS], struct old_part *parts, size_t count);

#endif
