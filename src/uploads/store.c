/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/hex.h"
#include "uploads/store_backend.h"

#define FOLDER "symbfiles"

static const struct store_backend *const backends[] = {&store_file, &store_s3};

struct symbfile_store {
	const struct store_backend *backend;
	void *own; /* the backend's */
	uint64_t max_size, retries;
};

struct store_client {
	struct symbfile_store *store; /* not owned */
	void *own;
};

struct store_put {
	const struct store_backend *backend;
	void *own;
};

static const struct store_backend *backend_of(const char *url)
{
	for (unsigned i = 0; i < sizeof backends / sizeof backends[0]; i++)
		if (strncasecmp(url, backends[i]->scheme, strlen(backends[i]->scheme)) == 0)
			return backends[i];
	return NULL;
}

struct symbfile_store *symbfile_store_new(const struct config *c, struct error *e)
{
	const char *url = c->symbfile_store ? c->symbfile_store : "";
	struct symbfile_store *s = calloc(1, sizeof *s);
	if (!s) {
		no_memory(e);
		return NULL;
	}
	s->max_size = c->bucket_max_size;
	s->retries = c->bucket_retries;
	s->backend = backend_of(url);
	if (s->backend)
		s->own = s->backend->store_new(url, c, e);
	else
		error_set(e, ERR_CONFIG, "symbfile_store: neither file:///directory nor s3://bucket/prefix");
	if (s->own)
		return s;
	free(s);
	return NULL;
}

void symbfile_store_free(struct symbfile_store *s)
{
	if (!s)
		return;
	s->backend->store_free(s->own);
	free(s);
}

enum err symbfile_store_check(const struct config *c, struct error *e)
{
	struct error inner = {.code = ERR_OK};
	if (!c->symbfile_store || !*c->symbfile_store)
		return ERR_OK;
	symbfile_store_free(symbfile_store_new(c, &inner));
	return inner.code ? error_set(e, inner.code, "%s", inner.text) : ERR_OK;
}

struct store_client *store_client_new(struct symbfile_store *s)
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

void store_client_free(struct store_client *c)
{
	if (!c)
		return;
	c->store->backend->client_free(c->own);
	free(c);
}

enum err symbfile_store_check_local(const struct config *c, struct error *e)
{
	if (!c->symbfile_store || backend_of(c->symbfile_store) != &store_file)
		return ERR_OK;
	struct symbfile_store *s = symbfile_store_new(c, e);
	if (!s)
		return e->code;
	struct store_client *client = store_client_new(s);
	enum err err = client ? store_probe(client, e) : no_memory(e);
	store_client_free(client);
	symbfile_store_free(s);
	return err;
}

/* ---- paths ---- */

static bool set_is_valid(struct str set)
{
	for (size_t i = 0; i < set.len; i++) {
		char c = set.data[i];
		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
		            c == '_' || ((c == '.' || c == STORE_SET_GENERATION) && i > 0)))
			return false;
	}
	return set.len > 0 && set.len <= STORE_SET_MAX;
}

bool store_key_is_valid(const struct store_key *key)
{
	return (unsigned)key->kind < SYMBFILE_KINDS && key->set && set_is_valid(str_from(key->set)) &&
	       key->part < key->parts && key->parts <= STORE_PARTS_MAX;
}

static int print_directory(char out[STORE_PATH_MAX], const struct file_id *id)
{
	char hex[FILE_ID_HEX + 1];
	file_id_hex(hex, id);
	return snprintf(out, STORE_PATH_MAX, FOLDER "/%s", hex);
}

/* The longest has 10 + 32 + 11 + 65 + 7 + 6 bytes. */
static void print_path(char out[STORE_PATH_MAX], const struct store_key *key)
{
	int at = print_directory(out, &key->id);
	snprintf(out + at, (size_t)(STORE_PATH_MAX - at), "/%s/%s/%u/%u", symbfile_kind_names[key->kind], key->set,
	        key->parts, key->part);
}

/* Cuts off the next segment; false if nothing is left. */
static bool next_segment(struct str *path, struct str *segment)
{
	const char *slash = path->len ? memchr(path->data, '/', path->len) : NULL;
	segment->data = path->data;
	segment->len = slash ? (size_t)(slash - path->data) : path->len;
	path->data += segment->len + (slash != NULL);
	path->len -= segment->len + (slash != NULL);
	return segment->len > 0;
}

