/* SPDX-License-Identifier: Apache-2.0 */
/* The symbol files in a ZIP, as Mozilla's tools make it: members called NAME/ID/FILE.sym, and others that are ignored.
 */
#ifndef SYMFILES_ZIP_H
#define SYMFILES_ZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum {
	ZIP_MEMBERS_MAX = 20000,
	ZIP_SYMS_MAX = 1000, /* symbol files: to store one takes up to a tenth of a second */
	ZIP_RATIO_MAX = 200, /* symbol files shrink to a twentieth at best, */
	ZIP_SPARE = 1 << 20, /* bytes, whatever the ratio */
};

/* What is done with the symbol files. Any result other than ERR_OK ends the reading and is returned, with the member's
 * name before its text. */
struct zip_visitor {
	enum err (*begin)(void *arg, struct str name, struct str id, struct error *e);
	enum err (*add)(void *arg, const uint8_t *data, size_t len, struct error *e);
	enum err (*end)(void *arg, struct error *e);
	/* The same of an executable or debug file, NAME/ID/NAME, or in a cabinet with '_' for the last letter; NULL:
	 * these are ignored. Then come add and end, too. */
	enum err (*begin_file)(void *arg, struct str name, struct str id, bool packed, struct error *e);
	/* Of a member that is no symbol file but may be there; may be NULL. */
	enum err (*ignored)(void *arg, struct str path, struct error *e);
	void *arg;
};

/* Reads all of a file, which may be read again. ERR_BAD_REQUEST: it is no ZIP, or not sound; it has a member of another
 * form, twice the same, a link, something encrypted, more than ZIP_MEMBERS_MAX members, or unpacks to far more than
 * symbol files do. The text names the member. ERR_NO_MEMORY. */
enum err zip_read(int fd, const struct zip_visitor *v, struct error *e);

#endif
