/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symfiles/symfiles.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/process.h"
#include "cache/outcomes.h"

enum { CLIENTS_MAX = 64 };

struct symfiles {
	const struct config *config; /* not owned */
	struct bucket_sources *sources;
	struct symbfile_store *store; /* NULL: none */
	struct outcomes *missing;
	struct missing_list *wanted;
	pthread_mutex_t lock;       /* guards what follows, and that `missing` is only told what still holds */
	_Atomic uint64_t forgotten; /* may be read without the lock */
	struct bucket_client *idle[CLIENTS_MAX]; /* with their connections, for the next download */
	unsigned idle_count;
};

void symfiles_free(struct symfiles *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->idle_count; i++)
		bucket_client_free(s->idle[i]);
	bucket_sources_free(s->sources);
	symbfile_store_free(s->store);
	outcomes_free(s->missing);
	missing_list_free(s->wanted);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct symfiles *symfiles_new(const struct config *c, struct error *e)
{
	struct symfiles *s = calloc(1, sizeof *s);
	no_memory(e);
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	s->config = c;
	s->missing = outcomes_new(c);
	s->wanted = missing_list_new(random_u64());
	bool good = s->missing && s->wanted && (s->sources = bucket_sources_new(c, e));
	if (good && (!*c->sym_store || (s->store = store_new(c->sym_store, "sym_store", c, e))))
		return s;
	symfiles_free(s);
	return NULL;
}

struct symbfile_store *symfiles_store(const struct symfiles *s)
{
	return s->store;
}

/* ---- clients of the sources ---- */

/* For the next who takes it. */
static void give_client(struct symfiles *s, struct bucket_client *c)
{
	pthread_mutex_lock(&s->lock);
	bool kept = s->idle_count < CLIENTS_MAX;
	if (kept)
		s->idle[s->idle_count++] = c;
	pthread_mutex_unlock(&s->lock);
	if (!kept)
		bucket_client_free(c);
}

static struct bucket_client *take_client(struct symfiles *s, struct error *e)
{
	pthread_mutex_lock(&s->lock);
	struct bucket_client *c = s->idle_count ? s->idle[--s->idle_count] : NULL;
	pthread_mutex_unlock(&s->lock);
	if (!c && !(c = bucket_client_new(s->sources)))
		no_memory(e);
	return c;
}

/* ---- one file ---- */

/* Once the reader has been given anything, there is no second try. */
static void try_source(struct symfiles *s, struct bucket_client *c, unsigned source, struct bucket_object object,
        const struct symfiles_reader *reader, struct bucket_result *result)
{
	if (reader->url && ((*reader->url = bucket_locate(c, source, object, reader->zstd, result)) ||
	                           result->outcome == BUCKET_MISSING))
		return;
	bucket_fetch_raw(c, source, object, &reader->sink, reader->cancel, result);
	for (uint64_t i = 0; i < s->config->bucket_retries && result->outcome == BUCKET_FAILED && !result->begun; i++) {
		bucket_pause(i);
		bucket_fetch_raw(c, source, object, &reader->sink, reader->cancel, result);
	}
}

/* The same of a file that is no symbol file. */
static void try_path(struct symfiles *s, struct bucket_client *c, unsigned source, const char *path,
        const struct symfiles_reader *reader, struct bucket_result *result)
{
	const uint64_t max = s->config->executable_max_size;
	if (reader->url && ((*reader->url = bucket_locate_path(c, source, path, reader->zstd, result)) ||
	                           result->outcome == BUCKET_MISSING))
		return;
	bucket_fetch_path_raw(c, source, path, max, &reader->sink, reader->cancel, result);
	for (uint64_t i = 0; i < s->config->bucket_retries && result->outcome == BUCKET_FAILED && !result->begun; i++) {
		bucket_pause(i);
		bucket_fetch_path_raw(c, source, path, max, &reader->sink, reader->cancel, result);
	}
}

