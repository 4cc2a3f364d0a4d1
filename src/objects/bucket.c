/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "objects/bucket.h"

#include <ctype.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/utf8.h"
#include "objects/bucket_backend.h"
#include "objects/percent.h"
#include "objects/source_health.h"

/* A new kind of bucket is a row here and a file of its own. */
static const struct bucket_backend *const backends[] = {&bucket_http, &bucket_https, &bucket_s3, &bucket_file};

/* At the end of a source's URL: names have a folder named after their first two characters above them. */
#define SYMSTORE "#symstore"

/* What may stand before a URL. */
static const char *const kinds[] = {[BUCKET_SYMS] = "", [BUCKET_DEBUGINFOD] = "debuginfod+", [BUCKET_ELF] = "elf+"};

struct source {
	enum bucket_kind kind;
	const struct bucket_backend *backend;
	void *own;         /* the backend's */
	bool borrowed;     /* it is the store's */
	const char *above; /* before all paths: empty, or with a final slash */
	bool two_levels;   /* as its URL says */
	/* Whether index2.txt says so of files of Windows, and when it was looked for last; 0: never. */
	atomic_bool has_index2;
	_Atomic(int64_t) index2_looked;
	struct source_health *health; /* NULL: nobody watches it */
};

enum { SOURCES_MAX = CONFIG_LIST_MAX + 3, IDLE_MAX = 64 };
enum {
	INDEX2_AGAIN = 600,     /* seconds after which a source without index2.txt is asked for it again */
	INDEX2_MAX = 64 * 1024, /* bytes */
};
_Static_assert((int)SOURCES_MAX <= (int)SOURCES_COUNTED, "each source has series of its own");
_Static_assert((int)SOURCES_MAX <= 8 * (int)sizeof(source_set), "a set has a bit for each");

struct bucket_sources {
	unsigned count;
	uint64_t max_size;
	struct source items[SOURCES_MAX];
	uint64_t digests[SOURCES_MAX]; /* of each and all before it */
	struct symbfile_store *store;  /* NULL: none */
	pthread_mutex_t lock;          /* guards what follows */
	struct bucket_client *idle[IDLE_MAX];
	unsigned idle_count;
};

struct bucket_client {
	struct bucket_sources *sources; /* not owned */
	struct bucket_body body;
	void *own[SOURCES_MAX]; /* one per source, made when first needed */
};

enum bucket_kind bucket_kind_of_url(const char *url)
{
	for (unsigned i = BUCKET_ELF; i > BUCKET_SYMS; i--)
		if (strncasecmp(url, kinds[i], strlen(kinds[i])) == 0)
			return (enum bucket_kind)i;
	return BUCKET_SYMS;
}

static const char *without_kind(const char *url)
{
	return url + strlen(kinds[bucket_kind_of_url(url)]);
}

const struct bucket_backend *bucket_backend_of(const char *url)
{
	for (unsigned i = 0; i < sizeof backends / sizeof backends[0]; i++)
		if (strncasecmp(url, backends[i]->scheme, strlen(backends[i]->scheme)) == 0)
			return backends[i];
	return NULL;
}

static enum err source_init(struct source *s, const char *url, const struct config *c, struct error *e)
{
	s->kind = bucket_kind_of_url(url);
	url = without_kind(url);
	s->backend = bucket_backend_of(url);
	/* The URL may contain a password, so the text does not repeat it. */
	if (!s->backend)
		return error_set(e, ERR_CONFIG,
		        "source: the URL starts with none of http://, https://, s3://, file://%s",
		        *url == '/' ? "; a directory is file://, followed by its path" : "");
	size_t len = strlen(url), end = strlen(SYMSTORE);
	s->two_levels = len > end && strcmp(url + len - end, SYMSTORE) == 0;
	char *place = strndup(url, s->two_levels ? len - end : len);
	if (!place)
		return no_memory(e);
	s->own = s->backend->source_new(place, NULL, c, e);
	free(place);
	return s->own ? ERR_OK : e ? e->code : ERR_CONFIG;
}

static bool add_source(
        struct bucket_sources *s, const char *url, const char *above, const struct config *c, struct error *e)
{
	struct source *new = &s->items[s->count];
	if (source_init(new, url, c, e))
		return false;
	new->above = above;
	s->count++;
	return true;
}

