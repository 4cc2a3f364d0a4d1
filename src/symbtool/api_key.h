/* SPDX-License-Identifier: Apache-2.0 */
/* The API key of a command: where it comes from, and the header that carries it. */
#ifndef SYMBTOOL_API_KEY_H
#define SYMBTOOL_API_KEY_H

#include "base/error.h"

/* The line "Authorization: APIKey …", in memory from malloc; NULL when there is no key. `given`, from the command
 * line, counts first (it is wiped there, so that process lists do not show it), then the file, then SYMBTOOL_API_KEY
 * in the environment. Each holds ID:KEY, or the line that symbolicated-keys printed. */
enum err api_key_header(char **header, char *given, const char *file, struct error *e);
/* Wipes and frees it. */
void api_key_free(char *header);

#endif
