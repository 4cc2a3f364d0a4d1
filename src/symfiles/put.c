/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symfiles/put.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "objects/bucket.h"

enum { GZIP_PIECE = 1 << 20, SEGMENT_MAX = 250 /* bytes: what file systems take */ };

struct symfile_put {
	struct str name, id; /* not owned */
	struct symfile_check *check;
	struct store_put *put;
	struct gzip *gzip; /* NULL: stored as it comes */
	bool begun;        /* the packing is known */
	uint8_t head[PACKING_HEAD];
	size_t head_len;
};

void symfile_put_abort(struct symfile_put *p)
{
	if (!p)
		return;
	symfile_check_free(p->check);
	store_put_abort(p->put);
	gzip_free(p->gzip);
	free(p);
}

enum err symfile_put_fits(struct str name, struct str id, struct error *e)
{
	if (name.len + strlen(".sym") <= SEGMENT_MAX && id.len <= SEGMENT_MAX)
		return ERR_OK;
	return error_set(e, ERR_BAD_REQUEST, "the name or the id is longer than %d bytes", SEGMENT_MAX - 4);
}

struct symfile_put *symfile_put_begin(
        struct store_client *c, struct str name, struct str id, uint64_t max_text, struct error *e)
{
	if (symfile_put_fits(name, id, e))
		return NULL;
	struct symfile_put *p = calloc(1, sizeof *p);
	no_memory(e);
	if (!p)
		return NULL;
	p->name = name;
	p->id = id;
	p->check = symfile_check_new(id, max_text);
	if (p->check && (p->put = store_put_begin(c, e)))
		return p;
	symfile_put_abort(p);
	return NULL;
}

/* Writes what has been packed. */
static enum err write_packed(struct symfile_put *p, struct error *e)
{
	struct iovec made = gzip_take(p->gzip, 0);
	return store_put_write(p->put, made.iov_base, made.iov_len, e);
}

static enum err store_bytes(struct symfile_put *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	if (!p->gzip)
		return store_put_write(p->put, data, len, e);
	while (!err && len > 0) {
		size_t n = len < GZIP_PIECE ? len : GZIP_PIECE;
		err = gzip_add(p->gzip, data, n) ? write_packed(p, e) : no_memory(e);
		data += n;
		len -= n;
	}
	return err;
}

/* The first bytes, until they tell how the file is packed. */
static enum err store_head(struct symfile_put *p, const uint8_t *data, size_t len, bool all, struct error *e)
{
	enum packing packing = symfile_check_packing(p->check);
	if (packing == PACKING_UNKNOWN && !all) {
		memcpy(p->head + p->head_len, data, len);
		p->head_len += len;
		return ERR_OK;
	}
	p->begun = true;
	if (packing != PACKING_GZIP && packing != PACKING_ZSTD && !(p->gzip = gzip_new(GZIP_PIECE)))
		return no_memory(e);
	enum err err = store_bytes(p, p->head, p->head_len, e);
	return err ? err : store_bytes(p, data, len, e);
}

enum err symfile_put_add(struct symfile_put *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = symfile_check_add(p->check, data, len, e);
	if (err)
		return err;
	return p->begun ? store_bytes(p, data, len, e) : store_head(p, data, len, false, e);
}

static enum err end_gzip(struct symfile_put *p, struct error *e)
{
	uint8_t *rest;
	size_t len;
	if (!p->gzip)
		return ERR_OK;
	if (gzip_finish(p->gzip, &rest, &len))
		return no_memory(e);
	enum err err = store_put_write(p->put, rest, len, e);
	free(rest);
	return err;
}

/* "xul.pdb/44E4…/xul.sym" below the store, or below "try". */
static void make_path(char path[STORE_PATH_MAX], const struct symfile_put *p, bool to_try)
{
	char upper[SEGMENT_MAX + 1];
	str_upper(upper, p->id);
	snprintf(path, STORE_PATH_MAX, "%s%.*s/%.*s/%.*s.sym", to_try ? BUCKET_TRY "/" : "", STR_FMT(p->name),
	        (int)p->id.len, upper, STR_FMT(bucket_stem(p->name)));
}

enum err symfile_put_commit(struct symfile_put *p, bool to_try, struct symfile_facts *facts, struct error *e)
{
	char path[STORE_PATH_MAX];
	enum err err = symfile_check_end(p->check, e);
	if (!err && !p->begun)
		err = store_head(p, NULL, 0, true, e);
	if (!err)
		err = end_gzip(p, e);
	*facts = *symfile_check_facts(p->check);
	make_path(path, p, to_try);
	if (!err) {
		struct store_put *put = p->put;
		p->put = NULL;
		err = store_put_commit(put, path, e);
	}
	symfile_put_abort(p);
	return err;
}