/* All places of the file in one source. */
static void try_places(struct symfiles *s, struct bucket_client *c, unsigned source, const struct symfile *file,
        const struct symfiles_reader *reader, struct bucket_result *result)
{
	char text[SYMFILE_PATH_MAX];
	struct str upper = {text, file->id.len};
	bucket_result_set(result, BUCKET_MISSING, "no source has such files");
	if (file->path) {
		for (unsigned n = 0; result->outcome == BUCKET_MISSING &&
		                     file->path(file->path_arg, bucket_source_kind(s->sources, source), n, text);
		        n++)
			try_path(s, c, source, text, reader, result);
		return;
	}
	try_source(s, c, source, (struct bucket_object){file->name, file->id}, reader, result);
	if (result->outcome == BUCKET_MISSING && upper.len <= sizeof text && str_upper(text, file->id))
		try_source(s, c, source, (struct bucket_object){file->name, upper}, reader, result);
}

static void ask_sources(struct symfiles *s, struct bucket_client *c, const struct symfile *file,
        const struct symfiles_reader *reader, struct bucket_result *result)
{
	struct bucket_result failed = {.outcome = BUCKET_MISSING};
	*result = (struct bucket_result){0};
	bucket_result_set(result, BUCKET_MISSING, "there are no sources");
	for (unsigned i = 0; i < bucket_sources_count(s->sources); i++) {
		try_places(s, c, i, file, reader, result);
		if (result->begun || result->outcome == BUCKET_OK || result->outcome == BUCKET_ABORTED)
			return;
		if (result->outcome != BUCKET_MISSING)
			failed = *result;
	}
	if (failed.outcome != BUCKET_MISSING)
		*result = failed;
}

enum err symfiles_get(struct symfiles *s, const struct symfile *file, const struct symfiles_reader *reader,
        struct bucket_result *result, struct error *e)
{
	struct bucket_client *c = take_client(s, e);
	if (!c)
		return e->code;
	ask_sources(s, c, file, reader, result);
	give_client(s, c);
	return ERR_OK;
}

enum err symfiles_find_code(
        struct symfiles *s, struct str code_file, struct str code_id, struct code_module *m, struct error *e)
{
	if (!s->store)
		return error_set(e, ERR_MISSING, "this server has no uploaded symbol files (sym_store is not set)");
	struct store_client *c = store_client_take(s->store);
	enum err err = c ? code_id_get(c, code_file, code_id, m, NULL, e) : no_memory(e);
	store_client_give(c);
	return err;
}

/* ---- what is missing ---- */

static struct module_hash key_of(const struct module_hash *hash, unsigned sort)
{
	struct module_hash key = *hash;
	key.bytes[0] ^= (uint8_t)sort;
	return key;
}

bool symfiles_is_missing(struct symfiles *s, const struct symfile *file, uint64_t marker)
{
	struct module_hash key = key_of(&file->hash, file->sort);
	struct outcome f = outcomes_get(s->missing, &key, &key);
	return f.class == FAILURE_MISSING && f.marker == marker;
}

uint64_t symfiles_forgotten(struct symfiles *s)
{
	return s->forgotten;
}

void symfiles_set_missing(struct symfiles *s, const struct symfile *file, const struct symfiles_since *since)
{
	struct module_hash key = key_of(&file->hash, file->sort);
	struct outcome f = {.class = FAILURE_MISSING, .marker = since->marker, .checked = clock_now()};
	pthread_mutex_lock(&s->lock);
	if (s->forgotten == since->forgotten)
		outcomes_set(s->missing, &key, &key, &f);
	pthread_mutex_unlock(&s->lock);
}

void symfiles_forget(struct symfiles *s, const struct module_hash *hash)
{
	pthread_mutex_lock(&s->lock);
	s->forgotten++;
	for (unsigned sort = 0; sort < SYMFILE_SORTS; sort++) {
		struct module_hash key = key_of(hash, sort);
		outcomes_forget(s->missing, &key);
	}
	pthread_mutex_unlock(&s->lock);
}

struct missing_list *symfiles_missing(struct symfiles *s)
{
	return s->wanted;
}
