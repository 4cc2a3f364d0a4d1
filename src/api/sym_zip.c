/* SPDX-License-Identifier: Apache-2.0 */
/* POST /upload/: a ZIP of symbol files in form data, as Mozilla's Tecken takes it, with its replies. The ZIP is kept in
 * an unnamed file and read twice, by a thread that gives way to requests: all of it must be good before the first file
 * is stored. What all its files unpack to has one limit, however often they are packed. */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/file_put.h"
#include "api/multipart.h"
#include "api/router.h"
#include "api/store_permit.h"
#include "api/upload.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/permits.h"
#include "base/utf8.h"
#include "keys/auth.h"
#include "objects/bucket.h"
#include "symfiles/put.h"
#include "symfiles/zip.h"

enum { FORM_ROOM = 64 << 10, NAME_SIZE = 128, KEYS_LISTED = 1000 };

struct zip_upload {
	struct exchange *x;
	char key_id[64], filename[NAME_SIZE];
	struct store_client *client;
	int fd; /* of the ZIP */
	bool has_file, in_file, in_try;
	uint64_t size;
	int64_t deadline;        /* clock_now() */
	uint64_t text, text_max; /* bytes of the files so far, unpacked; in all */
	/* of the file that is being read */
	struct symfile_check *check;
	struct symfile_put *put;
	struct sym_target target;
	struct file_target file_target;
	struct file_put *file; /* instead of check and put: an executable or debug file */
	char *kept;            /* its name and id */
	uint64_t files;
	bool storing;              /* the second reading */
	json_t *ignored, *skipped; /* names of members */
};

/* ---- the form ---- */

static int open_file(struct error *e)
{
	const char *folder = getenv("TMPDIR");
	if (!folder || !*folder)
		folder = "/var/tmp";
	int fd = file_open_unnamed(folder);
	if (fd < 0)
		error_set(e, ERR_UNAVAILABLE, "the ZIP cannot be stored in %.100s: %s", folder, strerror(errno));
	return fd;
}

/* As much of a name as fits and is UTF-8. */
static void copy_name(char to[NAME_SIZE], struct str name)
{
	size_t n = 0;
	for (size_t step; n < name.len; n += step) {
		step = utf8_sequence((const uint8_t *)name.data + n, name.len - n);
		if (!step || n + step >= NAME_SIZE)
			break;
	}
	snprintf(to, NAME_SIZE, "%.*s", (int)n, name.data);
}

static enum err begin_part(void *arg, struct str name, struct str filename, struct error *e)
{
	struct zip_upload *u = arg;
	u->in_file = filename.len; /* a form's field for a file that was left empty has an empty one */
	u->in_try = !filename.data && str_equal(name, str_from("try"));
	if (!u->in_file)
		return ERR_OK;
	if (u->has_file)
		return error_set(e, ERR_BAD_REQUEST, "the form has more than one file: send one ZIP in a request");
	u->has_file = true;
	copy_name(u->filename, filename);
	return ERR_OK;
}

static enum err add_to_part(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct zip_upload *u = arg;
	u->target.to_try = u->target.to_try || (u->in_try && len > 0);
	if (!u->in_file)
		return ERR_OK;
	u->size += len;
	if (!write_all(u->fd, data, len))
		return error_set(e, ERR_UNAVAILABLE, "the ZIP cannot be stored: %s", strerror(errno));
	return ERR_OK;
}

static enum err receive_form(struct zip_upload *u, struct error *e)
{
	struct multipart_visitor visitor = {begin_part, add_to_part, u};
	struct multipart *m = multipart_new(exchange_param(u->x, "CONTENT_TYPE"), &visitor, e);
	if (!m)
		return e->code;
	enum err err = exchange_stream_body(u->x, u->x->config->max_sym_upload + FORM_ROOM, multipart_add, m, e);
	if (!err)
		err = multipart_end(m, e);
	if (!err && !u->has_file)
		err = error_set(e, ERR_BAD_REQUEST, "must be multipart form data with at least one file");
	multipart_free(m);
	return err;
}

