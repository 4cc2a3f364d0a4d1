/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/symbols/<id> tells what was uploaded for an executable, and which set answers; DELETE removes it, or one set
 * of it. GET /api/symbols lists the sets of all executables. */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "api/store_permit.h"
#include "api/sym_path.h"
#include "api/upload.h"
#include "base/array.h"
#include "base/json_text.h"
#include "base/log.h"
#include "keys/auth.h"
#include "api/services.h"
#include "objects/percent.h"
#include "uploads/alias.h"
#include "uploads/catalog.h"
#include "uploads/remove.h"

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
	if (latest)
		return latest;
	for (size_t i = 0; i < sets->count; i++) {
		const struct symbfile_set *s = &sets->items[i];
		if (s->kind == kind && (!latest || s->time > latest->time))
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
	json_t *kind = json_pack("{s:I, s:o}", "parts", (json_int_t)(s ? s->parts : 0), "have", have_json(s));
	if (kind && json_set_text(kind, "set", s ? s->name : NULL))
		return kind;
	json_decref(kind);
	return NULL;
}

/* The same: a set with its manifest. */
static json_t *set_json(const struct symbfile_sets *sets, const struct symbfile_set *s)
{
	json_t *object = json_pack("{s:s, s:s, s:I, s:o, s:b, s:b}", "kind", symbfile_kind_names[s->kind], "set",
	        s->name, "parts", (json_int_t)s->parts, "have", have_json(s), "complete", s->complete, "answers",
	        s->answers);
	bool ok = object && json_set_text(object, "why", s->answers ? symbfile_set_reason(sets, s) : NULL);
	if (ok && s->complete)
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
	if (!u->claims.count)
		return true;
	json_t *all = json_array();
	bool ok = true;
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

static const char no_set_name[] = "the path does not end with the name of a set";

/* Cuts the path into the id and, if set is not NULL, what is after it. */
static enum err read_path(struct exchange *x, struct str *id, struct str *set, struct error *e)
{
	static const char prefix[] = "/api/symbols/";
	struct str rest = {x->path.data + sizeof prefix - 1, x->path.len - (sizeof prefix - 1)};
	*id = set ? str_cut(&rest, '/') : rest;
	if (set)
		*set = rest;
	enum err err = sym_path_decode(x, *id, id);
	if (err == ERR_NO_MEMORY)
		return no_memory(e);
	if (err || !is_id(*id))
		return error_set(
		        e, ERR_BAD_REQUEST, "the path is not /api/symbols/ and a FileID, a build id, or a debug id");
	/* a set without a name is not all of them */
	if (set && !rest.len && x->path.data[x->path.len - 1] == '/')
		return error_set(e, ERR_BAD_REQUEST, "%s", no_set_name);
	return ERR_OK;
}

static enum err check_key(struct exchange *x, unsigned rights, char key_id[UPLOADER_SIZE], struct error *e)
{
	return auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), rights, key_id, e);
}

static enum err show(struct exchange *x, char **text, struct error *e)
{
	struct uploads uploads;
	struct str id;
	char key_id[UPLOADER_SIZE];
	enum err err = check_key(x, RIGHT_UPLOAD | RIGHT_READ, key_id, e);
	if (!err)
		err = read_path(x, &id, NULL, e);
	if (err)
		return err;
	struct store_client *c = store_permit_take(x, e);
	if (!c)
		return e->code;
	err = get_uploads(&uploads, c, id, e);
	store_permit_give(x, c);
	if (err)
		return err;
	*text = uploads_text(&uploads);
	symbfile_sets_release(&uploads.sets);
	return *text ? ERR_OK : no_memory(e);
}

static void reply(struct exchange *x, enum err (*make)(struct exchange *x, char **text, struct error *e))
{
	struct error e;
	char *text = NULL;
	if (make(x, &text, &e))
		upload_refuse(x, &e);
	else
		exchange_reply_text(x, 200, "application/json", NULL, str_from(text));
	free(text);
}

