/* SPDX-License-Identifier: Apache-2.0 */
/* Replies with a file as it is stored, passed on while it arrives from its source. */
#ifndef API_STORED_H
#define API_STORED_H

#include "front/exchange.h"
#include "symfiles/symfiles.h"

struct stored_form {
	const char *type;  /* Content-Type */
	bool unpacks_gzip; /* for clients that do not accept it */
	bool redirects;    /* GETs lead to S3 where the file is there */
};

/* HEAD, ranges and entity tags as docs/api.md has them. False: no source has the file, and there is no reply yet. */
bool stored_send(struct exchange *x, const struct symfile *file, const struct stored_form *form);
/* 302; nobody keeps it. */
void stored_redirect(struct exchange *x, const char *url);
/* Where things stand; asks memcached. */
struct symfiles_since stored_since(const struct symfile *file);

#endif
