/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/want.h"

#include <string.h>

#include "base/digests.h"

bool module_want_init(struct module_want *w, enum config_lookup lookup, struct str name, struct str id)
{
	bool lower = false;
	char exact[2 * 1024 + 2];
	memset(w, 0, sizeof *w);
	w->name = name;
	w->id = id;
	if (!digest_of_module(&w->own.hash, lookup == LOOKUP_NEAREST ? "sym-nearest" : "sym", name, id))
		return false;
	w->own.spelling = w->own.hash;
	for (size_t i = 0; i < id.len; i++)
		lower = lower || (id.data[i] >= 'a' && id.data[i] <= 'z');
	if (!lower || name.len + id.len + 1 > sizeof exact)
		return true;
	/* the hash folds the case of the id but not of the name, so the exact id is hashed as part of the name */
	memcpy(exact, name.data, name.len);
	exact[name.len] = 0;
	memcpy(exact + name.len + 1, id.data, id.len);
	return digest_of_module(
	        &w->own.spelling, "spelling", (struct str){exact, name.len + 1 + id.len}, (struct str){"", 0});
}

/* For wants whose key does not depend on the module's name. */
static bool init_by_key(struct module_want *w, struct str name, struct str id, const char *what, const char *key)
{
	memset(w, 0, sizeof *w);
	w->name = name;
	w->id = id;
	if (!digest_of_module(&w->own.hash, what, str_from(""), str_from(key)))
		return false;
	w->own.spelling = w->own.hash;
	return true;
}

bool module_want_init_file(struct module_want *w, struct str name, struct str id, const struct file_id *file_id)
{
	char hex[FILE_ID_HEX + 1];
	file_id_hex(hex, file_id);
	bool ok = init_by_key(w, name, id, "symbfile", hex);
	w->kind = WANT_SYMBFILE;
	w->file_id = *file_id;
	return ok;
}

bool module_want_init_build_id(
        struct module_want *w, struct str name, struct str id, const struct build_id_question *question)
{
	char text[BUILD_ID_QUESTION_TEXT + 1];
	build_id_question_text(text, question);
	bool ok = init_by_key(w, name, id, "alias", text);
	w->kind = WANT_BUILD_ID;
	w->question = *question;
	return ok;
}

void module_want_release(struct module_want *w)
{
	if (w->own.held) {
		atomic_fetch_sub(&w->module->holds, 1);
		--*w->own.held;
	}
	module_unref(w->module);
	w->module = NULL;
	w->own.held = NULL;
}

void want_found(struct module_want *w, struct module *module)
{
	w->state = WANT_FOUND;
	w->module = module;
}

void want_settle(struct module_want *w, const struct outcome *o, unsigned retry_after)
{
	if (w->kind != WANT_BUILD_ID) /* that has no reasons of its own: what the sources said stands */
		memcpy(w->why, o->why, sizeof w->why);
	w->state = o->class == OUTCOME_REDIRECT ? WANT_REDIRECTED : WANT_FAILED;
	w->failure = o->class;
	w->own.redirect = o->redirect;
	w->retry_after = retry_after;
}

bool want_outdates(const struct module_want *w, uint64_t marker, int64_t marker_seen)
{
	return w->own.marker_seen > marker_seen && w->own.marker != marker;
}
