/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the parts of an executable, several at a time. */
#ifndef SYMBTOOL_UPLOAD_PARTS_H
#define SYMBTOOL_UPLOAD_PARTS_H

#include "symbtool/cut.h"
#include "symbtool/server.h"

struct upload_counts {
	unsigned parts[SYMBFILE_KINDS]; /* that there are */
	unsigned sent, there;           /* there: already on the server */
	uint64_t bytes;                 /* sent */
};

/* Sends the parts that the server does not have yet (all with force). Shows progress on a terminal. After the first
 * failure, which is in e, the others end. Fills counts in any case. */
enum err upload_cut(struct server *s, const struct cut *c, const char *label, unsigned parallel, bool force,
        struct upload_counts *counts, struct error *e);

#endif