/* A part of the store. */
static void add_store(struct bucket_sources *s, enum bucket_kind kind, const char *above)
{
	struct source *new = &s->items[s->count++];
	*new = (struct source){.kind = kind, .borrowed = true, .above = above};
	new->own = store_place(s->store, &new->backend);
}

/* What was uploaded to the store comes after the sources, so that it changes nothing that they have; tries come last.
 */
static bool add_sources(
        struct bucket_sources *s, const struct config *c, const struct config_list *urls, bool store, struct error *e)
{
	for (unsigned i = 0; i < urls->count; i++)
		if (!add_source(s, urls->items[i], "", c, e))
			return false;
	if (!store || !c->sym_store || !*c->sym_store)
		return true;
	if (!(s->store = store_new(c->sym_store, "sym_store", c, e)))
		return false;
	add_store(s, BUCKET_SYMS, "");
	if (c->sym_store_files)
		add_store(s, BUCKET_ELF, "");
	add_store(s, BUCKET_SYMS, BUCKET_TRY "/");
	return true;
}

static void note_digests(struct bucket_sources *s)
{
	uint64_t digest = 0;
	for (unsigned i = 0; i < s->count; i++) {
		const struct source *one = &s->items[i];
		const char *name = bucket_source_name(s, i);
		const uint8_t kind[] = {(uint8_t)one->kind, one->two_levels};
		digest = checksum(&digest, sizeof digest, name, strlen(name));
		digest = checksum(&digest, sizeof digest, kind, sizeof kind);
		digest = checksum(&digest, sizeof digest, one->above, strlen(one->above));
		digest += !digest;
		s->digests[i] = digest;
	}
}

static struct bucket_sources *make_sources(
        const struct config *c, const struct config_list *urls, bool store, struct error *e)
{
	struct bucket_sources *s = calloc(1, sizeof *s);
	if (!s) {
		no_memory(e);
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->max_size = c->bucket_max_size;
	if (add_sources(s, c, urls, store, e)) {
		note_digests(s);
		return s;
	}
	bucket_sources_free(s);
	return NULL;
}

static enum err ask_health(void *arg, unsigned source, int64_t limit, const atomic_bool *cancel, struct error *e);

static bool watch_all(struct bucket_sources *s, int64_t longest, struct error *e)
{
	for (unsigned i = 0; i < s->count; i++) {
		s->items[i].health = source_health_new(i, bucket_source_name(s, i), longest, ask_health, s);
		if (!s->items[i].health)
			return no_memory(e), false;
	}
	return true;
}

struct bucket_sources *bucket_sources_new(const struct config *c, struct error *e)
{
	struct bucket_sources *s = make_sources(c, &c->sources, true, e);
	if (s && watch_all(s, c->bucket_stall_timeout, e)) {
		for (unsigned i = 0; i < s->count; i++)
			metric_name_source(i, bucket_source_name(s, i));
		return s;
	}
	bucket_sources_free(s);
	return NULL;
}

struct bucket_sources *bucket_sources_of(const struct config *c, const struct config_list *urls, struct error *e)
{
	return make_sources(c, urls, false, e);
}

void bucket_sources_free(struct bucket_sources *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->count; i++)
		source_health_free(s->items[i].health);
	for (unsigned i = 0; i < s->idle_count; i++)
		bucket_client_free(s->idle[i]);
	for (unsigned i = 0; i < s->count; i++)
		if (!s->items[i].borrowed)
			s->items[i].backend->source_free(s->items[i].own);
	symbfile_store_free(s->store);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

struct symbfile_store *bucket_sources_store(const struct bucket_sources *s)
{
	return s->store;
}

const uint64_t *bucket_sources_digests(const struct bucket_sources *s)
{
	return s->digests;
}

unsigned bucket_sources_count(const struct bucket_sources *s)
{
	return s->count;
}

const char *bucket_source_name(const struct bucket_sources *s, unsigned source)
{
	return ((const struct bucket_place *)s->items[source].own)->name;
}

enum bucket_kind bucket_source_kind(const struct bucket_sources *s, unsigned source)
{
	return s->items[source].kind;
}

enum err bucket_check_url(const struct config *c, const char *url, struct error *e)
{
	struct source s = {0};
	enum err result = source_init(&s, url, c, e);
	if (!result)
		s.backend->source_free(s.own);
	return result;
}

struct bucket_client *bucket_client_new(struct bucket_sources *s)
{
	struct bucket_client *c = calloc(1, sizeof *c);
	if (c)
		c->sources = s;
	return c;
}

void bucket_client_free(struct bucket_client *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->sources->count; i++)
		if (c->own[i])
			c->sources->items[i].backend->client_free(c->own[i]);
	bucket_body_release(&c->body);
	free(c);
}

