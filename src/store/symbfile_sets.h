/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the uploaded parts of an executable answer: parts of different sets are never mixed. */
#ifndef SYMBFILE_SETS_H
#define SYMBFILE_SETS_H

#include "store/symbfile_store.h"

/* An upload that names no set belongs to one that is called by its number of parts, "3". What another extraction makes
 * of a part does not replace it there, where it would be mixed with the old ones: it begins the next generation of the
 * set, "3~1", then "3~2". A part that is as it was is not stored again: so of who sends parts in their order, a
 * generation has those from the first that differs to the last, and is complete with what is before them of the
 * generations before. */

/* The set of one kind that answers: the newest complete one, or the newest where none is complete. A set is as old as
 * its oldest part. */
struct symbfile_set {
	char set[STORE_SET_MAX + 1];
	unsigned parts; /* that it has when it is complete; 0: nothing was uploaded */
	unsigned *have; /* numbers of those that are there, ascending */
	unsigned have_count;
	unsigned *generations; /* of which each of them is; NULL: all are of `set` itself */
	int64_t time;          /* of the oldest part */
};
/* The key of the part have[i]; name has room for its set. */
struct store_key symbfile_set_key(const struct symbfile_set *set, const struct file_id *id, enum symbfile_kind kind,
        unsigned i, char name[STORE_SET_MAX + 1]);
/* Where a part goes that names no set: fills name and sets key->set to it. *same is a part that it need not be stored
 * beside if it has the same content; its set is in same_name, or NULL: there is none. Asks the store, as
 * symbfile_sets_get. */
enum err symbfile_sets_place(struct store_key *key, char name[STORE_SET_MAX + 1], struct store_key *same,
        char same_name[STORE_SET_MAX + 1], struct store_client *c, struct error *e);

/* By enum symbfile_kind. */
struct symbfile_sets {
	struct symbfile_set kinds[SYMBFILE_KINDS];
	uint64_t hash; /* of their names and parts, with sizes and times: another one when anything was uploaded that
	                  counts */
};

/* Asks the store. On failure there is nothing to release. ERR_UNAVAILABLE, ERR_NO_MEMORY. */
enum err symbfile_sets_get(struct symbfile_sets *sets, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e);
/* Tells the parts that are in none of the `keep` newest complete sets of their kind, nor would answer where none is
 * complete, nor are what an upload may leave out because they are there (the newest of their number beside those). None
 * where anything was stored since `since`, nanoseconds since 1970. Failures as symbfile_sets_get's. */
enum err symbfile_sets_unused(struct store_client *c, const struct file_id *id, unsigned keep, int64_t since,
        bool (*unused)(void *arg, const struct store_part *part), void *arg, struct error *e);
void symbfile_sets_release(struct symbfile_sets *sets);
/* Parts that are missing in both kinds. */
unsigned symbfile_sets_missing(const struct symbfile_sets *sets);

#endif
