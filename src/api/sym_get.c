/* SPDX-License-Identifier: Apache-2.0 */
/* GET /NAME/ID/FILE.sym: a symbol file as it is stored, for tools that read symbol files themselves. */
#include <config.h>

#include <string.h>

#include "api/missing.h"
#include "api/router.h"
#include "api/services.h"
#include "api/stored.h"
#include "api/sym_path.h"
#include "symfiles/code_notes.h"

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

/* The path may be that of a code file. False: it is not, and nothing was replied. */
static bool redirect_by_code(struct exchange *x, const struct symfile *file)
{
	struct code_module m;
	struct error e;
	enum err err = code_note_find(file->name, file->id, &m, exchange_cancel(x), &e);
	if (err == ERR_MISSING)
		return false;
	if (err)
		exchange_reply_error(x, &e, 1);
	else
		redirect_to_module(x, &m);
	return true;
}

static void answer(struct exchange *x, const struct symfile *file, enum sym_path_file called)
{
	const struct stored_form form = {"text/plain", false, x->config->downloads == DOWNLOADS_REDIRECT};
	struct symfiles_since since = stored_since(file);
	struct symfile own = *file;
	bool by_code = file->sort == SYMFILE_BY_CODE;
	if (symfiles_is_missing(services_symfiles(), file, since.marker)) {
		missing_note_request(x, file->name, file->id);
		refuse(x, ERR_NOT_FOUND, missing);
		return;
	}
	struct error e;
	if (exchange_enter(x, services_turnstile(TURNSTILE_DOWNLOADS), &e)) { /* until the reply has ended */
		exchange_reply_error(x, &e, 1);
		return;
	}
	own.sort = SYMFILE_SYM;
	/* called otherwise, it may be the path of a code file, or as its uploader called it */
	if ((by_code && redirect_by_code(x, file)) || (called != SYM_FILE_OTHER && stored_send(x, &own, &form)) ||
	        (!by_code && redirect_by_code(x, file)))
		return;
	symfiles_set_missing(services_symfiles(), file, &since);
	missing_note_request(x, file->name, file->id);
	refuse(x, ERR_NOT_FOUND, missing);
}

void sym_get_handle(struct exchange *x)
{
	struct module_want want;
	struct symfile file = {.path = NULL};
	enum sym_path_file called;
	if (x->config->downloads == DOWNLOADS_NO) {
		refuse(x, ERR_NOT_FOUND, "no such page");
	} else if (!sym_path_read(x, x->path, &file.name, &file.id, &called)) {
		refuse(x, ERR_NOT_FOUND, "the path is not /NAME/ID/FILE.sym");
	} else if (!module_want_init(&want, x->config->lookup, file.name, file.id)) {
		refuse(x, ERR_NO_MEMORY, "out of memory");
	} else {
		file.hash = want.own.hash;
		/* it is called otherwise than a symbol file of that name */
		file.sort = called == SYM_FILE_OWN ? SYMFILE_SYM : SYMFILE_BY_CODE;
		answer(x, &file, called);
	}
}
