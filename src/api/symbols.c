/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/symbols/<id> tells what was uploaded for an executable, and which set answers. */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "api/store_place.h"
#include "api/upload.h"
#include "base/json_text.h"
#include "keys/auth.h"
#include "uploads/alias.h"
#include "uploads/sets.h"

/* ---- one executable ---- */

/* Everything uploaded under an id. */
struct uploads {
	struct symbfile_sets sets;
	struct symbfile_claims claims; /* if the id was made from a build id */
	struct symbfile_alias alias;   /* which of them answers, if any */
};

/* The rest is as version 1.0 of symbtool reads it. If no set is complete, the latest is told, so that an upload can go
 * on; one that lacks nothing but its manifest lacks its last part, so that it is sent again. */
static const struct symbfile_set *set_to_tell(const struct symbfile_sets *sets, enum symbfile_kind kind)
{
	const struct symbfile_set *latest = sets->best[kind];
	if (latest && !(latest->old && !latest->complete))
		return latest;
	latest = NULL;
	for (size_t i = 0; i < sets->count; i++) {
		const struct symbfile_set *s = &sets->items[i];
		if (s->kind == kind && !s->old && (!latest || s->time > latest->time))
			latest = s;
	}
	return latest;
}

/* NULL if out of memory. */
static json_t *have_json(const struct symbfile_set *s)
{
	json_t *have = json_array();
	unsigned count = s ? s->have_count - (s->all_there && s->have_count) : 0;
	bool ok = have;
	for (unsigned i = 0; i < count && ok; i++)
		ok = json_array_append_new(have, json_integer(s->have[i].part)) == 0;
	if (ok)
		return have;
	json_decref(have);
	return NULL;
}

/* The same. */
static json_t *kind_json(const struct symbfile_set *s)
{
	json_t *object = json_pack("{s:I, s:o}", "parts", (json_int_t)(s ? s->parts : 0), "have", have_json(s));
	if (!s || (object && json_object_set_new(object, "set", json_string(s->name)) == 0))
		return object;
	json_decref(object);
	return NULL;
}

/* The same: a set with its manifest. */
static json_t *set_json(const struct symbfile_sets *sets, const struct symbfile_set *s)
{
	json_t *object = json_pack("{s:s, s:s, s:I, s:o, s:b, s:b}", "kind", symbfile_kind_names[s->kind], "set",
	        s->name, "parts", (json_int_t)s->parts, "have", have_json(s), "complete", s->complete, "answers",
	        s->answers);
	bool ok = object;
	if (ok && s->answers)
		ok = json_object_set_new(object, "why", json_string(symbfile_set_reason(sets, s))) == 0;
	if (ok && s->old)
		ok = json_object_set_new(object, "version", json_string("1.0")) == 0;
	if (ok && s->complete && !s->old)
		ok = manifest_show(&s->manifest, object);
	if (ok)
		return object;
	json_decref(object);
	return NULL;
}

static bool add_sets(json_t *body, const struct symbfile_sets *sets)
{
	json_t *array = json_array();
	bool ok = array;
	for (size_t i = 0; i < sets->count && ok; i++)
		ok = json_array_append_new(array, set_json(sets, &sets->items[i])) == 0;
	return json_object_set_new(body, "sets", array) == 0 && ok;
}

/* The executable that answers, and all others with the build id. */
static bool add_claims(json_t *body, const struct uploads *u)
{
	char hex[FILE_ID_HEX + 1], base[24];
	json_t *all = json_array();
	bool ok = true;
	if (!u->claims.count) {
		json_decref(all);
		return true;
	}
	for (unsigned i = 0; i < u->claims.count && ok; i++) {
		file_id_hex(hex, &u->claims.items[i].id);
		ok = json_array_append_new(all, json_string(hex)) == 0;
	}
	file_id_hex(hex, &u->alias.id);
	snprintf(base, sizeof base, "0x%" PRIx64, u->alias.image_base);
	ok = json_object_set_new(body, "claims", all) == 0 && ok;
	ok = json_object_set_new(body, "file_id", json_string(hex)) == 0 && ok;
	return json_object_set_new(body, "image_base", json_string(base)) == 0 && ok;
}

/* NULL if out of memory. */
static char *uploads_text(const struct uploads *u)
{
	json_t *body = json_object();
	bool ok = add_claims(body, u);
	for (unsigned i = 0; i < SYMBFILE_KINDS && ok; i++)
		ok = json_object_set_new(body, symbfile_kind_names[i],
		             kind_json(set_to_tell(&u->sets, (enum symbfile_kind)i))) == 0;
	char *text = ok && add_sets(body, &u->sets) ? json_text(body, JSON_COMPACT) : NULL;
	json_decref(body);
	return text;
}

/* Tries a FileID first, then the build ids that the id may mean; on failure there is nothing to release. */
static enum err get_uploads(struct uploads *u, struct store_client *c, struct str id, struct error *e)
{
	struct file_id file_id;
	struct build_id_question question;
	bool found = false;
	enum err err = ERR_OK;
	*u = (struct uploads){.claims.count = 0};
	if (file_id_parse(&file_id, id))
		err = symbfile_sets_get(&u->sets, c, &file_id, NULL, e);
	if (err || u->sets.count || !build_id_question_parse(&question, id))
		return err;
	symbfile_sets_release(&u->sets);
	err = symbfile_claims_get(&u->claims, c, &question, NULL, e);
	if (!err)
		err = symbfile_alias_choose(&u->alias, &found, &u->claims, c, NULL, e);
	return err || !found ? err : symbfile_sets_get(&u->sets, c, &u->alias.id, NULL, e);
}

static bool is_id(struct str text)
{
	struct file_id file_id;
	struct build_id_question question;
	return file_id_parse(&file_id, text) || build_id_question_parse(&question, text);
}

static enum err show(struct exchange *x, char **text, struct error *e)
{
	static const char prefix[] = "/api/symbols/";
	struct str id = {x->path.data + sizeof prefix - 1, x->path.len - (sizeof prefix - 1)};
	struct uploads uploads;
	char key_id[64];
	enum err err = auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_UPLOAD, key_id, e);
	if (err)
		return err;
	if (!is_id(id))
		return error_set(e, ERR_BAD_REQUEST,
		        "the path is not /api/symbols/ and a FileID, a build id, or a debug id of age 0");
	struct store_client *c = store_place_take(x, e);
	if (!c)
		return e->code;
	err = get_uploads(&uploads, c, id, e);
	store_place_leave(c);
	if (err)
		return err;
	*text = uploads_text(&uploads);
	symbfile_sets_release(&uploads.sets);
	return *text ? ERR_OK : no_memory(e);
}

void uploads_list_handle(struct exchange *x)
{
	struct error e;
	char *text = NULL;
	if (show(x, &text, &e))
		upload_refuse(x, &e);
	else
		exchange_reply_text(x, 200, "application/json", NULL, str_from(text));
	free(text);
}
