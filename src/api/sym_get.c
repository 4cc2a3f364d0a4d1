/* SPDX-License-Identifier: Apache-2.0 */
/* GET /NAME/ID/FILE.sym: a symbol file as it is stored, for tools that read symbol files themselves. */
#include <config.h>

#include <string.h>

#include "api/missing.h"
#include "api/router.h"
#include "api/services.h"
#include "api/stored.h"
#include "api/sym_path.h"
#include "base/permits.h"

static void refuse(struct exchange *x, enum err code, const char *text)
{
	struct error e;
	error_set(&e, code, "%s", text);
	exchange_reply_error(x, &e, 1);
}

static const char missing[] = "no source has this symbol file";

/* As Tecken does: the client learns the module's own name and id. Relative, since what is before the path here may not
 * be all that is before it at nginx. */
static void redirect_to_module(struct exchange *x, const struct code_module *m)
{
	char path[BUCKET_PATH_MAX + 8] = "../../";
	bucket_object_path(path + strlen(path), m->name, m->id);
	stored_redirect(x, path);
}

/* No source has the file: the path may be that of a code file. */
static void try_code_id(struct exchange *x, const struct symfile *file, const struct symfiles_since *since)
{
	struct symfiles *all = services_symfiles();
	struct code_module m;
	struct error e;
	switch (symfiles_find_code(all, file->name, file->id, &m, &e)) {
	case ERR_OK:
		redirect_to_module(x, &m);
		break;
	case ERR_MISSING:
		symfiles_set_missing(all, file, since);
		missing_note_request(x, file->name, file->id);
		refuse(x, ERR_NOT_FOUND, missing);
		break;
	default:
		exchange_reply_error(x, &e, 1);
	}
}

static void answer(struct exchange *x, const struct symfile *file)
{
	const struct stored_form form = {"text/plain", false, x->config->downloads == DOWNLOADS_REDIRECT};
	struct symfiles_since since = stored_since(file);
	if (symfiles_is_missing(services_symfiles(), file, since.marker)) {
		missing_note_request(x, file->name, file->id);
		refuse(x, ERR_NOT_FOUND, missing);
		return;
	}
	permit_give();
	if (file->sort == SYMFILE_BY_CODE || !stored_send(x, file, &form))
		try_code_id(x, file, &since);
}

void sym_get_handle(struct exchange *x)
{
	struct module_want want;
	struct symfile file = {.path = NULL};
	bool own;
	if (x->config->downloads == DOWNLOADS_NO) {
		refuse(x, ERR_NOT_FOUND, "no such page");
	} else if (!sym_path_read(x, x->path, &file.name, &file.id, &own)) {
		refuse(x, ERR_NOT_FOUND, "the path is not /NAME/ID/FILE.sym");
	} else if (!module_want_init(&want, x->config->lookup, file.name, file.id)) {
		refuse(x, ERR_NO_MEMORY, "out of memory");
	} else {
		file.hash = want.own.hash;
		/* it is called otherwise than a symbol file of that name */
		file.sort = own ? SYMFILE_SYM : SYMFILE_BY_CODE;
		answer(x, &file);
	}
}
