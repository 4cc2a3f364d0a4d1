/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads Breakpad symbol files, alone or in ZIPs. */
#ifndef SYMBTOOL_PUSH_SYM_H
#define SYMBTOOL_PUSH_SYM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "symbtool/server.h"

enum push_sym_kind { PUSH_SYM_NONE, PUSH_SYM_FILE, PUSH_SYM_ZIP };
/* By its name: .sym, .sym.gz, .sym.zst, .zip. */
enum push_sym_kind push_sym_kind_of(const char *path);

struct push_sym_counts {
	uint64_t files, bytes; /* sent; as they were sent */
};

/* A file goes up under the name and id in its MODULE line, a ZIP's members under their own names; to_try: as tries.
 * What is plain is sent as gzip. Errors are those of connection_send; ERR_CORRUPT, ERR_BAD_REQUEST: what is wrong with
 * the file; ERR_IO. all: for a file's bytes, kept from one call to the next: new memory for each file costs more than
 * reading it. */
enum err push_sym(struct server_connection *c, const char *path, bool to_try, struct buffer *all,
        struct push_sym_counts *n, struct error *e);

#endif
