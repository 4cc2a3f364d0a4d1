/* SPDX-License-Identifier: Apache-2.0 */
/* PUT /api/file/NAME/ID/NAME and /api/file/buildid/ID/debuginfo or executable. */
#include <config.h>

#include "api/file_put.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/router.h"
#include "api/services.h"
#include "api/store_permit.h"
#include "api/upload.h"
#include "base/files.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/unpack.h"
#include "keys/auth.h"

enum { BLOCK = 64 << 10 };

struct file_put {
	const struct file_target *target; /* not owned */
	int fd;
	uint64_t size, max;
	struct packing_head head;
	struct unpacker *unpacker; /* NULL: it is plain */
	uint8_t block[BLOCK];
};

void file_put_free(struct file_put *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	unpacker_free(p->unpacker);
	free(p);
}

struct file_put *file_put_begin(const struct config *c, const struct file_target *t, uint64_t max, struct error *e)
{
	struct file_put *p = malloc(sizeof *p);
	no_memory(e);
	if (!p)
		return NULL;
	*p = (struct file_put){.target = t, .max = max, .fd = file_open_unnamed(c->executable_folder)};
	if (p->fd >= 0)
		return p;
	error_set(e, ERR_UNAVAILABLE, "the file cannot be kept in executable_folder: %s", strerror(errno));
	file_put_free(p);
	return NULL;
}

/* ---- arrival ---- */

static enum err keep(struct file_put *p, const uint8_t *data, size_t len, struct error *e)
{
	p->size += len;
	if (p->size > p->max)
		return error_set(e, ERR_TOO_LARGE, "the file is larger than executable_max_size");
	return write_all(p->fd, data, len)
	               ? ERR_OK
	               : error_set(e, ERR_UNAVAILABLE, "the file cannot be kept in executable_folder: %s",
	                         strerror(errno));
}

static enum err unpack(struct file_put *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	size_t got;
	do {
		err = unpacker_step(p->unpacker, &data, &len, p->block, BLOCK, &got);
		if (err == ERR_CORRUPT)
			return error_set(e, ERR_BAD_REQUEST, "%s, after %llu bytes", unpacker_bad(p->unpacker),
			        (unsigned long long)p->size);
		err = err ? no_memory(e) : keep(p, p->block, got, e);
	} while (!err && (len > 0 || got == BLOCK));
	return err;
}

static enum err take(struct file_put *p, const uint8_t *data, size_t len, struct error *e)
{
	return p->unpacker ? unpack(p, data, len, e) : keep(p, data, len, e);
}

enum err file_put_add(struct file_put *p, const uint8_t *data, size_t len, struct error *e)
{
	bool known = p->head.packing != PACKING_UNKNOWN;
	if (!packing_look(&p->head, &data, &len))
		return ERR_OK;
	if (!known && p->head.packing != PACKING_NONE &&
	        !((p->unpacker = unpacker_new()) && unpacker_start(p->unpacker, p->head.packing)))
		return no_memory(e);
	enum err err = known ? ERR_OK : take(p, p->head.bytes, p->head.len, e);
	return err ? err : take(p, data, len, e);
}

uint64_t file_put_size(const struct file_put *p)
{
	return p->size;
}

enum err file_put_check(struct file_put *p, const atomic_bool *cancel, struct error *e)
{
	static const char cabinet[] = "MSCF";
	const struct layout_file *f = &p->target->layout;
	const struct build_id_question question = file_target_question(p->target);
	const bool is_program = f->use == LAYOUT_CODE || (*f->name && !question.windows);
	char magic[4] = {0};
	if (p->unpacker && !unpacker_complete(p->unpacker))
		return error_set(e, ERR_BAD_REQUEST, "%s", unpacker_cut(p->unpacker));
	bool is_packed =
	        pread(p->fd, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, cabinet, sizeof magic) == 0;
	if (is_packed != f->packed)
		return error_set(e, ERR_BAD_REQUEST,
		        is_packed ? "a cabinet has '_' for the last letter of its name" : "it is no cabinet");
	return elf_code_check(services_code(), p->fd, &question, is_program, cancel, e);
}

/* ---- the store ---- */

static enum err copy_to_store(struct file_put *p, struct store_client *c, struct error *e)
{
	char path[LAYOUT_NAMED_MAX];
	struct store_put *put = store_put_begin(c, e);
	enum err err = put ? ERR_OK : e->code;
	for (uint64_t at = 0; !err && at < p->size;) {
		ssize_t n = pread(p->fd, p->block, BLOCK, (off_t)at);
		err = n > 0 ? store_put_write(put, p->block, (size_t)n, e)
		            : error_set(e, ERR_UNAVAILABLE, "executable_folder cannot be read");
		at += n > 0 ? (uint64_t)n : 0;
	}
	layout_file_place(path, &p->target->layout);
	if (!err)
		return store_put_commit(put, path, e);
	if (put)
		store_put_abort(put);
	return err;
}

/* By name and id, and of a build id whatever it is called. */
static enum err forget(const struct file_target *t, struct error *e)
{
	if (!*t->layout.name)
		modules_forget_build_id(services_modules(), &t->layout.id);
	return services_forget(t->name, t->id, e);
}

enum err file_put_store(
        struct file_put *p, struct store_client *c, const char *key_id, const char *request_id, struct error *e)
{
	const struct file_target *t = p->target;
	struct error other;
	enum err err = copy_to_store(p, c, e);
	if (!err) {
		metric_add(M_SYM_UPLOADS_OK, 1);
		metric_add(M_SYM_UPLOAD_BYTES, (int64_t)p->size);
		log_event(LOG_LEVEL_INFO, "file uploaded", "%.*s/%.*s, %llu bytes, by key %s, request %s",
		        STR_FMT(t->name), STR_FMT(t->id), (unsigned long long)p->size, key_id, request_id);
	}
	/* even after a failure: the file may have been stored although the reply was lost */
	enum err untold = forget(t, &other);
	if (!err && untold)
		*e = other;
	return err ? err : untold;
}

/* ---- the request ---- */

static enum err take_piece(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return file_put_add(arg, data, len, e);
}

static enum err receive(
        struct exchange *x, struct store_client *c, const struct file_target *t, const char *key_id, struct error *e)
{
	struct file_put *p = file_put_begin(x->config, t, x->config->executable_max_size, e);
	enum err err = p ? exchange_stream_body(x, x->config->max_sym_upload, take_piece, p, e) : e->code;
	if (!err)
		err = file_put_check(p, exchange_cancel(x), e);
	if (!err)
		err = file_put_store(p, c, key_id, x->request_id, e);
	file_put_free(p);
	return err;
}

static enum err put(struct exchange *x, struct error *e)
{
	static const char prefix[] = "/api/file";
	const size_t n = strlen(prefix);
	char key_id[64];
	struct file_target t;
	enum err err = auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_UPLOAD, key_id, e);
	if (err)
		return err;
	if (!x->config->sym_store_files)
		return error_set(e, ERR_NOT_FOUND, "this server takes no executables (sym_store_files is not set)");
	if (file_target_read(x, (struct str){x->path.data + n, x->path.len - n}, &t, e))
		return error_set(e, ERR_BAD_REQUEST,
		        "the path is not /api/file/<name>/<id>/<name>, or /api/file/buildid/<build_id>/debuginfo or "
		        "executable");
	struct store_client *c = store_permit_take_sym(x, e);
	if (!c)
		return e->code;
	err = receive(x, c, &t, key_id, e);
	store_permit_give(x, c);
	return err;
}

void file_put_handle(struct exchange *x)
{
	struct error e;
	sym_upload_reply(x, put(x, &e), &e);
}
