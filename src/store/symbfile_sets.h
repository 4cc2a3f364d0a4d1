/* Which of the uploaded parts of an executable answer: parts of different sets are never mixed. */
#ifndef SYMBFILE_SETS_H
#define SYMBFILE_SETS_H

#include "store/symbfile_store.h"

/* The set of one kind that answers: the newest complete one, or the newest where none is complete. A set is as old as
 * its oldest part. */
struct symbfile_set {
	char set[STORE_SET_MAX + 1];
	unsigned parts; /* that it has when it is complete; 0: nothing was uploaded */
	unsigned *have; /* numbers of those that are there, ascending */
	unsigned have_count;
};

/* By enum store_kind. */
struct symbfile_sets {
	struct symbfile_set kinds[STORE_KINDS];
	uint64_t hash; /* of their names and parts, with sizes and times: another one when anything was uploaded that
	                  counts */
};

/* Asks the store. On failure there is nothing to release. ERR_UNAVAILABLE, ERR_NO_MEMORY. */
enum err symbfile_sets_get(struct symbfile_sets *sets, struct store_client *c, const struct file_id *id,
        const atomic_bool *cancel, struct error *e);
void symbfile_sets_release(struct symbfile_sets *sets);
/* Parts that are missing in both kinds. */
unsigned symbfile_sets_missing(const struct symbfile_sets *sets);

#endif