void symbols_show_handle(struct exchange *x)
{
	reply(x, show);
}

/* ---- removing ---- */

/* All hosts look again, also if not everything was removed. */
static void forget(const struct file_id *id, const struct symbfile_sets *sets)
{
	modules_forget_file(services_modules(), id);
	for (size_t i = 0; i < sets->count; i++) {
		const struct build_id *build_id = &sets->items[i].manifest.build_id;
		bool again = i > 0 && memcmp(build_id, &sets->items[i - 1].manifest.build_id, sizeof *build_id) == 0;
		if (build_id->len && !again)
			modules_forget_build_id(services_modules(), build_id);
	}
}

static enum err remove_of(
        struct removal *r, struct store_client *c, const struct file_id *id, struct str set, struct error *e)
{
	struct symbfile_sets sets;
	enum err err = symbfile_sets_get(&sets, c, id, NULL, e);
	if (err)
		return err;
	err = set.len ? symbfile_remove_set(r, c, id, set, e) : symbfile_remove(r, c, id, e);
	forget(id, &sets);
	symbfile_sets_release(&sets);
	return err;
}

struct claims {
	struct claim *items;
	size_t count;
	uint32_t cap;
	bool no_memory;
};

static bool add_claim(void *arg, const struct claim *claim)
{
	struct claims *all = arg;
	all->no_memory = !array_reserve(&all->items, &all->cap, all->count + 1, sizeof *all->items);
	if (!all->no_memory)
		all->items[all->count++] = *claim;
	return !all->no_memory;
}

/* A FileID of which there is nothing may be a build id: then of all executables that have it. */
static enum err remove_all(struct removal *r, struct store_client *c, struct str id, struct str set, struct error *e)
{
	struct file_id file_id;
	struct build_id_question question;
	struct claims claims = {.count = 0};
	enum err err = file_id_parse(&file_id, id) ? remove_of(r, c, &file_id, set, e) : ERR_OK;
	if (!err && !r->objects && build_id_question_parse(&question, id))
		err = symbfile_claims_each(c, &question, add_claim, &claims, NULL, e);
	if (!err && claims.no_memory)
		err = no_memory(e);
	for (size_t i = 0; i < claims.count && !err; i++) {
		err = remove_of(r, c, &claims.items[i].id, set, e);
		modules_forget_build_id(services_modules(), &claims.items[i].build_id);
	}
	free(claims.items);
	return err || r->objects
	               ? err
	               : error_set(e, ERR_NOT_FOUND, "nothing is stored under this id%s", set.len ? " and set" : "");
}

static enum err read_set(struct str *set, char text[3 * SET_NAME_MAX + 1], struct error *e)
{
	if (set->len <= 3 * SET_NAME_MAX && percent_decode(text, *set))
		*set = str_from(text);
	return !set->len || set_name_is_stored(*set) ? ERR_OK : error_set(e, ERR_BAD_REQUEST, "%s", no_set_name);
}

static enum err remove_uploads(struct exchange *x, char **text, struct error *e)
{
	char key_id[UPLOADER_SIZE], name[3 * SET_NAME_MAX + 1];
	struct str id, set;
	struct removal r = {.keeps = NULL};
	enum err err = check_key(x, RIGHT_REMOVE, key_id, e);
	if (!err)
		err = read_path(x, &id, &set, e);
	if (!err)
		err = read_set(&set, name, e);
	if (err)
		return err;
	struct store_client *c = store_permit_take(x, e);
	if (!c)
		return e->code;
	err = remove_all(&r, c, id, set, e);
	store_permit_give(x, c);
	if (r.objects)
		log_event(LOG_LEVEL_INFO, "removed",
		        "%.*s%s%.*s: %" PRIu64 " objects, %" PRIu64 " bytes%s, by key %s, request %s", STR_FMT(id),
		        set.len ? ", set " : "", STR_FMT(set), r.objects, r.bytes, err ? ", but not all" : "", key_id,
		        x->request_id);
	if (err)
		return err;
	*text = text_printf(
	        "{\"success\":true,\"status\":200,\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", r.objects, r.bytes);
	return *text ? ERR_OK : no_memory(e);
}

