/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the uploaded executable for an id that is made from a build id. */
#ifndef UPLOADS_ALIAS_H
#define UPLOADS_ALIAS_H

#include "symbfile/segments.h"
#include "uploads/sets.h"

/* The executable. Offsets in a request that uses the build id count from image_base. */
struct symbfile_alias {
	struct file_id id;
	uint64_t image_base;
	struct file_map file; /* as the latest upload says that knows it */
};

/* The executables that claim a build id; at most ALIAS_CLAIMS, the latest ones. As many as of one executable's sets, so
 * that stripped copies from many hosts do not hide the full one. */
enum { ALIAS_CLAIMS = MANIFESTS_READ };
struct symbfile_claims {
	struct claim items[ALIAS_CLAIMS]; /* the latest first */
	unsigned count;
};
/* Asks the store, and passes all of them on, in any order, until found returns false. ERR_UNAVAILABLE, ERR_NO_MEMORY.
 */
enum err symbfile_claims_each(struct store_client *c, const struct build_id_question *q,
        bool (*found)(void *arg, const struct claim *claim), void *arg, const atomic_bool *cancel, struct error *e);
/* Asks the store. The same. */
enum err symbfile_claims_get(struct symbfile_claims *claims, struct store_client *c, const struct build_id_question *q,
        const atomic_bool *cancel, struct error *e);

/* Chooses the executable that answers, by the rule for sets (uploads/sets.h). Asks the store what each has. *found is
 * false if there is none. */
enum err symbfile_alias_choose(struct symbfile_alias *alias, bool *found, const struct symbfile_claims *claims,
        struct store_client *c, const atomic_bool *cancel, struct error *e);

#endif
