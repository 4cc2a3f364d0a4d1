/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the parts of an executable, several at a time. */
#ifndef SYMBTOOL_UPLOAD_PARTS_H
#define SYMBTOOL_UPLOAD_PARTS_H

#include "symbtool/cut.h"
#include "symbtool/server.h"

enum { PARALLEL_MAX = 64 };
/* Calls send(arg) in as many threads, at most PARALLEL_MAX; the calling one is one of them. Fewer, if they cannot be
 * started. */
void send_in_parallel(void *(*send)(void *arg), void *arg, size_t wanted);

struct upload_counts {
	unsigned parts[SYMBFILE_KINDS]; /* that there are */
	unsigned sent, there;           /* there: already on the server */
	uint64_t bytes;                 /* sent */
};

struct upload_options {
	const char *label; /* of the progress that a terminal shows */
	unsigned parallel; /* parts at a time */
	bool force;        /* also what the server has already; it is to answer, whatever else there is */
};

/* Sends the parts that the server does not have yet. After the first
 * failure, which is in e, the others end. Fills counts in any case. */
enum err upload_cut(struct server *s, const struct cut *c, const struct upload_options *o, struct upload_counts *counts,
        struct error *e);

#endif