void symbols_remove_handle(struct exchange *x)
{
	reply(x, remove_uploads);
}

/* ---- all executables ---- */

/* A parameter's value, decoded into memory of the request. NULL: there is none. */
static enum err read_parameter(struct exchange *x, const char *name, const char **value, struct error *e)
{
	struct str rest = x->query, text;
	*value = NULL;
	while (rest.len) {
		struct str part = str_cut(&rest, '&'), key = str_cut(&part, '=');
		if (!str_equal(key, str_from(name)))
			continue;
		enum err err = sym_path_decode(x, part, &text);
		if (err)
			return err == ERR_NO_MEMORY ? no_memory(e)
			                            : error_set(e, err, "%s is not percent-encoded", name);
		*value = text.data;
	}
	return ERR_OK;
}

static enum err read_query(struct exchange *x, struct catalog_query *q, struct error *e)
{
	const char *sort, *limit;
	uint64_t number = CATALOG_PAGE_MAX / 4;
	enum err err = read_parameter(x, "sort", &sort, e);
	if (!err)
		err = read_parameter(x, "limit", &limit, e);
	if (!err)
		err = read_parameter(x, "uploader", &q->uploader, e);
	if (!err)
		err = read_parameter(x, "after", &q->after, e);
	if (err)
		return err;
	if (sort && strcmp(sort, "newest") != 0 && strcmp(sort, "size") != 0)
		return error_set(e, ERR_BAD_REQUEST, "sort is neither newest nor size");
	if (limit && (!str_number(str_from(limit), CATALOG_PAGE_MAX, &number) || !number))
		return error_set(e, ERR_BAD_REQUEST, "limit is not a number from 1 to %d", CATALOG_PAGE_MAX);
	q->by_size = sort && strcmp(sort, "size") == 0;
	q->limit = (unsigned)number;
	return ERR_OK;
}

static bool add_to_list(void *arg, const struct catalog_set *s, const struct manifest *m)
{
	char hex[FILE_ID_HEX + 1], time[TIME_TEXT];
	file_id_hex(hex, &s->id);
	manifest_time(time, s->time);
	json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s}", "file_id", hex, "kind", symbfile_kind_names[s->kind],
	        "set", s->name, "size", (json_int_t)s->size, "time", time);
	bool ok = object && (!m || manifest_show(m, object));
	if (ok)
		ok = json_object_set_new(object, "complete", json_boolean(s->complete)) == 0;
	if (ok)
		return json_array_append_new(arg, object) == 0;
	json_decref(object);
	return false;
}

static enum err list(struct exchange *x, char **text, struct error *e)
{
	char key_id[UPLOADER_SIZE], next[CATALOG_CURSOR];
	struct catalog_query q = {.limit = 0};
	enum err err = check_key(x, RIGHT_READ, key_id, e);
	if (!err)
		err = read_query(x, &q, e);
	if (err)
		return err;
	struct store_client *c = store_permit_take(x, e);
	if (!c)
		return e->code;
	json_t *sets = json_array();
	err = sets ? symbfile_catalog(c, &q, add_to_list, sets, next, e) : no_memory(e);
	store_permit_give(x, c);
	json_t *body = err ? NULL : json_pack("{s:O}", "sets", sets);
	json_decref(sets);
	*text = body && json_set_text(body, "next", *next ? next : NULL) ? json_text(body, JSON_COMPACT) : NULL;
	json_decref(body);
	return err || *text ? err : no_memory(e);
}

void symbols_list_handle(struct exchange *x)
{
	reply(x, list);
}
