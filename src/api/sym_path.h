/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that end like a symbol file's, /NAME/ID/FILE.sym, and those of executables and debug files: /NAME/ID/NAME, or
 * with '_' for the last letter, and /buildid/ID/.... */
#ifndef API_SYM_PATH_H
#define API_SYM_PATH_H

#include "front/exchange.h"

/* Whether a path, still percent-encoded, has three segments, of which the second is hex and the third ends in .sym. */
bool sym_path_is(struct str path);
/* Reads such a path into the exchange's arena. False if no bucket can hold the name and id, or if out of memory. *own:
 * whether the file is called as that of this name. */
bool sym_path_read(struct exchange *x, struct str path, struct str *name, struct str *id, bool *own);

/* Without Tecken's /try before such a path: tries are among what everybody asks for. */
struct str sym_path_without_try(struct str path);

/* Whether a path is /NAME/ID/NAME, with a hex ID and in the last segment perhaps '_' for the last letter. */
bool file_path_is(struct str path);
/* Reads such a path into the exchange's arena. *packed: it ends in '_' in place of the last letter. False: out of
 * memory, or no source can hold the name and id. */
bool file_path_read(struct exchange *x, struct str path, struct str *name, struct str *id, bool *packed);

/* Percent-decodes a segment of a path into the arena: ERR_BAD_REQUEST, ERR_NO_MEMORY. */
enum err sym_path_decode(struct exchange *x, struct str segment, struct str *out);

#endif
