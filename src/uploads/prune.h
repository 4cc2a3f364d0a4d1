/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what nobody needs from a store of symbfiles, while servers use it. */
#ifndef UPLOADS_PRUNE_H
#define UPLOADS_PRUNE_H

#include "objects/store.h"

/* Called for each object that is removed, with its path below the folder of symbfiles, or that of all symbol files. */
typedef void prune_told(void *arg, const char *path, uint64_t size, int64_t time);

/* An executable to which something was stored within a day stays as it is: an upload may be under way. */
struct prune_rules {
	unsigned keep;      /* complete sets of each kind to keep per executable, the best; 0: all. Those that are not
	                       complete go. */
	int64_t older_than; /* nanoseconds before now; an executable to which nothing was stored since is removed as a
	                       whole; 0: none */
	bool remove;        /* false: only report what would be removed */
	prune_told *told;
	void *arg;
};

struct prune_counts {
	uint64_t executables, objects, bytes;                /* found in the store */
	uint64_t gone_executables, gone_objects, gone_bytes; /* of these, removed, or to be removed */
};

/* Goes through the whole store. Also removes claims of build ids whose executable is gone, and what processes that died
 * left behind. After a failure the counts say what was done so far; it may be run again. ERR_UNAVAILABLE,
 * ERR_NO_MEMORY. */
enum err symbfile_prune(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e);

/* In the place of symbol files: removes those that were uploaded as tries longer ago than rules->older_than, and
 * nothing else; of the counts, objects and bytes are those of all tries. The same errors. */
enum err symfile_prune_tries(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e);

#endif