/* ---- the first reading ---- */

/* Whether it may go on; to be called between two pieces. */
static enum err go_on(const struct zip_upload *u, struct error *e)
{
	background_give_way();
	if (clock_now() > u->deadline)
		return error_set(
		        e, ERR_TOO_LARGE, "the ZIP takes longer than request_timeout: send fewer files at a time");
	return exchange_gone(u->x) ? error_set(e, ERR_GONE, "the client went away") : ERR_OK;
}

static uint64_t text_left(const struct zip_upload *u)
{
	return u->text_max - u->text;
}

static enum err begin_check(void *arg, struct str name, struct str id, struct error *e)
{
	struct zip_upload *u = arg;
	if (u->files == ZIP_SYMS_MAX)
		return error_set(e, ERR_BAD_REQUEST, "the ZIP has more than %d symbol files", ZIP_SYMS_MAX);
	if (symfile_put_fits(name, id, e) || go_on(u, e))
		return e->code;
	u->check = symfile_check_new(id, text_left(u));
	return u->check ? ERR_OK : no_memory(e);
}

/* Keeps the name and id of the file that follows. */
static enum err keep_names(struct zip_upload *u, struct str name, struct str id, struct error *e)
{
	free(u->kept);
	u->kept = malloc(name.len + id.len);
	if (!u->kept)
		return no_memory(e);
	memcpy(u->kept, name.data, name.len);
	memcpy(u->kept + name.len, id.data, id.len);
	u->target.name = (struct str){u->kept, name.len};
	u->target.id = (struct str){u->kept + name.len, id.len};
	return ERR_OK;
}

static enum err begin_file(void *arg, struct str name, struct str id, bool packed, struct error *e)
{
	struct zip_upload *u = arg;
	const uint64_t largest = u->x->config->executable_max_size;
	const uint64_t most = u->storing || largest < text_left(u) ? largest : text_left(u);
	if (u->files == ZIP_SYMS_MAX && !u->storing)
		return error_set(e, ERR_BAD_REQUEST, "the ZIP has more than %d symbol files", ZIP_SYMS_MAX);
	if (keep_names(u, name, id, e) || go_on(u, e))
		return e->code;
	if (file_target_named(&u->file_target, u->target.name, u->target.id, packed, e))
		return error_set(e, ERR_BAD_REQUEST, "no source can have a file of such a name and id");
	u->file = file_put_begin(u->x->config, &u->file_target, most, e);
	return u->file ? ERR_OK : e->code;
}

static enum err add_to_file(const struct zip_upload *u, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = file_put_add(u->file, data, len, e);
	if (err == ERR_TOO_LARGE && !u->storing && text_left(u) < u->x->config->executable_max_size)
		return error_set(e, ERR_BAD_REQUEST, "the ZIP unpacks to far more than symbol files do");
	return err ? err : go_on(u, e);
}

/* What is stored was checked before, of the same bytes. */
static enum err end_file(struct zip_upload *u, struct error *e)
{
	enum err err = u->storing ? file_put_store(u->file, u->client, u->key_id, u->x->request_id, e)
	                          : file_put_check(u->file, exchange_cancel(u->x), e);
	u->files += !u->storing;
	u->text += u->storing ? 0 : file_put_size(u->file);
	file_put_free(u->file);
	u->file = NULL;
	return err;
}

static enum err add_check(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	const struct zip_upload *u = arg;
	if (u->file)
		return add_to_file(u, data, len, e);
	enum err err = symfile_check_add(u->check, data, len, e);
	if (err == ERR_TOO_LARGE && text_left(u) < u->x->config->bucket_max_size)
		return error_set(e, ERR_BAD_REQUEST, "the ZIP unpacks to far more than symbol files do");
	return err ? err : go_on(u, e);
}

