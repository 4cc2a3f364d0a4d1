/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/symbols-ranges and /api/symbols-returnpads upload a part of an executable's symbfiles. GET
 * /api/symbols/<FileID> lists what is there. Errors have a format of their own, with a uuid that is also in the log. */
#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "api/store_place.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/random.h"
#include "keys/auth.h"
#include "modules/services.h"
#include "symbfile/symbfile.h"
#include "uploads/alias.h"
#include "uploads/sets.h"

enum { UUID_SIZE = 37, RETRY_AFTER = 2 };

/* ---- replies ---- */

/* The request id as a uuid, so that it is in nginx's log too; a random one if the id has another form. */
static void make_uuid(char out[UUID_SIZE], const struct exchange *x)
{
	char hex[33];
	if (strlen(x->request_id) == 32 && strspn(x->request_id, "0123456789abcdef") == 32)
		memcpy(hex, x->request_id, sizeof hex);
	else
		snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)random_u64(),
		        (unsigned long long)random_u64());
	snprintf(out, UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static void refuse(struct exchange *x, const struct error *e)
{
	char uuid[UUID_SIZE], code[16], extra[64];
	int status = error_http_status(e->code);
	make_uuid(uuid, x);
	snprintf(code, sizeof code, "%d", status);
	exchange_error_headers(extra, e->code, RETRY_AFTER);
	metric_add(status < 500 ? M_UPLOADS_REFUSED : M_UPLOADS_FAILED, 1);
	log_event(
	        LOG_LEVEL_WARNING, "upload refused", "%s, uuid %s, request %s: %s", code, uuid, x->request_id, e->text);
	struct buffer body;
	buffer_init(&body, 8192);
	buffer_printf(&body, "{\"success\":false,\"uuid\":\"%s\",\"error\":{\"Code\":\"%s\",\"Text\":", uuid, code);
	buffer_append_json(&body, str_from(e->text));
	buffer_printf(&body, "},\"status\":%d}", status);
	exchange_reply_text(x, status, "application/json", extra,
	        body.failed ? str_from("{\"success\":false}") : (struct str){(char *)body.data, body.len});
	buffer_release(&body);
}

/* ---- what comes before the body ---- */

static enum err check_key(struct exchange *x, char key_id[64], struct error *e)
{
	return auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_UPLOAD, key_id, e);
}

static enum err read_number(
        const struct exchange *x, const char *param, const char *header, unsigned *number, struct error *e)
{
	const char *text = exchange_param(x, param);
	size_t len = text ? strlen(text) : 0;
	if (!len)
		return error_set(e, ERR_BAD_REQUEST, "the header %s is missing", header);
	if (len > 6 || strspn(text, "0123456789") != len)
		return error_set(e, ERR_BAD_REQUEST, "%s is not a number up to 999999", header);
	*number = (unsigned)strtoul(text, NULL, 10);
	return ERR_OK;
}

/* What the upload says about the executable: a build id of length 0 if it names none. */
static enum err read_claim(const struct exchange *x, struct store_claim *claim, struct error *e)
{
	const char *id = exchange_param(x, "HTTP_BUILDID"), *base = exchange_param(x, "HTTP_IMAGEBASE");
	claim->build_id.len = 0;
	claim->image_base = 0;
	if (id && *id && !build_id_parse(&claim->build_id, str_from(id)))
		return error_set(
		        e, ERR_BAD_REQUEST, "BuildID is not an even number of hex digits, at most %d", BUILD_ID_HEX);
	if (!base || !*base)
		return ERR_OK;
	size_t digits = strncmp(base, "0x", 2) == 0 ? strlen(base + 2) : 0;
	if (!digits || digits > 16 || strspn(base + 2, "0123456789abcdefABCDEF") != digits)
		return error_set(e, ERR_BAD_REQUEST, "ImageBase is not 0x and up to 16 hex digits");
	claim->image_base = strtoull(base, NULL, 16);
	return ERR_OK;
}

