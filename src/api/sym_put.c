/* SPDX-License-Identifier: Apache-2.0 */
/* PUT /api/sym/NAME/ID/FILE.sym: one symbol file, checked while it arrives and kept compressed in sym_store. */
#include <config.h>

#include <stdatomic.h>
#include <string.h>

#include "api/router.h"
#include "api/store_permit.h"
#include "api/sym_path.h"
#include "api/upload.h"
#include "base/hash.h"
#include "base/log.h"
#include "keys/auth.h"
#include "api/services.h"
#include "symfiles/code_ids.h"

enum { ANNOUNCED = 4096 };

/* Keys of texts that this process has stored and told all hosts of, each in the place that its key chooses. */
static _Atomic uint64_t announced[ANNOUNCED];

/* 0 if out of memory. */
static uint64_t key_of(const struct sym_target *t, const struct symfile_facts *facts)
{
	struct module_hash hash;
	bool made = module_hash_make(&hash, t->to_try ? "try" : "upload", t->name, t->id);
	return made ? module_hash_seeded(&hash, facts->hash) : 0;
}

/* The module, and the code file that the file says it belongs to. */
static enum err forget(const struct sym_target *t, const struct symfile_facts *facts, struct error *e)
{
	enum err err = services_forget(t->name, t->id, e);
	if (!err && code_id_is_told(facts))
		err = services_forget(str_from(facts->code_file), str_from(facts->code_id), e);
	return err;
}

enum err sym_put_end(
        const struct exchange *x, struct symfile_put *put, struct sym_target *t, const char *key_id, struct error *e)
{
	struct symfile_facts facts;
	struct error other;
	enum code_origin by = t->to_try ? CODE_BY_TRY : t->owner ? CODE_BY_OWNER : CODE_BY_UPLOAD;
	enum err err = symfile_put_commit(put, by, &facts, &t->same, e);
	if (err && error_http_status(err) < 500)
		return err; /* refused, so nothing is stored */
	if (!err) {
		metric_add(M_SYM_UPLOADS_OK, 1);
		metric_add(M_SYM_UPLOAD_BYTES, (int64_t)facts.text);
		log_event(LOG_LEVEL_INFO, "sym uploaded", "%.*s/%.*s, %llu bytes unpacked%s, by key %s, request %s",
		        STR_FMT(t->name), STR_FMT(t->id), (unsigned long long)facts.text,
		        t->same ? ", as they were" : "", key_id, x->request_id);
	}
	/* who stored the same text may have ended before it told anyone */
	const uint64_t key = key_of(t, &facts);
	_Atomic uint64_t *known = &announced[key % ANNOUNCED];
	if (!err && t->same && key && atomic_load(known) == key)
		return ERR_OK;
	/* even after a failure: the file may have been stored although the reply was lost */
	enum err untold = forget(t, &facts, &other);
	if (!err && untold)
		*e = other;
	else if (!err)
		atomic_store(known, key);
	return err ? err : untold;
}

static enum err take_piece(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return symfile_put_add(arg, data, len, e);
}

/* Also for a body that was packed once more for the way: Content-Encoding is the transport's matter. */
static enum err receive(
        struct exchange *x, struct store_client *c, struct sym_target *t, const char *key_id, struct error *e)
{
	struct symfile_put *put = symfile_put_begin(c, t->name, t->id, x->config->bucket_max_size, e);
	if (!put)
		return e->code;
	enum err err = exchange_stream_body(x, x->config->max_sym_upload, take_piece, put, e);
	if (!err)
		return sym_put_end(x, put, t, key_id, e);
	symfile_put_abort(put);
	return err;
}

static enum err read_path(struct exchange *x, struct sym_target *t, struct error *e)
{
	static const char prefix[] = "/api/sym", try_prefix[] = "/api/sym/" BUCKET_TRY;
	struct str path = {x->path.data + strlen(prefix), x->path.len - strlen(prefix)};
	t->to_try = !sym_path_is(path) && x->path.len > strlen(try_prefix) &&
	            memcmp(x->path.data, try_prefix, strlen(try_prefix)) == 0;
	if (t->to_try)
		path = (struct str){x->path.data + strlen(try_prefix), x->path.len - strlen(try_prefix)};
	enum sym_path_file called;
	if (sym_path_is(path) && sym_path_read(x, path, &t->name, &t->id, &called) && called == SYM_FILE_OWN)
		return ERR_OK;
	return error_set(e, ERR_BAD_REQUEST,
	        "the path is not /api/sym/<debug_filename>/<debug_id>/<name>.sym, or /api/sym/try/… for a try");
}

static enum err put(struct exchange *x, struct error *e)
{
	const char *key = exchange_param(x, "HTTP_AUTHORIZATION");
	char key_id[64];
	struct sym_target t = {.same = false};
	enum err err = auth_check(key, RIGHT_UPLOAD, key_id, e);
	if (!err)
		err = read_path(x, &t, e);
	if (err)
		return err;
	t.owner = auth_check(key, RIGHT_INVALIDATE, key_id, e) == ERR_OK;
	struct store_client *c = store_permit_take_sym(x, e);
	if (!c)
		return e->code;
	err = receive(x, c, &t, key_id, e);
	store_permit_give(x, c);
	return err;
}

void sym_put_handle(struct exchange *x)
{
	struct error e;
	sym_upload_reply(x, put(x, &e), &e);
}
