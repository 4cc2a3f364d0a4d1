/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "objects/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/background.h"
#include "base/clock.h"
#include "objects/bucket_backend.h"
#include "objects/percent.h"
#include "objects/transfer.h"

enum { IDLE_MAX = 16 };

struct symbfile_store {
	const struct bucket_backend *backend;
	void *own;        /* the backend's */
	const char *what; /* the setting */
	uint64_t max_size, retries;
	pthread_mutex_t lock; /* guards what follows */
	struct store_client *idle[IDLE_MAX];
	unsigned idle_count;
};

struct store_client {
	struct symbfile_store *store; /* not owned */
	void *own;
	struct bucket_body body;
};

struct symbfile_store *store_new(const char *url, const char *what, const struct config *c, struct error *e)
{
	struct symbfile_store *s = calloc(1, sizeof *s);
	if (!s) {
		no_memory(e);
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->what = what;
	s->max_size = c->bucket_max_size;
	s->retries = c->bucket_retries;
	s->backend = bucket_backend_of(url);
	if (s->backend && s->backend->put_begin)
		s->own = s->backend->source_new(url, what, c, e);
	else
		error_set(e, ERR_CONFIG, "%s: neither file:///directory nor s3://bucket/prefix", what);
	if (s->own)
		return s;
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

struct symbfile_store *symbfile_store_new(const struct config *c, struct error *e)
{
	return store_new(c->symbfile_store, "symbfile_store", c, e);
}

void *store_place(const struct symbfile_store *s, const struct bucket_backend **backend)
{
	*backend = s->backend;
	return s->own;
}

static void client_free(struct store_client *c)
{
	c->store->backend->client_free(c->own);
	bucket_body_release(&c->body);
	free(c);
}

void symbfile_store_free(struct symbfile_store *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->idle_count; i++)
		client_free(s->idle[i]);
	s->backend->source_free(s->own);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static struct store_client *client_new(struct symbfile_store *s)
{
	struct store_client *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->store = s;
	c->own = s->backend->client_new(s->own);
	if (c->own)
		return c;
	free(c);
	return NULL;
}

struct store_client *store_client_take(struct symbfile_store *s)
{
	pthread_mutex_lock(&s->lock);
	struct store_client *c = s->idle_count ? s->idle[--s->idle_count] : NULL;
	pthread_mutex_unlock(&s->lock);
	return c ? c : client_new(s);
}

struct store_client *store_client_another(const struct store_client *c)
{
	return store_client_take(c->store);
}

void store_client_give(struct store_client *c)
{
	if (!c)
		return;
	struct symbfile_store *s = c->store;
	pthread_mutex_lock(&s->lock);
	bool kept = s->idle_count < IDLE_MAX;
	if (kept)
		s->idle[s->idle_count++] = c;
	pthread_mutex_unlock(&s->lock);
	if (!kept)
		client_free(c);
}

enum err store_check(const char *url, const char *what, bool use, const struct config *c, struct error *e)
{
	struct symbfile_store *s = *url ? store_new(url, what, c, e) : NULL;
	enum err err = *url && !s ? e->code : ERR_OK;
	if (s && use && s->backend == &bucket_file) {
		struct store_client *client = store_client_take(s);
		err = client ? store_probe(client, e) : no_memory(e);
		store_client_give(client);
	}
	symbfile_store_free(s);
	return err;
}

/* Puts the setting's name before what is wrong with the place. */
static enum err blame(const struct symbfile_store *s, enum err err, struct error *e)
{
	struct error inner;
	if (err != ERR_UNAVAILABLE || !e)
		return err;
	inner = *e;
	return error_set(e, err, "%s: %.*s", s->what, (int)(sizeof inner.text - 1 - strlen(s->what) - 2), inner.text);
}

/* ---- storing ---- */

struct store_put *store_put_begin(struct store_client *c, struct error *e)
{
	struct store_put *p = c->store->backend->put_begin(c->own, e);
	if (p)
		p->client = c;
	else
		blame(c->store, e->code, e);
	return p;
}

enum err store_put_write(struct store_put *p, const void *data, size_t len, struct error *e)
{
	const struct symbfile_store *s = p->client->store;
	return len ? blame(s, s->backend->put_write(p, data, len, e), e) : ERR_OK;
}

enum err store_put_commit(struct store_put *p, const char *path, struct error *e)
{
	const struct symbfile_store *s = p->client->store;
	enum err err = blame(s, s->backend->put_commit(p, path, e), e);
	store_put_abort(p);
	return err;
}

void store_put_abort(struct store_put *p)
{
	if (p)
		p->client->store->backend->put_free(p);
}

enum err store_put_object(struct store_client *c, const char *path, struct str data, struct error *e)
{
	struct store_put *p = store_put_begin(c, e);
	enum err err = p ? store_put_write(p, data.data, data.len, e) : e->code;
	if (!err)
		return store_put_commit(p, path, e);
	store_put_abort(p);
	return err;
}

int64_t store_now(const struct store_client *c)
{
	return place_now(&((const struct bucket_place *)c->store->own)->clock);
}

/* ---- reading ---- */

enum err store_list(struct store_client *c, const char *path, store_found *found, void *arg, const atomic_bool *cancel,
        struct error *e)
{
	struct bucket_listing listing = {found, arg, false};
	return blame(c->store, c->store->backend->list(c->own, path, &listing, cancel, e), e);
}

bool store_objects_add(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct store_objects *o = arg;
	char *copy = str_dup(path);
	o->no_memory = !copy || !array_reserve(&o->items, &o->cap, o->count + 1, sizeof *o->items);
	if (o->no_memory)
		free(copy);
	else
		o->items[o->count++] = (struct store_object){copy, size, time};
	return !o->no_memory;
}

enum err store_objects_list(struct store_objects *o, struct store_client *c, const char *path, struct error *e)
{
	enum err err = store_list(c, path, store_objects_add, o, NULL, e);
	return !err && o->no_memory ? no_memory(e) : err;
}

void store_objects_release(struct store_objects *o)
{
	for (size_t i = 0; i < o->count; i++)
		free(o->items[i].path);
	free(o->items);
}

enum err store_remove(struct store_client *c, const char *path, struct error *e)
{
	return blame(c->store, c->store->backend->remove(c->own, path, e), e);
}

/* An object that is being read. If it is fetched again, bytes that the reader has already are skipped; its ETag tells
 * that it is still the same. */
struct reading {
	bool (*add)(void *arg, const uint8_t *data, size_t len);
	void *arg;
	uint64_t max, wire, text; /* bytes: at most, of this try, that the reader has */
	char etag[BUCKET_ETAG];   /* of the first try that the reader got anything of; empty: it has none */
	const char *problem;      /* why reading stopped here, and what that means */
	enum bucket_outcome outcome;
};

static bool stop_reading(struct reading *r, enum bucket_outcome outcome, const char *problem)
{
	r->outcome = outcome;
	r->problem = problem;
	return false;
}

static const char another_object[] = "the object has changed since the first try";

static bool begin_reading(void *arg, const struct bucket_head *head)
{
	struct reading *r = arg;
	if (r->text && strcmp(r->etag, head->etag) != 0)
		return stop_reading(r, BUCKET_FAILED, another_object);
	memcpy(r->etag, head->etag, sizeof r->etag);
	return true;
}

static bool add_reading(void *arg, const uint8_t *data, size_t len)
{
	struct reading *r = arg;
	uint64_t again = r->text > r->wire ? r->text - r->wire : 0; /* bytes that the reader has */
	r->wire += len;
	background_give_way();
	if (r->wire > r->max)
		return stop_reading(r, BUCKET_TOO_LARGE, "larger than bucket_max_size");
	if (len <= again)
		return true;
	r->text = r->wire;
	return r->add(r->arg, data + again, len - again) || stop_reading(r, BUCKET_ABORTED, "aborted by the reader");
}

static void get_once(struct store_client *c, const char *path, struct reading *r, const atomic_bool *cancel,
        struct bucket_result *result)
{
	struct bucket_raw_sink sink = {begin_reading, add_reading, r};
	*result = (struct bucket_result){0};
	r->outcome = BUCKET_OK;
	r->wire = 0;
	bucket_body_start_raw(&c->body, &sink, UINT64_MAX);
	c->store->backend->fetch(c->own, path, &c->body, cancel, result);
	if (r->outcome != BUCKET_OK)
		bucket_result_set(result, r->outcome, "%s", r->problem);
	else if (result->outcome == BUCKET_OK && r->wire < r->text)
		bucket_result_set(result, BUCKET_FAILED, another_object); /* the reader has more than the object */
	else if (result->outcome == BUCKET_OK && !result->length_known)
		bucket_result_set(result, BUCKET_FAILED, "no Content-Length");
}

/* Whether the failure is temporary, and what the reader has could go on with another try. */
static bool may_try_again(const struct reading *r, const atomic_bool *cancel, const struct bucket_result *result)
{
	return result->outcome == BUCKET_FAILED && r->problem != another_object && (!r->text || *r->etag) &&
	       !(cancel && atomic_load(cancel));
}

void store_get(struct store_client *c, const char *path, bool (*add)(void *arg, const uint8_t *data, size_t len),
        void *arg, const atomic_bool *cancel, struct bucket_result *result)
{
	int64_t started = clock_now();
	char encoded[3 * STORE_PATH_MAX];
	struct reading r = {.add = add, .arg = arg, .max = c->store->max_size};
	*result = (struct bucket_result){.outcome = BUCKET_MISSING, .text = "no object has such a name"};
	if (strlen(path) >= STORE_PATH_MAX)
		return;
	*percent_encode(encoded, str_from(path), true) = 0;
	get_once(c, encoded, &r, cancel, result);
	for (uint64_t i = 0; i < c->store->retries && may_try_again(&r, cancel, result); i++) {
		bucket_pause(i);
		get_once(c, encoded, &r, cancel, result);
	}
	result->wire_bytes = r.wire;
	result->text_bytes = r.text;
	result->elapsed = clock_now() - started;
}

enum err store_get_object(
        struct store_client *c, const char *path, struct buffer *b, const atomic_bool *cancel, struct error *e)
{
	struct bucket_result result;
	store_get(c, path, transfer_to_buffer, b, cancel, &result);
	if (result.outcome == BUCKET_OK)
		return ERR_OK;
	return error_set(e, result.outcome == BUCKET_MISSING ? ERR_MISSING : ERR_UNAVAILABLE, "%s: %.150s: %s",
	        c->store->what, path, result.text);
}

enum err store_probe(struct store_client *c, struct error *e)
{
	return blame(c->store, c->store->backend->probe_writing(c->own, e), e);
}
