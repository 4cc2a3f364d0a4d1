/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symfiles/symfiles.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/process.h"
#include "cache/outcomes.h"
#include "objects/source_search.h"

struct symfiles {
	const struct config *config;    /* not owned */
	struct bucket_sources *sources; /* not owned */
	struct outcomes *missing;
	struct missing_list *wanted;
	pthread_mutex_t lock;       /* guards what follows, and that `missing` is only told what still holds */
	_Atomic uint64_t forgotten; /* may be read without the lock */
};

void symfiles_free(struct symfiles *s)
{
	if (!s)
		return;
	outcomes_free(s->missing);
	missing_list_free(s->wanted);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct symfiles *symfiles_new(const struct config *c, struct bucket_sources *sources, struct error *e)
{
	struct symfiles *s = calloc(1, sizeof *s);
	no_memory(e);
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	s->config = c;
	s->sources = sources;
	s->missing = outcomes_new(c);
	s->wanted = missing_list_new(random_u64());
	if (s->missing && s->wanted)
		return s;
	symfiles_free(s);
	return NULL;
}

struct symbfile_store *symfiles_store(const struct symfiles *s)
{
	return bucket_sources_store(s->sources);
}

/* ---- one file ---- */

struct symfile_search {
	struct symfiles *symfiles;
	struct bucket_client *client;
	const struct symfile *file;
	const struct symfiles_reader *reader;
	struct bucket_result *result; /* of the last attempt */
	struct bucket_result failed;  /* of the last that failed */
};

static void get_object(const struct symfile_search *a, unsigned source, struct str id)
{
	const struct symfiles_reader *reader = a->reader;
	const struct bucket_object object = {a->file->name, id};
	if (reader->url && ((*reader->url = bucket_locate(a->client, source, object, reader->zstd, a->result)) ||
	                           a->result->outcome == BUCKET_MISSING))
		return;
	bucket_fetch_raw(a->client, source, object, &reader->sink, reader->cancel, a->result);
}

/* The same of a file that is no symbol file. */
static void get_path(const struct symfile_search *a, unsigned source, const char *path)
{
	const struct symfiles_reader *reader = a->reader;
	const uint64_t max = a->symfiles->config->executable_max_size;
	if (reader->url && ((*reader->url = bucket_locate_path(a->client, source, path, reader->zstd, a->result)) ||
	                           a->result->outcome == BUCKET_MISSING))
		return;
	bucket_fetch_path_raw(a->client, source, path, max, &reader->sink, reader->cancel, a->result);
}

static void get_paths(const struct symfile_search *a, unsigned source)
{
	char path[SYMFILE_PATH_MAX];
	const enum bucket_kind kind = bucket_source_kind(a->symfiles->sources, source);
	bucket_result_set(a->result, BUCKET_MISSING, "no source has such files");
	for (unsigned n = 0; a->result->outcome == BUCKET_MISSING && a->file->path(a->file->path_arg, kind, n, path);
	        n++)
		get_path(a, source, path);
}

/* Once the reader has been given anything, there is no second try. */
static enum source_answer ask(void *arg, unsigned source, struct str id)
{
	struct symfile_search *a = arg;
	*a->result = (struct bucket_result){0};
	if (a->file->path)
		get_paths(a, source);
	else
		get_object(a, source, id);
	if (a->result->outcome == BUCKET_OK)
		return SOURCE_GOOD;
	if (a->result->begun || a->result->outcome == BUCKET_ABORTED)
		return SOURCE_STOP;
	if (a->result->outcome == BUCKET_MISSING)
		return SOURCE_MISSING;
	a->failed = *a->result;
	return a->result->outcome == BUCKET_FAILED ? SOURCE_FAILED : SOURCE_CORRUPT;
}

enum err symfiles_get(struct symfiles *s, const struct symfile *file, const struct symfiles_reader *reader,
        struct bucket_result *result, struct error *e)
{
	struct symfile_search a = {s, bucket_client_take(s->sources), file, reader, result, {0}};
	struct source_search search = {.kinds = UINT_MAX,
	        .id = file->path ? str_from("") : file->id,
	        .tries = s->config->bucket_retries,
	        .cancel = reader->cancel,
	        .ask = ask,
	        .arg = &a};
	if (!a.client)
		return no_memory(e);
	bucket_result_set(&a.failed, BUCKET_FAILED, "a source fails");
	*result = (struct bucket_result){0};
	bucket_result_set(result, BUCKET_MISSING, "there are no sources");
	const enum source_answer answer = source_search(s->sources, &search);
	if (answer == SOURCE_FAILED || answer == SOURCE_CORRUPT)
		*result = a.failed;
	else if (answer == SOURCE_STOP && !result->begun && result->outcome != BUCKET_ABORTED)
		bucket_result_set(result, BUCKET_ABORTED, "cancelled");
	bucket_client_give(a.client);
	return ERR_OK;
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