static void print_claims_directory(char out[STORE_PATH_MAX], const char key[BUILD_ID_KEY + 1])
{
	snprintf(out, STORE_PATH_MAX, FOLDER "/build-ids/%s", key);
}

/* The longest has 20 + 32 + 129 + 33 + 17 bytes. */
static void print_claim_path(char out[STORE_PATH_MAX], const struct store_claim *claim)
{
	char key[BUILD_ID_KEY + 1], build_id[BUILD_ID_HEX + 1], id[FILE_ID_HEX + 1];
	build_id_key(key, &claim->build_id);
	build_id_hex(build_id, claim->build_id.bytes, claim->build_id.len);
	file_id_hex(id, &claim->id);
	print_claims_directory(out, key);
	size_t at = strlen(out);
	snprintf(out + at, STORE_PATH_MAX - at, "/%s/%s/%" PRIx64, build_id, id, claim->image_base);
}

/* Parses a number as print_path writes it: without leading zeros. */
static bool parse_number(struct str text, unsigned *value)
{
	*value = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		*value = 10 * *value + (unsigned)(text.data[i] - '0');
	}
	return text.len > 0 && text.len <= 6 && (text.data[0] != '0' || text.len == 1);
}

static bool parse_kind(struct str text, enum symbfile_kind *kind)
{
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++)
		if (str_equal(text, str_from(symbfile_kind_names[i]))) {
			*kind = (enum symbfile_kind)i;
			return true;
		}
	return false;
}

/* Parses what STORE_TIME writes, without its dot. */
static bool parse_time(struct str text, int64_t *time)
{
	*time = 0;
	for (size_t i = 0; i < text.len; i++) {
		int digit = text.data[i] - '0';
		if (digit < 0 || digit > 9 || *time > (INT64_MAX - digit) / 10)
			return false;
		*time = 10 * *time + digit;
	}
	return text.len > 0 && text.data[0] != '0';
}

/* Parses PART, or PART and STORE_TIME, which holds the part's time. */
static bool parse_part(struct store_part *p, struct str text)
{
	const char *dot = memchr(text.data, '.', text.len);
	struct str number = {text.data, dot ? (size_t)(dot - text.data) : text.len};
	p->is_time = dot != NULL;
	return parse_number(number, &p->part) &&
	       (!dot || parse_time((struct str){dot + 1, text.len - number.len - 1}, &p->time));
}

/* KIND/SET/PARTS/PART; false for any other path found there. */
static bool parse_path(struct store_part *p, struct str path)
{
	struct str kind, set, parts, part;
	if (!next_segment(&path, &kind) || !next_segment(&path, &set) || !next_segment(&path, &parts) ||
	        !next_segment(&path, &part) || path.len > 0)
		return false;
	if (!parse_kind(kind, &p->kind) || !set_is_valid(set) || !parse_number(parts, &p->parts) ||
	        !parse_part(p, part))
		return false;
	memcpy(p->set, set.data, set.len);
	p->set[set.len] = 0;
	return p->part < p->parts && p->parts <= STORE_PARTS_MAX;
}

static bool is_lower_hex(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (hex_value(text.data[i]) < 0 || (text.data[i] >= 'A' && text.data[i] <= 'F'))
			return false;
	return text.len > 0;
}

/* Parses what print_claim_path writes: no leading zeros. */
static bool parse_base(struct str text, uint64_t *base)
{
	*base = 0;
	for (size_t i = 0; i < text.len && i < 16; i++)
		*base = *base << 4 | (unsigned)hex_value(text.data[i]);
	return text.len <= 16 && (text.data[0] != '0' || text.len == 1);
}

/* BUILDID/FILEID/BASE; false for any other path found there. */
static bool parse_claim_path(struct store_claim *c, struct str path)
{
	struct str segments[3];
	for (unsigned i = 0; i < 3; i++)
		if (!next_segment(&path, &segments[i]) || !is_lower_hex(segments[i]))
			return false;
	return path.len == 0 && build_id_parse(&c->build_id, segments[0]) &&
	       hex_read(c->id.bytes, sizeof c->id.bytes, segments[1]) && parse_base(segments[2], &c->image_base);
}

/* ---- storing ---- */

