/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of an executable's uploaded parts are used: parts of different sets are never mixed.
 *
 * An upload that names no set belongs to the set that is named after its number of parts, "3". If another extraction
 * yields a different part, that part does not replace the old one, since this would mix the two: it starts the next
 * generation of the set, "3~1", then "3~2". A part that did not change is not stored again. So if parts are sent in
 * order, a generation has the parts from the first changed one to the last, and older generations complete it.
 */
#ifndef UPLOADS_SETS_H
#define UPLOADS_SETS_H

#include "uploads/store.h"

/* The set of one kind that is used: the newest complete one, or the newest if none is complete. A set is as old as
 * its oldest part. Times that are stored with parts survive a copy of the store, times of objects do not. So a set
 * with stored times is newer than one without, and only stored times count in it. */
struct symbfile_set {
	char set[STORE_SET_MAX + 1];
	unsigned parts; /* in the complete set; 0: nothing was uploaded */
	unsigned *have; /* numbers of the parts that are there, ascending */
	unsigned have_count;
	unsigned *generations; /* the generation of each part; NULL: all belong to `set` itself */
	int64_t time;          /* of the oldest part */
	bool told;             /* time was stored with the part */
};
/* The key of the part have[i]; name holds its set. */
struct store_key symbfile_set_key(const struct symbfile_set *set, const struct file_id *id, enum symbfile_kind kind,
        unsigned i, char name[STORE_SET_MAX + 1]);
/* Decides where a part goes that names no set: fills name and sets key->set to it. If the part has the same content as
 * *same, it need not be stored; same->set is NULL if there is no such part. Asks the store, like symbfile_sets_get. */
enum err symbfile_sets_place(struct store_key *key, char name[STORE_SET_MAX + 1], struct store_key *same,
        char same_name[STORE_SET_MAX + 1], struct store_client *c, struct error *e);

/* By enum symbfile_kind. */
struct symbfile_sets {
	struct symbfile_set kinds[SYMBFILE_KINDS];
	uint64_t
	        hash; /* of their names and parts, with sizes and times: changes whenever a relevant part is uploaded */
};

/* Asks the store. On failure there is nothing to release. ERR_UNAVAILABLE, ERR_NO_MEMORY. */
enum err symbfile_sets_get(struct symbfile_sets *sets, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e);
/* What to look for, and a function to report each part to, until it returns false. */
struct symbfile_unused {
	unsigned keep;
	int64_t since; /* nanoseconds since 1970 */
	bool (*found)(void *arg, const struct store_part *part);
	void *arg;
};
/* Reports the parts that nobody needs: those that are in none of the `keep` newest complete sets of their kind,
 * would not answer if none is complete, and are not what an upload may leave out because it is there (the newest
 * part of each number besides those). Reports nothing if anything was stored since `since`. Fails as
 * symbfile_sets_get does. */
enum err symbfile_sets_unused(
        struct store_client *c, const struct file_id *id, const struct symbfile_unused *unused, struct error *e);
void symbfile_sets_release(struct symbfile_sets *sets);
/* The number of parts missing in both kinds. */
unsigned symbfile_sets_missing(const struct symbfile_sets *sets);

#endif
