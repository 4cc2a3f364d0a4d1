/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/services.h"

#include "base/account.h"
#include "base/process.h"
#include "keys/auth.h"

enum { MARGIN_PART = 16 };

static struct modules *modules;
static struct symfiles *symfiles;
static struct elf_code *code;

enum err services_start(const struct config *c, struct extractors *extractors, struct error *e)
{
	enum err err = auth_load(c->keys_file, e);
	if (err)
		return err;
	/* a little is left for what is not charged and grows between two measurements */
	account_start(c->memory - c->memory / MARGIN_PART);
	metric_set(M_MEMORY_LIMIT, (int64_t)c->memory);
	symfiles = symfiles_new(c, e);
	if (symfiles)
		code = elf_code_new(c, extractors, e);
	modules = code ? modules_start(c, extractors, e) : NULL;
	account_note_resident(resident_bytes());
	if (modules)
		return ERR_OK;
	services_stop();
	return e->code;
}

void services_stop(void)
{
	modules_stop(modules);
	modules = NULL;
	symfiles_free(symfiles);
	symfiles = NULL;
	elf_code_free(code);
	code = NULL;
}

struct elf_code *services_code(void)
{
	return code;
}

struct symfiles *services_symfiles(void)
{
	return symfiles;
}

struct modules *services_modules(void)
{
	return modules;
}
