/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding for paths and queries. */
#ifndef OBJECTS_PERCENT_H
#define OBJECTS_PERCENT_H

#include <stdbool.h>

#include "base/str.h"

/* Encodes everything except A-Za-z0-9-._~ (and slashes, if asked) as upper-case %XX. out has room for three times the
 * text; no NUL is added. Returns the end. */
char *percent_encode(char *out, struct str text, bool slashes);
/* Decodes %XX; false for a malformed one or a NUL. out has room for the text and a NUL. */
bool percent_decode(char *out, struct str text);

#endif
