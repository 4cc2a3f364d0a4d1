/* SPDX-License-Identifier: Apache-2.0 */
/* The API key that a command uses: where it comes from, and the header that bears it. */
#ifndef SYMBTOOL_API_KEY_H
#define SYMBTOOL_API_KEY_H

#include "base/error.h"

/* The line "Authorization: APIKey …", in memory from malloc; NULL when there is no key. `given` (of the command line,
 * whose memory is wiped so that no list of processes shows it) counts first, then the file, then SYMBTOOL_API_KEY of
 * the environment. Each holds ID:KEY, or what symbolicated-keys printed. */
enum err api_key_header(char **header, char *given, const char *file, struct error *e);
/* Wipes and frees it. */
void api_key_free(char *header);

#endif
