/* SPDX-License-Identifier: Apache-2.0 */
/* Stores a part that was uploaded, and its set's manifest when all parts are there. */
#ifndef UPLOADS_ARRIVE_H
#define UPLOADS_ARRIVE_H

#include "uploads/manifest.h"

/* Whether other parts of the set follow. */
enum arrival_more {
	MORE_UNKNOWN, /* the set is complete when all its parts are there */
	MORE_COMES,   /* so nobody looks whether it is */
	MORE_NONE,    /* this is the last part: if others are missing, that is a failure */
};

struct arrival {
	struct file_id id;
	struct part_name part; /* counted and hashed */
	const char *set;       /* as the upload calls it; NULL: it does not */
	const char *address;   /* of the client: tells two apart who upload sets without a name at the same time */
	enum arrival_more more;
	struct manifest about; /* of kind, uploader, dynamic, forced, build_id, image_base and segments; the rest is
	                          filled in */
	/* out */
	char name[SET_NAME_MAX + 1]; /* of the set */
	bool visible;                /* its manifest was stored */
};

/* Commits the part, frees put in any case. A set of one part costs two requests, and one for its build id. When it
 * returns ERR_OK, all that was stored is durable. ERR_UNAVAILABLE, ERR_NO_MEMORY, ERR_TOO_LARGE. */
enum err symbfile_arrive(struct arrival *a, struct store_client *c, struct store_put *put, struct error *e);

#endif
