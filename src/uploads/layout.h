/* SPDX-License-Identifier: Apache-2.0 */
/* The names of objects in the store of symbfiles; docs/store.md describes them. */
#ifndef UPLOADS_LAYOUT_H
#define UPLOADS_LAYOUT_H

#include "objects/store.h"
#include "symbfile/build_id.h"
#include "symbfile/counts.h"
#include "symbfile/file_id.h"

enum { SET_NAME_MAX = 64, SET_PARTS_MAX = 100000 };

/* 1 to SET_NAME_MAX of A-Za-z0-9._-, not starting with a dot: what an upload may call its set. */
bool set_name_is_valid(struct str name);
/* Also the names that the server gives; these have a SET_OURS. */
enum { SET_OURS = '~' };
bool set_name_is_stored(struct str name);

/* A part's object: its place, a hash of its bytes, and what is in it. The same bytes always have the same name. */
enum { PART_HASH = 32, PART_NAME_SIZE = 160 }; /* hex digits; with the NUL */
struct part_name {
	unsigned part, parts; /* part < parts <= SET_PARTS_MAX */
	char hash[PART_HASH + 1];
	struct symbfile_counts counts;
};
void part_name_print(char out[PART_NAME_SIZE], const struct part_name *name);
bool part_name_parse(struct part_name *name, struct str text);

/* A set's manifest, which is stored when all its parts are: until then nothing of it is visible. An upload that is to
 * answer in any case has the other name, so that none without that wish replaces it. */
#define MANIFEST_NAME "set.json"
#define MANIFEST_FORCED "forced.json"

/* An object of a set, by its path below the executable's folder. */
struct set_object {
	enum symbfile_kind kind;
	struct str set, name; /* segments of the path */
	bool manifest, forced;
	struct part_name part; /* of any other */
};
/* False for any other path. */
bool set_object_parse(struct set_object *o, struct str path);

/* The folder of everything of an executable; of one set; an object in it. */
void layout_executable(char out[STORE_PATH_MAX], const struct file_id *id);
void layout_set(char out[STORE_PATH_MAX], const struct file_id *id, enum symbfile_kind kind, const char *set);
void layout_object(
        char out[STORE_PATH_MAX], const struct file_id *id, enum symbfile_kind kind, const char *set, const char *name);
/* An object of an executable, by its path below the executable's folder. */
void layout_below(char out[STORE_PATH_MAX], const struct file_id *id, const char *path);

/* What leads from a build id to an executable: its name says everything. */
struct claim {
	struct build_id build_id;
	struct file_id id;
	uint64_t image_base;
	int64_t time; /* of storing; only claims that were listed have it */
};
#define CLAIMS_FOLDER "build-ids"
void layout_claim(char out[STORE_PATH_MAX], const struct claim *claim);
/* The folder of the claims that may answer a question, and perhaps others. */
void layout_claims(char out[STORE_PATH_MAX], const struct build_id_question *q);
/* BUILDID/FILEID/BASE, the path below that folder; false for any other. */
bool layout_parse_claim(struct claim *claim, struct str path);

/* Cuts off the next segment of a path; false if nothing is left. */
bool layout_segment(struct str *path, struct str *segment);
bool layout_parse_kind(struct str text, enum symbfile_kind *kind);

#endif