struct bucket_client *bucket_client_take(struct bucket_sources *s)
{
	pthread_mutex_lock(&s->lock);
	struct bucket_client *c = s->idle_count ? s->idle[--s->idle_count] : NULL;
	pthread_mutex_unlock(&s->lock);
	return c ? c : bucket_client_new(s);
}

void bucket_client_give(struct bucket_client *c)
{
	if (!c)
		return;
	struct bucket_sources *s = c->sources;
	pthread_mutex_lock(&s->lock);
	const bool kept = s->idle_count < IDLE_MAX;
	if (kept)
		s->idle[s->idle_count++] = c;
	pthread_mutex_unlock(&s->lock);
	if (!kept)
		bucket_client_free(c);
}

static bool name_is_possible(struct str name)
{
	if (name.len == 0 || name.len > 1024 || str_equal(name, str_from(".")) || str_equal(name, str_from("..")))
		return false;
	for (size_t at = 0; at < name.len;) {
		unsigned char c = (unsigned char)name.data[at];
		unsigned n = utf8_sequence((const uint8_t *)name.data + at, name.len - at);
		if (n == 0 || c < 0x20 || c == 0x7f || c == '/' || c == '\\')
			return false;
		at += n;
	}
	return true;
}

bool bucket_can_hold(struct str name, struct str id)
{
	return name_is_possible(name) && id.len > 0 && id.len <= BUCKET_ID_MAX && hex_only(id);
}

/* Whether the id changes in the other case. */
static bool spell_case(char *text, struct str id, bool lower)
{
	bool differs = false;
	for (size_t i = 0; i < id.len; i++) {
		unsigned char c = (unsigned char)id.data[i];
		text[i] = (char)(lower ? tolower(c) : toupper(c));
		differs = differs || text[i] != id.data[i];
	}
	return differs;
}

bool bucket_spell(struct str id, enum bucket_spelling how, char text[BUCKET_ID_MAX + 1], struct str *spelled)
{
	enum { WITHOUT_AGE = 32 };
	bool without = id.len == WITHOUT_AGE, zero = id.len == WITHOUT_AGE + 1 && id.data[WITHOUT_AGE] == '0';
	*spelled = how == SPELLED_SO ? id : (struct str){text, id.len};
	if (how == SPELLED_SO || id.len > BUCKET_ID_MAX)
		return how == SPELLED_SO;
	bool upper = spell_case(text, id, false);
	if (how == SPELLED_UPPER)
		return upper;
	bool lower = how == SPELLED_BY_AGE || spell_case(text, id, true);
	if (how == SPELLED_LOWER)
		return lower;
	text[WITHOUT_AGE] = '0';
	spelled->len = without ? WITHOUT_AGE + 1 : WITHOUT_AGE;
	return (without || zero) && (lower || upper);
}

struct str bucket_stem(struct str name)
{
	if (name.len >= 4 && strncasecmp(name.data + name.len - 4, ".pdb", 4) == 0)
		name.len -= 4;
	return name;
}

size_t bucket_object_path(char *out, struct str name, struct str id)
{
	char *at = percent_encode(out, name, false);
	*at++ = '/';
	at = percent_encode(at, id, false);
	*at++ = '/';
	at = stpcpy(percent_encode(at, bucket_stem(name), false), ".sym");
	return (size_t)(at - out);
}

/* The first two characters of the name, or the only one. */
static struct str first_two(struct str name)
{
	size_t at = utf8_sequence((const uint8_t *)name.data, name.len);
	name.len = at + (at < name.len ? utf8_sequence((const uint8_t *)name.data + at, name.len - at) : 0);
	return name;
}

/* The folder above a name that begins with two dots would lead out of the source. */
static bool source_can_hold(const struct source *s, struct bucket_object object)
{
	return s->kind == BUCKET_SYMS && bucket_can_hold(object.name, object.id) &&
	       !(s->two_levels && str_equal(first_two(object.name), str_from("..")));
}

static const char *make_path(char path[BUCKET_PATH_MAX], struct bucket_object object, const struct source *s)
{
	char *at = stpcpy(path, s->above);
	if (s->two_levels) {
		at = percent_encode(at, first_two(object.name), false);
		*at++ = '/';
	}
	bucket_object_path(at, object.name, object.id);
	return path;
}

