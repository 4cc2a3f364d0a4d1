/* SPDX-License-Identifier: Apache-2.0 */
/* Copies text, with names put in where a frame of a stack is recognised. */
#ifndef SYMBTOOL_FILTER_H
#define SYMBTOOL_FILTER_H

#include "symbtool/local_symbols.h"
#include "symbtool/server.h"

struct filter_options {
	struct server *server; /* checked; NULL: files alone */
	const struct extract_options *extract;
	const char *const *modules; /* NAME=ID or NAME=FILE */
	size_t module_count;
};

/* Copies files, one after the other, to standard output; "-" is standard input, and no file is that too. What has come
 * is written as soon as nothing more is there to be read. At the end one line on standard error tells how many frames
 * have no name, and why. ERR_IO: something could not be read (it has been complained of); ERR_BAD_REQUEST: a module
 * that is none; ERR_NO_MEMORY; what a server answered: its frames stay without names. */
enum err filter_run(const struct filter_options *options, char *const *paths, size_t count, struct error *e);

#endif