static struct store_put *begin_put(struct store_client *c, const char *path, const atomic_bool *cancel, struct error *e)
{
	struct store_put *p = calloc(1, sizeof *p);
	if (!p) {
		no_memory(e);
		return NULL;
	}
	p->backend = c->store->backend;
	p->own = p->backend->put_begin(c->own, path, cancel, e);
	if (p->own)
		return p;
	free(p);
	return NULL;
}

struct store_put *store_put_begin(
        struct store_client *c, const struct store_key *key, const atomic_bool *cancel, struct error *e)
{
	char path[STORE_PATH_MAX];
	if (!store_key_is_valid(key)) {
		error_set(e, ERR_BAD_REQUEST, "invalid kind, set, part or parts");
		return NULL;
	}
	print_path(path, key);
	struct store_put *p = begin_put(c, path, cancel, e);
	if (p)
		p->backend->put_with_time(p->own);
	return p;
}

void store_put_unless_same(struct store_put *p, const struct store_key *other)
{
	char path[STORE_PATH_MAX];
	print_path(path, other);
	p->backend->put_unless_same(p->own, path);
}

enum err store_put_write(struct store_put *p, const void *data, size_t len, struct error *e)
{
	return len ? p->backend->put_write(p->own, data, len, e) : ERR_OK;
}

enum err store_put_commit(struct store_put *p, struct error *e)
{
	enum err err = p->backend->put_commit(p->own, e);
	store_put_abort(p);
	return err;
}

void store_put_abort(struct store_put *p)
{
	if (!p)
		return;
	p->backend->put_free(p->own);
	free(p);
}

/* The name says everything: the object is empty. */
enum err store_put_claim(
        struct store_client *c, const struct store_claim *claim, const atomic_bool *cancel, struct error *e)
{
	char path[STORE_PATH_MAX];
	print_claim_path(path, claim);
	struct store_put *p = begin_put(c, path, cancel, e);
	return p ? store_put_commit(p, e) : e->code;
}

/* ---- reading ---- */

struct listing {
	bool (*found)(void *arg, const struct store_part *part);
	void *arg;
	bool times;
};

static bool on_object(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct listing *l = arg;
	struct store_part part = {.size = size, .time = time};
	return !parse_path(&part, path) || (part.is_time && !l->times) || l->found(l->arg, &part);
}

static enum err list(
        struct store_client *c, const struct file_id *id, struct listing *l, const atomic_bool *cancel, struct error *e)
{
	char path[STORE_PATH_MAX];
	struct store_found objects = {on_object, l};
	print_directory(path, id);
	return c->store->backend->list(c->own, path, &objects, cancel, e);
}

enum err store_list(struct store_client *c, const struct file_id *id,
        bool (*found)(void *arg, const struct store_part *part), void *arg, const atomic_bool *cancel, struct error *e)
{
	return list(c, id, &(struct listing){found, arg, false}, cancel, e);
}

enum err store_list_with_times(struct store_client *c, const struct file_id *id,
        bool (*found)(void *arg, const struct store_part *part), void *arg, const atomic_bool *cancel, struct error *e)
{
	return list(c, id, &(struct listing){found, arg, true}, cancel, e);
}

struct claim_listing {
	bool (*found)(void *arg, const struct store_claim *claim);
	void *arg;
};

static bool on_claim(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct claim_listing *l = arg;
	struct store_claim claim = {.time = time};
	(void)size;
	return !parse_claim_path(&claim, path) || l->found(l->arg, &claim);
}

enum err store_list_claims(struct store_client *c, const struct build_id_question *q,
        bool (*found)(void *arg, const struct store_claim *claim), void *arg, const atomic_bool *cancel,
        struct error *e)
{
	char path[STORE_PATH_MAX], key[BUILD_ID_KEY + 1];
	struct claim_listing l = {found, arg};
	struct store_found objects = {on_claim, &l};
	build_id_question_key(key, q);
	print_claims_directory(path, key);
	return c->store->backend->list(c->own, path, &objects, cancel, e);
}

enum err store_walk(struct store_client *c, bool (*found)(void *arg, struct str path, uint64_t size, int64_t time),
        void *arg, struct error *e)
{
	struct store_found objects = {found, arg};
	return c->store->backend->list(c->own, FOLDER, &objects, NULL, e);
}

