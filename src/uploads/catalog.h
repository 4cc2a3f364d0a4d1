/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the sets of all executables, in pages. */
#ifndef UPLOADS_CATALOG_H
#define UPLOADS_CATALOG_H

#include "uploads/manifest.h"

enum { CATALOG_PAGE_MAX = 200, CATALOG_CURSOR = 192 };

struct catalog_query {
	bool by_size; /* the largest first, otherwise the newest */
	unsigned limit;
	const char *uploader; /* only sets of this one; NULL: of all */
	const char *after;    /* the cursor of the page before; NULL: the first page */
};

struct catalog_set {
	struct file_id id;
	enum symbfile_kind kind;
	char name[SET_NAME_MAX + 1];
	bool complete, forced;
	uint64_t size; /* of its parts */
	int64_t time;  /* of its latest object */
};
/* What a set's manifest says, if it is complete; otherwise NULL. False to stop. */
typedef bool catalog_found(void *arg, const struct catalog_set *set, const struct manifest *m);

/* Goes through the whole store, and passes the sets of a page to found. next becomes the cursor of the next page, empty
 * if there is none. An uploader's sets are looked for among the next 1,000, so a page may have fewer, or none, although
 * there is another. ERR_BAD_REQUEST: after is no cursor. ERR_UNAVAILABLE, ERR_NO_MEMORY. */
enum err symbfile_catalog(struct store_client *c, const struct catalog_query *q, catalog_found *found, void *arg,
        char next[CATALOG_CURSOR], struct error *e);

#endif