static enum err end_check(void *arg, struct error *e)
{
	struct zip_upload *u = arg;
	if (u->file)
		return end_file(u, e);
	enum err err = symfile_check_end(u->check, e);
	u->text += symfile_check_facts(u->check)->text;
	symfile_check_free(u->check);
	u->check = NULL;
	u->files++;
	return err;
}

static enum err note_ignored(void *arg, struct str path, struct error *e)
{
	const struct zip_upload *u = arg;
	if (json_array_size(u->ignored) < KEYS_LISTED && json_array_append_new(u->ignored, json_of_str(path)) != 0)
		return no_memory(e);
	return ERR_OK;
}

/* Tries have symbol files only. */
static bool takes_files(const struct zip_upload *u)
{
	return u->x->config->sym_store_files && !u->target.to_try;
}

static enum err check_zip(struct zip_upload *u, struct error *e)
{
	struct zip_visitor visitor = {begin_check, add_check, end_check, NULL, note_ignored, u};
	visitor.begin_file = takes_files(u) ? begin_file : NULL;
	enum err err = zip_read(u->fd, &visitor, e);
	file_put_free(u->file);
	u->file = NULL;
	symfile_check_free(u->check);
	u->check = NULL;
	return !err && !u->files ? error_set(e, ERR_BAD_REQUEST, "the ZIP has no symbol file") : err;
}

/* ---- the second ---- */

static enum err begin_put(void *arg, struct str name, struct str id, struct error *e)
{
	struct zip_upload *u = arg;
	if (keep_names(u, name, id, e))
		return e->code;
	u->put = symfile_put_begin(u->client, u->target.name, u->target.id, u->x->config->bucket_max_size, e);
	return u->put ? ERR_OK : e->code;
}

static enum err add_put(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	const struct zip_upload *u = arg;
	if (u->file)
		return add_to_file(u, data, len, e);
	enum err err = go_on(u, e);
	return err ? err : symfile_put_add(u->put, data, len, e);
}

/* "xul.pdb/44E4…/xul.sym": the same text is there. */
static enum err note_skipped(const struct zip_upload *u, struct error *e)
{
	const struct str stem = bucket_stem(u->target.name);
	if (json_array_size(u->skipped) == KEYS_LISTED)
		return ERR_OK;
	json_t *path =
	        json_sprintf("%.*s/%.*s/%.*s.sym", STR_FMT(u->target.name), STR_FMT(u->target.id), STR_FMT(stem));
	return json_array_append_new(u->skipped, path) == 0 ? ERR_OK : no_memory(e);
}

static enum err end_put(void *arg, struct error *e)
{
	struct zip_upload *u = arg;
	struct symfile_put *put = u->put;
	if (u->file)
		return end_file(u, e);
	u->put = NULL;
	enum err err = sym_put_end(u->x, put, &u->target, u->key_id, e);
	return err || !u->target.same ? err : note_skipped(u, e);
}

static enum err store_zip(struct zip_upload *u, struct error *e)
{
	struct zip_visitor visitor = {begin_put, add_put, end_put, NULL, NULL, u};
	visitor.begin_file = takes_files(u) ? begin_file : NULL;
	u->storing = true;
	enum err err = zip_read(u->fd, &visitor, e);
	symfile_put_abort(u->put);
	file_put_free(u->file);
	return err;
}

/* ---- the request ---- */

/* Tecken's tokens are our keys without the word APIKey, and what is wrong with one is always 403. */
static enum err check_token(const struct exchange *x, bool *owner, char key_id[64], struct error *e)
{
	const char *token = exchange_param(x, "HTTP_AUTH_TOKEN");
	if (!token)
		return error_set(e, ERR_FORBIDDEN, "this requires an Auth-Token to authenticate the request");
	*owner = upload_check_token(token, RIGHT_INVALIDATE, key_id, e) == ERR_OK;
	enum err err = upload_check_token(token, RIGHT_UPLOAD, key_id, e);
	return err == ERR_UNAUTHORIZED ? (e->code = ERR_FORBIDDEN) : err;
}

