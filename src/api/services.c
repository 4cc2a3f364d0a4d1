/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/services.h"

#include "base/account.h"
#include "keys/auth.h"
#include "symfiles/code_notes.h"

enum { MARGIN_PART = 16 };

static struct bucket_sources *sources;
static struct modules *modules;
static struct symfiles *symfiles;
static struct elf_code *code;
static enum config_lookup lookup;
static struct turnstile turnstiles[TURNSTILE_FETCHES]; /* the others are for who reads executables */

static enum err forget(struct str name, struct str id, struct error *e)
{
	struct module_want want;
	if (!module_want_init(&want, lookup, name, id))
		return no_memory(e);
	symfiles_forget(symfiles, &want.own.hash);
	return modules_invalidate(modules, name, id, e);
}

enum err services_forget(struct str name, struct str id, struct error *e)
{
	char text[BUCKET_ID_MAX + 1];
	struct str other;
	enum err err = forget(name, id, e);
	return !err && bucket_spell(id, SPELLED_BY_AGE, text, &other) ? forget(name, other, e) : err;
}

/* A code id is known that requests may have asked for in vain, here or on other hosts. */
static void code_is_known(struct str code_file, struct str code_id)
{
	struct error e;
	services_forget(code_file, code_id, &e);
}

static void make_turnstiles(const struct config *c)
{
	const uint64_t code_places = EXTRACTORS_FETCH * c->executables_parallel;
	const uint64_t places[] = {[TURNSTILE_DOWNLOADS] = c->download_parallel,
	        [TURNSTILE_UPLOADS] = c->upload_parallel,
	        [TURNSTILE_CODE] = code_places,
	        [TURNSTILE_SEGMENTS] = code_places};
	for (unsigned i = 0; i < TURNSTILE_FETCHES; i++)
		turnstile_init(
		        &turnstiles[i], (enum turnstile_for)i, (unsigned)places[i], (unsigned)c->cold_queue, false);
}

enum err services_start(const struct config *c, struct extractors *extractors, struct error *e)
{
	enum err err = auth_load(c->keys_file, e);
	if (err)
		return err;
	/* a little is left for what is not charged and grows between two measurements */
	account_start(c->memory - c->memory / MARGIN_PART);
	metric_set(M_MEMORY_LIMIT, (int64_t)c->memory);
	lookup = c->lookup;
	make_turnstiles(c);
	sources = bucket_sources_new(c, e);
	symfiles = sources ? symfiles_new(c, sources, e) : NULL;
	code = symfiles ? elf_code_new(c, sources, extractors, e) : NULL;
	modules = code ? modules_start(c, sources, extractors, e) : NULL;
	account_note_resident(account_resident());
	if (modules && symfiles_store(symfiles))
		code_notes_start(symfiles_store(symfiles), code_is_known);
	if (modules)
		return ERR_OK;
	services_stop();
	return e->code;
}

void services_stop(void)
{
	code_notes_stop();
	modules_stop(modules);
	modules = NULL;
	symfiles_free(symfiles);
	symfiles = NULL;
	elf_code_free(code);
	code = NULL;
	bucket_sources_free(sources);
	sources = NULL;
	for (unsigned i = 0; i < TURNSTILE_FETCHES; i++)
		turnstile_release(&turnstiles[i]);
}

struct turnstile *services_turnstile(enum turnstile_for what)
{
	return &turnstiles[what];
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
