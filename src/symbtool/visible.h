/* SPDX-License-Identifier: Apache-2.0 */
/* Prints text from files and servers safely on a terminal. */
#ifndef SYMBTOOL_VISIBLE_H
#define SYMBTOOL_VISIBLE_H

#include <jansson.h>
#include <stdio.h>

#include "base/str.h"

/* Prints a name, path or message that others chose. Control characters, DEL and those of C1 (also as single bytes)
 * become \u001b and the like, whether or not out is a terminal, so that they can neither move the cursor nor end a
 * line. Returns the number of bytes printed. */
int print_visible(FILE *out, const char *text);
int print_visible_str(FILE *out, struct str text);
/* The same for JSON, where this changes no value; blanks and line feeds between its tokens stay. */
void print_json_text(FILE *out, struct str text);
/* json_of_str of a text; JSON's null for NULL. */
json_t *json_of_bytes(const char *text);
/* Prints a jansson value like this, compact, with a line feed; for NULL only the line feed. */
void print_json_line(const json_t *value);

#endif