struct reading_aside {
	struct zip_upload *u;
	enum err err;
	struct error *e;
};

static void *read_twice(void *arg)
{
	struct reading_aside *r = arg;
	background_enter(false);
	r->err = check_zip(r->u, r->e);
	if (!r->err)
		r->err = store_zip(r->u, r->e);
	background_leave();
	return NULL;
}

/* On a thread of its own, since a worker cannot be in the background. */
static enum err read_aside(struct zip_upload *u, struct error *e)
{
	const struct config *c = u->x->config;
	struct reading_aside r = {.u = u, .e = e};
	pthread_t thread;
	uint64_t most = u->size * ZIP_RATIO_MAX + ZIP_SPARE;
	u->text_max = most < c->bucket_max_size ? most : c->bucket_max_size;
	u->deadline = clock_now() + c->request_timeout;
	if (pthread_create(&thread, NULL, read_twice, &r) != 0)
		return no_memory(e);
	pthread_join(thread, NULL);
	return r.err;
}

static enum err take_zip(struct zip_upload *u, struct error *e)
{
	u->fd = open_file(e);
	if (u->fd < 0)
		return e->code;
	enum err err = receive_form(u, e);
	if (!err)
		err = read_aside(u, e);
	close(u->fd);
	return err;
}

static enum err upload(struct zip_upload *u, struct error *e)
{
	enum err err = check_token(u->x, &u->target.owner, u->key_id, e);
	if (err)
		return err;
	u->client = store_permit_take_sym(u->x, e);
	if (!u->client)
		return e->code;
	err = take_zip(u, e);
	store_permit_give(u->x, u->client);
	return err;
}

/* NULL if out of memory. */
static char *reply_text(const struct zip_upload *u)
{
	json_t *body = json_pack("{s:{s:s, s:I, s:b, s:I, s:O, s:O, s:s}}", "upload", "filename", u->filename, "size",
	        (json_int_t)u->size, "try_symbols", (int)u->target.to_try, "files", (json_int_t)u->files,
	        "skipped_keys", u->skipped, "ignored_keys", u->ignored, "user", u->key_id);
	char *text = json_text(body, JSON_COMPACT);
	json_decref(body);
	return text;
}

void sym_zip_handle(struct exchange *x)
{
	struct error e;
	struct zip_upload u = {.x = x, .ignored = json_array(), .skipped = json_array()};
	enum err err = u.ignored && u.skipped ? upload(&u, &e) : no_memory(&e);
	char *text = err ? NULL : reply_text(&u);
	if (!err && !text)
		err = no_memory(&e);
	free(u.kept);
	json_decref(u.ignored);
	json_decref(u.skipped);
	if (!err)
		exchange_reply_text(x, 201, "application/json", NULL, str_from(text));
	else
		sym_upload_reply(x, err, &e);
	free(text);
}

/* What Mozilla's upload-symbols asks before it uploads. Keys do not expire, which its protocol cannot say. */
void auth_info_handle(struct exchange *x)
{
	static const json_int_t year_2100 = 4102444800;
	struct error e;
	char key_id[64];
	bool owner;
	enum err err = check_token(x, &owner, key_id, &e);
	json_t *body = err ? NULL
	                   : json_pack("{s:s, s:b, s:I, s:i}", "email", key_id, "try_symbols", 0, "token_expires_at",
	                             year_2100, "upload_api_version", 1);
	char *text = err ? NULL : json_text(body, JSON_COMPACT);
	json_decref(body);
	if (text)
		exchange_reply_text(x, 200, "application/json", NULL, str_from(text));
	else
		exchange_reply_error(x, err ? &e : (no_memory(&e), &e), 1);
	free(text);
}
