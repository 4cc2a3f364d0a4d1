/* SPDX-License-Identifier: Apache-2.0 */
/* Removes uploads from the store, while servers use it. */
#ifndef UPLOADS_REMOVE_H
#define UPLOADS_REMOVE_H

#include "uploads/sets.h"

/* Which objects of an executable go: all but those that a predicate keeps. */
struct removal {
	bool (*keeps)(void *arg, struct str path); /* below the executable's folder; NULL: keeps none */
	/* Called for each object that is removed, with its path; may be NULL. */
	void (*told)(void *arg, const char *path, uint64_t size, int64_t time);
	void *arg;
	bool dry;           /* only report what would be removed */
	int64_t none_since; /* if anything was stored since, nothing is removed; 0: whatever was stored */
	/* out */
	uint64_t objects, bytes;
	bool young; /* something was */
};
/* Manifests go first, so that nothing is visible whose parts are missing. Build ids go on leading to the executable: an
 * upload may be under way. ERR_UNAVAILABLE, ERR_NO_MEMORY; then some may be left, and it may be called again. */
enum err symbfile_remove(struct removal *r, struct store_client *c, const struct file_id *id, struct error *e);

/* The same for the set with this name, of both kinds. Keeps and arg are its own, and nobody is told. */
enum err symbfile_remove_set(
        struct removal *r, struct store_client *c, const struct file_id *id, struct str set, struct error *e);

#endif