static void *own_client(struct bucket_client *c, unsigned source)
{
	if (!c->own[source])
		c->own[source] = c->sources->items[source].backend->client_new(c->sources->items[source].own);
	return c->own[source];
}

/* One attempt at an object; the body has been started. */
static void try_source(struct bucket_client *c, unsigned source, const char *path, const atomic_bool *cancel,
        struct bucket_result *result)
{
	const struct bucket_backend *backend = c->sources->items[source].backend;
	int64_t started = clock_now();
	void *own = own_client(c, source);
	if (!own)
		bucket_result_set(result, BUCKET_FAILED, "out of memory");
	else
		backend->fetch(own, path, &c->body, cancel, result);
	if (own && result->outcome == BUCKET_OK && bucket_body_trails(&c->body))
		log_event(LOG_LEVEL_WARNING, "trailing bytes", "%s from %s: bytes behind its gzip are ignored", path,
		        bucket_source_name(c->sources, source));
	result->wire_bytes = c->body.layers[0].bytes;
	result->text_bytes = c->body.text;
	result->begun = c->body.begun;
	result->elapsed = clock_now() - started;
	struct source_health *health = own ? c->sources->items[source].health : NULL;
	if (health && result->outcome == BUCKET_FAILED && !c->body.limit)
		source_health_failed(health, result->elapsed);
	if (health && result->outcome == BUCKET_OK)
		source_health_gave(health, c->body.answered ? c->body.answered - started : result->elapsed);
	if (health && result->outcome == BUCKET_MISSING)
		source_health_lacks(health, result->elapsed);
}

static void fetch_object(struct bucket_client *c, unsigned source, struct bucket_object object,
        const atomic_bool *cancel, struct bucket_result *result)
{
	const struct source *s = &c->sources->items[source];
	char path[BUCKET_PATH_MAX];
	*result = (struct bucket_result){0};
	if (source_can_hold(s, object))
		try_source(c, source, make_path(path, object, s), cancel, result);
	else
		bucket_result_set(result, BUCKET_MISSING, "no bucket can hold a file with this name or id");
}

static void count(unsigned source, const struct bucket_result *result)
{
	if (result->outcome == BUCKET_ABORTED || !result->elapsed) /* it was not asked to the end, or not at all */
		return;
	metric_transfer(source,
	        result->outcome == BUCKET_MISSING  ? TRANSFER_MISSING
	        : result->outcome == BUCKET_FAILED ? TRANSFER_FAILED
	                                           : TRANSFER_OK,
	        result->elapsed);
}

void bucket_fetch(struct bucket_client *c, unsigned source, struct bucket_object object, const struct bucket_sink *sink,
        const atomic_bool *cancel, struct bucket_result *result)
{
	bucket_body_start(&c->body, sink, c->sources->max_size);
	fetch_object(c, source, object, cancel, result);
	count(source, result);
}

void bucket_fetch_raw(struct bucket_client *c, unsigned source, struct bucket_object object,
        const struct bucket_raw_sink *sink, const atomic_bool *cancel, struct bucket_result *result)
{
	bucket_body_start_raw(&c->body, sink, c->sources->max_size);
	fetch_object(c, source, object, cancel, result);
}

char *bucket_locate(
        struct bucket_client *c, unsigned source, struct bucket_object object, bool zstd, struct bucket_result *result)
{
	const struct source *s = &c->sources->items[source];
	char path[BUCKET_PATH_MAX];
	*result = (struct bucket_result){.outcome = BUCKET_FAILED};
	void *own = s->backend->locate && source_can_hold(s, object) ? own_client(c, source) : NULL;
	return own ? s->backend->locate(own, make_path(path, object, s), zstd, result) : NULL;
}

static bool discard(void *arg, const uint8_t *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return true;
}

/* NAME/ID/NAME, where the last letter may differ (NAME/ID/NAM_), or NAME/ID/file.ptr: what symstore puts. Not
 * _.dwarf/ID/_.dwarf, which is of other servers. */
static bool is_symstore_path(const char *path)
{
	const size_t name = strcspn(path, "/"), id = path[name] ? strcspn(path + name + 1, "/") : 0;
	if (!name || !id || !path[name + 1 + id] || strncmp(path, "_.", 2) == 0)
		return false;
	const char *file = path + name + 1 + id + 1;
	return strcmp(file, "file.ptr") == 0 || (strlen(file) == name && strncasecmp(file, path, name - 1) == 0);
}

