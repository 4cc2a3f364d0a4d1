/* SPDX-License-Identifier: Apache-2.0 */
/* How much of names and places the user wants to see. */
#ifndef SYMBTOOL_NAMING_H
#define SYMBTOOL_NAMING_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct naming {
	bool basenames;   /* files without their folders */
	bool short_names; /* functions without arguments and template arguments, as the web page shows them */
	bool no_inlines;  /* of an address only the innermost call */
};

/* Rows of verbs that print names. */
#define NAMING_ROWS(naming)                                                                         \
	{"-s, --basenames", OPTION_FLAG, &(naming).basenames, 0, 0, "files without their folders"}, \
	        {"--short-names", OPTION_FLAG, &(naming).short_names, 0, 0,                         \
	                "functions without arguments and template arguments"},                      \
	{                                                                                           \
		"--no-inlines", OPTION_FLAG, &(naming).no_inlines, 0, 0,                            \
		        "of an address only the innermost call, whose source line it is"            \
	}

/* Both take texts as they are, or escaped for JSON. The result is a part of them, or in the arena. Without memory they
 * return what they were given. */
struct str naming_function(const struct naming *n, struct str name, struct arena *arena);
struct str naming_file(const struct naming *n, struct str file);

/* The name as --short-names prints it. */
struct str short_name(struct str name, struct arena *arena);

#endif
