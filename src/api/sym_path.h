/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that end like a symbol file's: /NAME/ID/FILE.sym. */
#ifndef API_SYM_PATH_H
#define API_SYM_PATH_H

#include "front/exchange.h"

/* Whether a path, still percent-encoded, has three segments, of which the second is hex and the third ends in .sym. */
bool sym_path_is(struct str path);
/* Reads such a path into the exchange's arena. False if no bucket can hold the name and id, or if out of memory. *own:
 * whether the file is called as that of this name. */
bool sym_path_read(struct exchange *x, struct str path, struct str *name, struct str *id, bool *own);

/* Percent-decodes a segment of a path into the arena: ERR_BAD_REQUEST, ERR_NO_MEMORY. */
enum err sym_path_decode(struct exchange *x, struct str segment, struct str *out);

#endif
