/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of an executable's uploaded sets is used; parts of different sets are never mixed.
 *
 * A set is what one extraction yielded of one kind. It is complete when its manifest is stored and all parts that this
 * names are there. Of the complete ones, those whose upload said so answer, the newest first; then the best: with lines
 * and inlined calls, with lines, functions alone, dynamic symbols alone; then the newest.
 */
#ifndef UPLOADS_SETS_H
#define UPLOADS_SETS_H

#include "base/arena.h"
#include "base/hash.h"
#include "uploads/manifest.h"

struct set_part {
	unsigned part;
	const char *path; /* below the executable's folder */
	uint64_t size;
};

struct symbfile_set {
	enum symbfile_kind kind;
	const char *name;
	bool complete;
	bool answers; /* it is used for its kind */
	unsigned parts;
	struct set_part *have; /* those that are there, ascending; of each number one */
	unsigned have_count;
	bool all_there; /* a set without a manifest that has all parts */
	enum set_quality quality;
	int64_t time;
	struct manifest manifest; /* of a complete set */
};

/* Of one executable. */
struct symbfile_sets {
	struct file_id id;
	struct symbfile_set *items;
	size_t count;
	/* By kind, the one that answers; NULL: none. */
	const struct symbfile_set *best[SYMBFILE_KINDS];
	uint64_t hash; /* of those two, with their parts, sizes and times: changes with what answers */
	struct arena arena;
};

/* Asks the store: one listing, and one request for each manifest, of each kind at most MANIFESTS_READ, those that the
 * names of their parts rank first, and as many forced ones. On failure there is nothing to release. ERR_UNAVAILABLE,
 * ERR_NO_MEMORY. */
enum { MANIFESTS_READ = 128 };
enum err symbfile_sets_get(struct symbfile_sets *sets, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e);
void symbfile_sets_release(struct symbfile_sets *sets);
/* What makes the executable better or worse than another with the same build id, as a set to compare; its parts belong
 * to sets. False: nothing was uploaded. */
bool symbfile_sets_merit(struct symbfile_set *merit, const struct symbfile_sets *sets);

/* Whether a set is used rather than another. */
bool symbfile_set_is_better(const struct symbfile_set *a, const struct symbfile_set *b);
/* What came of reading one part: of the transfer, and of its text. */
struct part_read {
	struct bucket_result result;
	struct error error; /* ERR_CORRUPT, ERR_NO_MEMORY, or the sink's own */
	uint64_t bytes;
	int64_t read_time; /* nanoseconds, without the transfer's */
};
/* Reads the part at this path of the store: its records go to the sink, and its bytes into the hash, unless that is
 * NULL. */
void symbfile_part_read(struct part_read *out, struct store_client *c, const char *path,
        const struct symbfile_sink *sink, struct text_hash *hash, const atomic_bool *cancel);
/* Why the set that answers does: "the only one", "forced", "better", "newer". */
const char *symbfile_set_reason(const struct symbfile_sets *sets, const struct symbfile_set *best);

#endif
