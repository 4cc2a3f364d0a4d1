/* SPDX-License-Identifier: Apache-2.0 */
/* Which uploaded symbol file belongs to a code file and its code id ("xul.dll", the time stamp and size in its header):
 * one small object for each beside the files, written after them. */
#ifndef SYMFILES_CODE_IDS_H
#define SYMFILES_CODE_IDS_H

#include "objects/store.h"
#include "symfiles/check.h"

enum { CODE_ID_TEXT = 4096 };

/* Who says which module it is; a later one counts for more. */
enum code_origin {
	CODE_BY_TRY,    /* an upload that is asked for after all others */
	CODE_BY_UPLOAD, /* a key that may upload; also what version 1 has written */
	CODE_BY_SOURCE, /* a symbol file of a source */
	CODE_BY_OWNER,  /* a key that may invalidate, too */
};

/* A module. Strings lie in `text`. */
struct code_module {
	struct str name, id;
	enum code_origin by;
	uint8_t text[CODE_ID_TEXT];
};

/* Whether a file says which code file and id it belongs to. */
bool code_id_is_told(const struct symfile_facts *f);
/* Says that this module is the one, unless another one was said to be: that stays if who said so counts for more, or as
 * much and is no owner. Of two that count the same, though, the one that is called as the code file is takes it from
 * one that is not. *said: it is new. Errors are those of store.h. */
enum err code_id_put(struct store_client *c, const struct symfile_facts *f, struct str name, struct str id,
        enum code_origin by, bool *said, const atomic_bool *cancel, struct error *e);
/* ERR_MISSING: nobody has said; ERR_UNAVAILABLE, ERR_NO_MEMORY. Letters count the same in any case. */
enum err code_id_get(struct store_client *c, struct str code_file, struct str code_id, struct code_module *m,
        const atomic_bool *cancel, struct error *e);

#endif
