/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/want.h"

#include <string.h>

#include "base/clock.h"
#include "modules/digests.h"

/* key_name, key_id: by which it is found in every cache, among others of this kind. */
static bool init(struct module_want *w, enum want_kind kind, struct str name, struct str id, const char *what,
        struct str key_name, struct str key_id)
{
	*w = (struct module_want){.name = name, .id = id, .kind = kind};
	bool ok = digest_of_module(&w->own.hash, what, key_name, key_id);
	w->own.spelling = w->own.hash;
	return ok;
}

bool module_want_init(struct module_want *w, enum config_lookup lookup, struct str name, struct str id)
{
	char upper[1024];
	if (!init(w, WANT_SYM, name, id, lookup == LOOKUP_NEAREST ? "sym-nearest" : "sym", name, id))
		return false;
	if (id.len > sizeof upper || !str_upper(upper, id))
		return true;
	/* in the place of the name, whose case is not folded; a spelling tells only loads of one module apart */
	return digest_of_module(&w->own.spelling, "spelling", id, str_from(""));
}

bool module_want_init_file(struct module_want *w, struct str name, struct str id, const struct file_id *file_id)
{
	char hex[FILE_ID_HEX + 1];
	file_id_hex(hex, file_id);
	bool ok = init(w, WANT_SYMBFILE, name, id, "symbfile", str_from(""), str_from(hex));
	w->file_id = *file_id;
	return ok;
}

bool module_want_init_build_id(
        struct module_want *w, struct str name, struct str id, const struct build_id_question *question)
{
	char text[BUILD_ID_QUESTION_TEXT + 1];
	build_id_question_text(text, question);
	bool ok = init(w, WANT_BUILD_ID, name, id, "alias", str_from(""), str_from(text));
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

void want_settle(struct module_want *w, const struct outcome *o)
{
	if (w->kind == WANT_SYM ||
	        *o->why) /* where uploads have no reason of their own, what the sources said stands */
		memcpy(w->why, o->why, sizeof w->why);
	w->state = o->class == OUTCOME_REDIRECT ? WANT_REDIRECTED : WANT_FAILED;
	w->failure = o->class;
	w->own.redirect = o->redirect;
	w->retry_after = failure_seconds(o->until, clock_now());
}

bool want_outdates(const struct module_want *w, uint64_t marker, int64_t marker_seen)
{
	return w->own.marker_seen > marker_seen && w->own.marker != marker;
}

bool wants_need_load(const struct module_want *wants, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (wants[i].state == WANT_LOAD)
			return true;
	return false;
}
