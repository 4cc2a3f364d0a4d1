/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symfiles/put.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"
#include "objects/bucket.h"

enum { GZIP_PIECE = 1 << 20, SEGMENT_MAX = 250 /* bytes: what file systems take */ };

struct symfile_put {
	struct store_client *client; /* not owned */
	struct str name, id;         /* not owned */
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
	p->client = c;
	p->name = name;
	p->id = id;
	p->check = symfile_check_new(id, max_text);
	if (p->check && (p->put = store_put_begin(c, e)))
		return p;
	symfile_put_abort(p);
	return NULL;
}

static enum err store_bytes(struct symfile_put *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	if (!p->gzip)
		return store_put_write(p->put, data, len, e);
	while (!err && len > 0) {
		size_t n = len < GZIP_PIECE ? len : GZIP_PIECE;
		if (!gzip_add(p->gzip, data, n))
			return no_memory(e);
		struct iovec made = gzip_take(p->gzip, 0);
		err = store_put_write(p->put, made.iov_base, made.iov_len, e);
		data += n;
		len -= n;
	}
	return err;
}

/* The first bytes, until they tell how the file is packed. */
static enum err store_head(struct symfile_put *p, const uint8_t *data, size_t len, struct error *e)
{
	enum packing packing = symfile_check_facts(p->check)->packing;
	if (packing == PACKING_UNKNOWN) {
		memcpy(p->head + p->head_len, data, len);
		p->head_len += len;
		return ERR_OK;
	}
	p->begun = true;
	if (packing == PACKING_NONE && !(p->gzip = gzip_new(GZIP_PIECE)))
		return no_memory(e);
	enum err err = store_bytes(p, p->head, p->head_len, e);
	return err ? err : store_bytes(p, data, len, e);
}

enum err symfile_put_add(struct symfile_put *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = symfile_check_add(p->check, data, len, e);
	if (err)
		return err;
	return p->begun ? store_bytes(p, data, len, e) : store_head(p, data, len, e);
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

/* ---- the end ---- */

/* The object of the code id goes up while that of the file does, since in S3 each takes a while, however small. If only
 * the code id's is stored, it leads to a file that is missing, as the code id was before. */
struct code_id_beside {
	const struct symfile_put *put;
	enum code_origin by;
	struct store_client *client; /* NULL: it has not begun */
	pthread_t thread;
	bool said; /* it is new */
	enum err err;
	struct error error;
};

static void *put_code_id(void *arg)
{
	struct code_id_beside *b = arg;
	const struct symfile_put *p = b->put;
	const struct symfile_facts *facts = symfile_check_facts(p->check);
	b->err = code_id_put(b->client, facts, p->name, p->id, b->by, &b->said, NULL, &b->error);
	return NULL;
}

static void begin_code_id(struct code_id_beside *b)
{
	b->client = store_client_another(b->put->client);
	if (b->client && pthread_create(&b->thread, NULL, put_code_id, b) == 0)
		return;
	store_client_give(b->client);
	b->client = NULL;
}

static enum err end_code_id(struct code_id_beside *b, struct error *e)
{
	const struct symfile_put *p = b->put;
	const struct symfile_facts *facts = symfile_check_facts(p->check);
	if (!b->client)
		return code_id_put(p->client, facts, p->name, p->id, b->by, &b->said, NULL, e);
	pthread_join(b->thread, NULL);
	store_client_give(b->client);
	if (b->err)
		*e = b->error;
	return b->err;
}

static bool read_stored(void *arg, const uint8_t *data, size_t len)
{
	struct error ignored;
	return symfile_check_add(arg, data, len, &ignored) == ERR_OK;
}

/* Whether the file at this path has the same text, however it is packed. If it cannot be read, it is replaced. */
static bool is_stored(const struct symfile_put *p, const char *path)
{
	const struct symfile_facts *facts = symfile_check_facts(p->check);
	struct symfile_check *stored = symfile_check_new(p->id, facts->text);
	struct bucket_result result;
	struct error ignored;
	if (!stored)
		return false;
	store_get(p->client, path, read_stored, stored, NULL, &result);
	bool same = result.outcome == BUCKET_OK && symfile_check_end(stored, &ignored) == ERR_OK &&
	            symfile_check_facts(stored)->text == facts->text &&
	            symfile_check_facts(stored)->hash == facts->hash;
	symfile_check_free(stored);
	return same;
}

static enum err commit_file(struct symfile_put *p, bool to_try, bool *same, struct error *e)
{
	char path[STORE_PATH_MAX];
	struct store_put *put = p->put;
	p->put = NULL;
	make_path(path, p, to_try);
	*same = is_stored(p, path);
	if (!*same)
		return store_put_commit(put, path, e);
	store_put_abort(put);
	return ERR_OK;
}

static enum err commit_both(struct symfile_put *p, enum code_origin by, bool *same, struct error *e)
{
	struct code_id_beside beside = {.put = p, .by = by};
	struct error ignored;
	begin_code_id(&beside);
	enum err err = commit_file(p, by == CODE_BY_TRY, same, e);
	if (err && !beside.client)
		return err;
	enum err err_of_code = end_code_id(&beside, err ? &ignored : e);
	*same = *same && !beside.said;
	return err ? err : err_of_code;
}

enum err symfile_put_commit(
        struct symfile_put *p, enum code_origin by, struct symfile_facts *facts, bool *same, struct error *e)
{
	enum err err = symfile_check_end(p->check, e);
	if (!err)
		err = end_gzip(p, e);
	*facts = *symfile_check_facts(p->check);
	*same = false;
	if (!err)
		err = code_id_is_told(facts) ? commit_both(p, by, same, e) : commit_file(p, by == CODE_BY_TRY, same, e);
	symfile_put_abort(p);
	return err;
}