/* key->set is NULL if the upload names none. */
static enum err read_headers(const struct exchange *x, struct store_key *key, struct error *e)
{
	const char *id = exchange_param(x, "HTTP_FILEID"), *set = exchange_param(x, "HTTP_FILESET");
	if (!id || !file_id_parse(&key->id, str_from(id)))
		return error_set(e, ERR_BAD_REQUEST, "the header FileID is %s",
		        id ? "neither 32 hex digits nor 22 letters of base64" : "missing");
	enum err err = read_number(x, "HTTP_FILEPARTS", "FileParts", &key->parts, e);
	if (!err)
		err = read_number(x, "HTTP_FILEPART", "FilePart", &key->part, e);
	if (err)
		return err;
	if (!key->parts || key->parts > STORE_PARTS_MAX)
		return error_set(e, ERR_BAD_REQUEST, "FileParts is not between 1 and %d", STORE_PARTS_MAX);
	if (key->part >= key->parts)
		return error_set(e, ERR_BAD_REQUEST, "FilePart %u is not below FileParts, %u", key->part, key->parts);
	key->set = set && *set ? set : NULL;
	if (key->set && (!store_key_is_valid(key) || strchr(key->set, STORE_SET_GENERATION)))
		return error_set(e, ERR_BAD_REQUEST, "FileSet is not 1 to %d of A-Za-z0-9._-", STORE_SET_MAX);
	return ERR_OK;
}

/* ---- the body ---- */

struct upload {
	struct symbfile_reader *reader;
	struct store_put *put;
	uint64_t bytes;
};

static enum err accept_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)arg, (void)r, (void)e;
	return ERR_OK;
}

static enum err accept_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)arg, (void)p, (void)e;
	return ERR_OK;
}

/* If the file is refused, that is the client's mistake. */
static enum err blame(enum err err, struct error *e)
{
	return err == ERR_CORRUPT ? (e->code = ERR_BAD_REQUEST) : err;
}

static enum err take_piece(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct upload *u = arg;
	enum err err = blame(symbfile_reader_feed(u->reader, data, len, e), e);
	u->bytes += len;
	return err ? err : store_put_write(u->put, data, len, e);
}

/* The claim first, so that wherever a part exists, so does what leads to it, even if the upload dies. */
static enum err commit(struct store_client *c, struct store_put *put, const struct store_claim *claim, struct error *e)
{
	struct modules *m = services_modules();
	enum err err = claim->build_id.len ? store_put_claim(c, claim, NULL, e) : ERR_OK;
	if (err)
		store_put_abort(put);
	else
		err = store_put_commit(put, e);
	/* even after a failure: the part may have been stored although the reply was lost */
	modules_forget_file(m, &claim->id);
	if (claim->build_id.len)
		modules_forget_build_id(m, &claim->build_id);
	return err;
}

struct part {
	struct store_key key;
	char set[STORE_SET_MAX + 1]; /* of an upload that names none */
	struct store_claim claim;
	uint64_t bytes;
};

/* Checks the body while it arrives, and stores it. */
static enum err receive(struct exchange *x, struct store_client *c, struct part *p, struct error *e)
{
	char same_name[STORE_SET_MAX + 1];
	struct store_key same = {.set = NULL};
	static const struct symbfile_sink sink = {.range = accept_range, .pad = accept_pad};
	struct upload u = {.reader = symbfile_reader_new(&sink)};
	enum err err = u.reader ? ERR_OK : no_memory(e);
	if (!err && !p->key.set)
		err = symbfile_sets_place(&p->key, p->set, &same, same_name, c, e);
	if (!err && !(u.put = store_put_begin(c, &p->key, NULL, e)))
		err = e->code;
	if (!err && same.set)
		store_put_unless_same(u.put, &same);
	if (!err)
		err = exchange_stream_body(x, x->config->max_upload, take_piece, &u, e);
	if (!err)
		err = blame(symbfile_reader_finish(u.reader, e), e);
	if (!err) {
		err = commit(c, u.put, &p->claim, e);
	} else if (u.put) {
		store_put_abort(u.put);
	}
	symbfile_reader_free(u.reader);
	p->bytes = u.bytes;
	return err;
}

