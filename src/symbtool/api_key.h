/* SPDX-License-Identifier: Apache-2.0 */
/* The API key of a command: where it comes from, and the header that carries it. */
#ifndef SYMBTOOL_API_KEY_H
#define SYMBTOOL_API_KEY_H

#include "base/error.h"

/* The line "Authorization: APIKey …", in memory from malloc; NULL after a failure. `given`, from the command
 * line, counts first (it is wiped there, so that process lists do not show it), then the file, then SYMBTOOL_API_KEY
 * in the environment. Each holds ID:KEY, or the line that symbolicated-keys printed. ERR_CONFIG: there is none, or it
 * is malformed. */
enum err api_key_header(char **header, const char *given, const char *file, struct error *e);
/* Wipes and frees it; NULL is fine. */
void api_key_free(char *header);

#endif
