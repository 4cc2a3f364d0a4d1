/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that end like a symbol file's, /NAME/ID/FILE.sym, and those of executables and debug files: /NAME/ID/NAME, or
 * with '_' for the last letter, and /buildid/ID/.... */
#ifndef API_SYM_PATH_H
#define API_SYM_PATH_H

#include "front/exchange.h"

/* Whether a path, still percent-encoded, has three segments, of which the second is hex and the third ends in .sym. */
bool sym_path_is(struct str path);
/* What the file of a path is called. */
enum sym_path_file {
	SYM_FILE_OWN,  /* as that of this name: xul.sym for xul.pdb, libxul.so.sym for libxul.so */
	SYM_FILE_BARE, /* as the name without its ending: xpcshell.sym for xpcshell.dbg */
	SYM_FILE_OTHER,
};
/* Reads such a path into the exchange's arena. False if no bucket can hold the name and id, or if out of memory. */
bool sym_path_read(struct exchange *x, struct str path, struct str *name, struct str *id, enum sym_path_file *called);

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
