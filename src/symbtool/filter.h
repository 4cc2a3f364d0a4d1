/* SPDX-License-Identifier: Apache-2.0 */
/* Copies text, adding names where it recognises a frame of a stack. */
#ifndef SYMBTOOL_FILTER_H
#define SYMBTOOL_FILTER_H

#include "symbtool/local_symbols.h"
#include "symbtool/naming.h"
#include "symbtool/server.h"

struct filter_options {
	struct server *server; /* checked; NULL: use only files */
	const struct extract_options *extract;
	const char *const *modules; /* NAME=ID or NAME=FILE */
	size_t module_count;
	struct naming naming;
	bool one_line;       /* inlined calls stay on the line of their frame */
	const char *program; /* the file of which the whole text is, also one of modules; NULL: unknown */
};

/* Copies files, one after the other, to standard output; "-" is standard input, and so is no file at all. What
 * arrives is written a fifth of a second later, with what has arrived meanwhile. SIGINT ends the reading of a file or
 * terminal, but not of a pipe, and is raised again in the end; the second one acts at once. At the end one line on
 * standard error says how many frames have no name, and why. ERR_IO: something could not be read (already reported);
 * ERR_BAD_REQUEST: a module option is malformed; ERR_NO_MEMORY; or the server's error, after which frames stay without
 * names. */
enum err filter_run(const struct filter_options *options, char *const *paths, size_t count, struct error *e);

#endif
