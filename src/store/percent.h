/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding of what goes into paths and queries. */
#ifndef STORE_PERCENT_H
#define STORE_PERCENT_H

#include <stdbool.h>

#include "base/str.h"

/* All but A-Za-z0-9-._~ (and slashes, when they stay) becomes upper-case %XX. out has room for three times the text; no
 * NUL is added. Returns the end. */
char *percent_encode(char *out, struct str text, bool slashes);
/* Decodes %XX; false for a broken one or a NUL. out has room for the text and its NUL. */
bool percent_decode(char *out, struct str text);

#endif