static void log_stored(const struct exchange *x, const struct part *p, const char *key_id)
{
	const struct store_key *key = &p->key;
	char hex[FILE_ID_HEX + 1], build_id[BUILD_ID_HEX + 1];
	file_id_hex(hex, &key->id);
	build_id_hex(build_id, p->claim.build_id.bytes, p->claim.build_id.len);
	log_event(LOG_LEVEL_INFO, "uploaded", "%s of %s%s%s, set %s, part %u of %u, %llu bytes, by key %s, request %s",
	        symbfile_kind_names[key->kind], hex, *build_id ? ", build id " : "", build_id, key->set, key->part,
	        key->parts, (unsigned long long)p->bytes, key_id, x->request_id);
}

static enum err store_part(struct exchange *x, enum symbfile_kind kind, struct error *e)
{
	char key_id[64];
	struct part p = {.key.kind = kind};
	enum err err = check_key(x, key_id, e);
	if (!err)
		err = read_headers(x, &p.key, e);
	if (!err)
		err = read_claim(x, &p.claim, e);
	if (err)
		return err;
	p.claim.id = p.key.id;
	struct store_client *c = store_place_take(x, e);
	if (!c)
		return e->code;
	err = receive(x, c, &p, e);
	store_place_leave(c);
	if (err)
		return err;
	metric_add(M_UPLOADS_STORED, 1);
	metric_add(M_UPLOAD_BYTES, (int64_t)p.bytes);
	log_stored(x, &p, key_id);
	return ERR_OK;
}

static void upload(struct exchange *x, enum symbfile_kind kind)
{
	struct error e;
	if (store_part(x, kind, &e))
		refuse(x, &e);
	else
		exchange_reply_text(x, 200, "application/json", NULL, str_from("{\"success\":true,\"status\":200}"));
}

void upload_ranges_handle(struct exchange *x)
{
	upload(x, SYMBFILE_RANGES);
}

void upload_returnpads_handle(struct exchange *x)
{
	upload(x, SYMBFILE_RETURNPADS);
}

/* ---- what is there ---- */

/* NULL if out of memory. */
static json_t *set_json(const struct symbfile_set *set)
{
	json_t *have = json_array();
	bool ok = true;
	for (unsigned i = 0; i < set->have_count && ok; i++)
		ok = json_array_append_new(have, json_integer(set->have[i])) == 0;
	json_t *object = json_pack("{s:I, s:o}", "parts", (json_int_t)set->parts, "have", have);
	if (ok && set->parts)
		ok = json_object_set_new(object, "set", json_string(set->set)) == 0;
	if (ok)
		return object;
	json_decref(object);
	return NULL;
}

/* Everything uploaded under an id. */
struct uploads {
	struct symbfile_sets sets;
	struct symbfile_claims claims; /* if the id was made from a build id */
	struct symbfile_alias alias;   /* which of them answers, if any */
};

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
	snprintf(base, sizeof base, "0x%llx", (unsigned long long)u->alias.image_base);
	ok = json_object_set_new(body, "claims", all) == 0 && ok;
	ok = json_object_set_new(body, "file_id", json_string(hex)) == 0 && ok;
	return json_object_set_new(body, "image_base", json_string(base)) == 0 && ok;
}

/* The same. */
static char *uploads_text(const struct uploads *u)
{
	json_t *body = json_object();
	bool ok = add_claims(body, u);
	for (unsigned i = 0; i < SYMBFILE_KINDS && ok; i++)
		ok = json_object_set_new(body, symbfile_kind_names[i], set_json(&u->sets.kinds[i])) == 0;
	char *text = ok ? json_text(body, JSON_COMPACT) : NULL;
	json_decref(body);
	return text;
}

static bool is_empty(const struct symbfile_sets *sets)
{
	return !sets->kinds[SYMBFILE_RANGES].parts && !sets->kinds[SYMBFILE_RETURNPADS].parts;
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
	if (err || !is_empty(&u->sets) || !build_id_question_parse(&question, id))
		return err;
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

static enum err list(struct exchange *x, char **text, struct error *e)
{
	static const char prefix[] = "/api/symbols/";
	struct str id = {x->path.data + sizeof prefix - 1, x->path.len - (sizeof prefix - 1)};
	struct uploads uploads;
	char key_id[64];
	enum err err = check_key(x, key_id, e);
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
	if (list(x, &text, &e))
		refuse(x, &e);
	else
		exchange_reply_text(x, 200, "application/json", NULL, str_from(text));
	free(text);
}