/* In a symstore of two levels, or if it is taken for one, all is below the first two characters of its first part.
 * NULL: it is too long, or cannot be there. */
static const char *plain_path(char to[BUCKET_PATH_MAX], const struct source *s, const char *path, bool below)
{
	if (strlen(path) > BUCKET_PLAIN_MAX)
		return NULL;
	if (!below && !s->two_levels && !(atomic_load(&s->has_index2) && is_symstore_path(path)))
		return path;
	int first = (int)strnlen(path, 2);
	snprintf(to, BUCKET_PATH_MAX, "%.*s/%s", first, path, path);
	return strncmp(to, "../", 3) != 0 && strncmp(to, "./", 2) != 0 ? to : NULL;
}

/* A symstore of two levels has an index2.txt, whatever is in it. Not of use to a transfer that has begun. False: it
 * cannot be read now, so what is missing may be a level below. */
static bool look_for_index2(struct bucket_client *c, unsigned source, const char *path, const atomic_bool *cancel)
{
	struct source *s = &c->sources->items[source];
	const int64_t now = clock_now(), looked = atomic_load(&s->index2_looked);
	if (s->kind != BUCKET_ELF || s->two_levels || atomic_load(&s->has_index2) || !is_symstore_path(path) ||
	        (looked && now - looked < INDEX2_AGAIN * SECOND))
		return true;
	struct bucket_raw_sink sink = {.add = discard};
	struct bucket_result result = {0};
	bucket_body_start_raw(&c->body, &sink, INDEX2_MAX);
	c->body.no_page = true;
	try_source(c, source, "index2.txt", cancel, &result);
	if (result.outcome == BUCKET_OK)
		atomic_store(&s->has_index2, true);
	const bool known = result.outcome != BUCKET_FAILED && result.outcome != BUCKET_ABORTED;
	if (known)
		atomic_store(&s->index2_looked, now);
	return known;
}

/* Where the bytes of a path go: one of both. */
struct path_sink {
	const struct bucket_sink *sink;
	const struct bucket_raw_sink *raw;
};

/* below: as in plain_path. */
static void fetch_at(struct bucket_client *c, unsigned source, const char *path, bool below, uint64_t max,
        struct path_sink to, const atomic_bool *cancel, struct bucket_result *result)
{
	char text[BUCKET_PATH_MAX];
	*result = (struct bucket_result){0};
	const char *whole = plain_path(text, &c->sources->items[source], path, below);
	if (to.raw)
		bucket_body_start_raw(&c->body, to.raw, max);
	else
		bucket_body_start(&c->body, to.sink, max);
	c->body.no_page = true;
	if (whole)
		try_source(c, source, whole, cancel, result);
	else
		bucket_result_set(result, BUCKET_MISSING, "the path is too long");
}

/* Both places are looked in while it is not known how many levels the source has. */
static void fetch_path(struct bucket_client *c, unsigned source, const char *path, uint64_t max, struct path_sink to,
        const atomic_bool *cancel, struct bucket_result *result)
{
	const bool known = look_for_index2(c, source, path, cancel);
	fetch_at(c, source, path, false, max, to, cancel, result);
	if (!known && result->outcome == BUCKET_MISSING)
		fetch_at(c, source, path, true, max, to, cancel, result);
}

void bucket_fetch_path(struct bucket_client *c, unsigned source, const char *path, uint64_t max,
        const struct bucket_sink *sink, const atomic_bool *cancel, struct bucket_result *result)
{
	fetch_path(c, source, path, max, (struct path_sink){.sink = sink}, cancel, result);
}

void bucket_fetch_path_raw(struct bucket_client *c, unsigned source, const char *path, uint64_t max,
        const struct bucket_raw_sink *sink, const atomic_bool *cancel, struct bucket_result *result)
{
	fetch_path(c, source, path, max, (struct path_sink){.raw = sink}, cancel, result);
}

char *bucket_locate_path(
        struct bucket_client *c, unsigned source, const char *path, bool zstd, struct bucket_result *result)
{
	const struct source *s = &c->sources->items[source];
	char text[BUCKET_PATH_MAX];
	*result = (struct bucket_result){.outcome = BUCKET_FAILED};
	if (!s->backend->locate)
		return NULL;
	const bool known = look_for_index2(c, source, path, NULL);
	const char *whole = plain_path(text, s, path, false);
	void *own = whole ? own_client(c, source) : NULL;
	char *url = own ? s->backend->locate(own, whole, zstd, result) : NULL;
	if (!url && !known && own && result->outcome == BUCKET_MISSING && (whole = plain_path(text, s, path, true)))
		url = s->backend->locate(own, whole, zstd, result);
	return url;
}

