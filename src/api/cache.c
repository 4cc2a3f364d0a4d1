/* SPDX-License-Identifier: Apache-2.0 */
/* DELETE /cache/<debug_filename>/<id>: a new symbol file was uploaded, so forget what is cached of the module. */
#include <config.h>

#include "api/router.h"
#include "api/store_permit.h"
#include "api/sym_path.h"
#include "base/log.h"
#include "keys/auth.h"
#include "api/services.h"
#include "objects/bucket.h"
#include "uploads/alias.h"

/* Accepts exactly /cache/NAME/ID. */
static enum err parse_path(struct exchange *x, struct str *name, struct str *id)
{
	static const char prefix[] = "/cache/";
	if (x->path.len < sizeof prefix)
		return ERR_BAD_REQUEST;
	struct str rest = {x->path.data + sizeof prefix - 1, x->path.len - (sizeof prefix - 1)};
	struct str part = str_cut(&rest, '/');
	if (!rest.len || memchr(rest.data, '/', rest.len))
		return ERR_BAD_REQUEST;
	enum err err = sym_path_decode(x, part, name);
	return err ? err : sym_path_decode(x, rest, id);
}

/* Uploads are known by their id, whatever the name. */
static bool can_be(const struct exchange *x, struct str name, struct str id)
{
	struct file_id file_id;
	struct build_id_question question;
	return bucket_can_hold(name, id) ||
	       (*x->config->symbfile_store && (file_id_parse(&file_id, id) || build_id_question_parse(&question, id)));
}

/* Forgets what was uploaded for the executables of a build id. */
static enum err forget_executables(struct exchange *x, struct str id, struct error *e)
{
	struct build_id_question question;
	struct symbfile_claims claims;
	if (!*x->config->symbfile_store || !build_id_question_parse(&question, id))
		return ERR_OK;
	struct store_client *c = store_permit_take(x, e);
	if (!c)
		return e->code;
	enum err err = symbfile_claims_get(&claims, c, &question, NULL, e);
	store_permit_give(x, c);
	for (unsigned i = 0; i < claims.count && !err; i++)
		modules_forget_file(services_modules(), &claims.items[i].id);
	return err;
}

void cache_delete_handle(struct exchange *x)
{
	struct error e = {.code = ERR_OK};
	struct str name, id;
	char key_id[64];
	enum err err = auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_INVALIDATE, key_id, &e);
	if (!err)
		err = parse_path(x, &name, &id);
	if (!err && !can_be(x, name, id))
		err = ERR_BAD_REQUEST;
	if (err == ERR_BAD_REQUEST)
		error_set(&e, err, "the path is not /cache/<debug_filename>/<debug_id>");
	else if (err == ERR_NO_MEMORY)
		error_set(&e, err, "out of memory");
	if (!err)
		err = services_forget(name, id, &e);
	if (!err)
		err = forget_executables(x, id, &e);
	if (err) {
		exchange_reply_error(x, &e, 1);
		return;
	}
	log_event(LOG_LEVEL_INFO, "invalidated", "%.*s/%.*s by key %s, request %s", STR_FMT(name), STR_FMT(id), key_id,
	        x->request_id);
	exchange_reply_text(x, 200, "application/json", NULL, str_from("{\"success\":true,\"status\":200}"));
}