void store_part_path(char path[STORE_PATH_SIZE], const struct file_id *id, const struct store_part *part)
{
	char full[STORE_PATH_MAX];
	print_path(full, &(struct store_key){*id, part->kind, part->set, part->part, part->parts});
	int len = snprintf(path, STORE_PATH_SIZE, "%s", full + strlen(FOLDER "/"));
	if (part->is_time)
		snprintf(path + len, (size_t)(STORE_PATH_SIZE - len), STORE_TIME, part->time);
}

enum err store_remove(struct store_client *c, const char *path, struct error *e)
{
	char full[STORE_PATH_SIZE + sizeof FOLDER];
	snprintf(full, sizeof full, FOLDER "/%s", path);
	return c->store->backend->remove(c->own, full, e);
}

/* Skips what the sink has from an earlier try. False if it differs. */
static bool pass_over(struct store_read *r, const uint8_t **data, size_t *len)
{
	uint64_t left = r->result->text_bytes - r->passed;
	size_t n = *len < left ? *len : (size_t)left;
	if (!r->again || !left)
		return true;
	text_hash_add(r->again, *data, n);
	r->passed += n;
	*data += n;
	*len -= n;
	if (r->passed < r->result->text_bytes || text_hash_value(r->again) == text_hash_value(r->given))
		return true;
	r->differs = true;
	return bucket_result_set(r->result, BUCKET_FAILED, "another object than at the first try") == BUCKET_OK;
}

bool store_read_add(struct store_read *r, const uint8_t *data, size_t len)
{
	r->result->wire_bytes += len;
	if (r->cancel && atomic_load(r->cancel))
		return bucket_result_set(r->result, BUCKET_ABORTED, "cancelled") == BUCKET_OK;
	if (r->result->wire_bytes > r->max)
		return bucket_result_set(r->result, BUCKET_TOO_LARGE, "larger than bucket_max_size") == BUCKET_OK;
	if (!pass_over(r, &data, &len))
		return false;
	while (len) {
		size_t room = 0;
		uint8_t *space = r->sink->space(r->sink->arg, &room);
		size_t n = room < len ? room : len;
		if (space) {
			memcpy(space, data, n);
			r->result->text_bytes += n;
			r->passed += n;
			if (r->given)
				text_hash_add(r->given, data, n);
		}
		if (!space || !room || !r->sink->commit(r->sink->arg, n))
			return bucket_result_set(r->result, BUCKET_ABORTED, "aborted by the reader") == BUCKET_OK;
		data += n;
		len -= n;
	}
	return true;
}

/* Retries while the failure is temporary. */
static void get_object(struct store_client *c, const char *path, struct store_read *read)
{
	struct bucket_result *result = read->result;
	if (c->store->retries)
		read->given = text_hash_new();
	c->store->backend->get(c->own, path, read);
	for (uint64_t i = 0; i < c->store->retries && result->outcome == BUCKET_FAILED && read->given &&
	                     !read->differs && !(read->cancel && atomic_load(read->cancel));
	        i++) {
		bucket_pause();
		text_hash_free(read->again);
		read->again = text_hash_new();
		if (!read->again)
			break;
		*result = (struct bucket_result){.text_bytes = result->text_bytes};
		read->passed = 0;
		c->store->backend->get(c->own, path, read);
		/* the sink has more than the object */
		if (result->outcome == BUCKET_OK && read->passed < result->text_bytes)
			bucket_result_set(result, BUCKET_FAILED, "another object than at the first try");
	}
	text_hash_free(read->given);
	text_hash_free(read->again);
}

void store_get(struct store_client *c, const struct store_key *key, const struct bucket_sink *sink,
        const atomic_bool *cancel, struct bucket_result *result)
{
	char path[STORE_PATH_MAX];
	int64_t started = clock_now();
	struct store_read read = {.sink = sink, .cancel = cancel, .max = c->store->max_size, .result = result};
	*result = (struct bucket_result){0};
	if (store_key_is_valid(key)) {
		print_path(path, key);
		get_object(c, path, &read);
	} else {
		bucket_result_set(result, BUCKET_MISSING, "invalid kind, set, part or parts");
	}
	result->delivered = result->text_bytes > 0;
	result->elapsed = clock_now() - started;
}

enum err store_probe(struct store_client *c, struct error *e)
{
	return c->store->backend->probe(c->own, e);
}