bool bucket_source_is_folder(const struct bucket_sources *s, unsigned source)
{
	return s->items[source].backend == &bucket_file;
}

enum err bucket_list(
        struct bucket_client *c, unsigned source, const char *folder, store_found *found, void *arg, struct error *e)
{
	struct bucket_listing flat = {found, arg, true};
	if (!bucket_source_is_folder(c->sources, source))
		return error_set(e, ERR_CONFIG, "a source that cannot be listed");
	void *own = own_client(c, source);
	return own ? bucket_file.list(own, folder, &flat, NULL, e) : no_memory(e);
}

/* An object that cannot exist: none has a name without slashes. debuginfod answers 503 to a path that is none of its
 * own, and 404 to a build id that it does not have. limit: as in struct bucket_body. */
static void probe(struct bucket_client *c, unsigned source, int64_t limit, const atomic_bool *cancel,
        struct bucket_result *result)
{
	const char *none = c->sources->items[source].kind == BUCKET_DEBUGINFOD
	                           ? "buildid/0000000000000000000000000000000000000000/debuginfo"
	                           : "__heartbeat__";
	struct bucket_raw_sink sink = {.add = discard};
	*result = (struct bucket_result){0};
	bucket_body_start_raw(&c->body, &sink, c->sources->max_size);
	c->body.limit = limit;
	try_source(c, source, none, cancel, result);
}

static enum err judge_probe(
        struct bucket_client *c, unsigned source, const struct bucket_result *result, struct error *e)
{
	/* A server may have a page at that place. Otherwise the result is what loads would see: an object is missing,
	 * or they fail. */
	if (result->outcome == BUCKET_OK || result->outcome == BUCKET_MISSING || result->status == 200)
		return ERR_OK;
	return error_set(e, ERR_UNAVAILABLE, "%s: %.100s", bucket_source_name(c->sources, source), result->text);
}

enum err bucket_probe(struct bucket_client *c, unsigned source, struct error *e)
{
	struct source_health *h = c->sources->items[source].health;
	struct bucket_result result;
	if (h && source_health_is_ill(h, e))
		return ERR_UNAVAILABLE;
	probe(c, source, 0, NULL, &result);
	return judge_probe(c, source, &result, e);
}

static enum err ask_health(void *arg, unsigned source, int64_t limit, const atomic_bool *cancel, struct error *e)
{
	struct bucket_client *c = bucket_client_take(arg);
	struct bucket_result result;
	if (!c) /* nothing is known */
		return ERR_OK;
	probe(c, source, limit, cancel, &result);
	const enum err err = judge_probe(c, source, &result, e);
	bucket_client_give(c);
	return err;
}

struct source_health *bucket_source_health(const struct bucket_sources *s, unsigned source)
{
	return s->items[source].health;
}

bool bucket_sources_returned(const struct bucket_sources *s, source_set which, int64_t since)
{
	for (unsigned i = 0; i < s->count; i++)
		if ((which >> i & 1) && s->items[i].health && source_health_returned(s->items[i].health, since))
			return true;
	return false;
}

bool bucket_sources_well(const struct bucket_sources *s, source_set which)
{
	for (unsigned i = 0; i < s->count; i++)
		if ((which >> i & 1) && s->items[i].health && !source_health_is_good(s->items[i].health))
			return false;
	return true;
}

enum err bucket_check_local(const struct config *c, const char *url, struct error *e)
{
	struct bucket_sources one = {.max_size = c->bucket_max_size};
	struct bucket_result result;
	if (bucket_backend_of(without_kind(url)) != &bucket_file)
		return ERR_OK;
	if (!add_source(&one, url, "", c, e))
		return e->code;
	struct bucket_client *client = bucket_client_new(&one);
	enum err err = client ? ERR_OK : no_memory(e);
	if (client)
		probe(client, 0, 0, NULL, &result);
	if (client && result.outcome == BUCKET_FAILED)
		err = error_set(e, ERR_CONFIG, "source: %.190s", result.text);
	bucket_client_free(client);
	one.items[0].backend->source_free(one.items[0].own);
	return err;
}
