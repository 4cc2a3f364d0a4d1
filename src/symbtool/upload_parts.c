/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/upload_parts.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/gzip.h"

enum { REPLY_MAX = 16 << 20, HEADERS_MAX = 1 << 20 };

/* A part to send. */
struct part_job {
	enum symbfile_kind kind;
	unsigned part;
	bool last; /* of its set, to be sent after all others */
};

struct parts_upload {
	struct server *server;
	const struct cut *cut;
	bool force;
	struct part_job *jobs;
	unsigned count;  /* up to which they are sent at a time */
	unsigned others; /* than the last of each set */
	atomic_uint next;
	struct progress progress;
	pthread_mutex_t lock; /* of what follows */
	struct upload_counts *counts;
	enum err err;
	struct error *error; /* of the first failure */
};

/* ---- what is there ---- */

/* Marks the parts of this set that the server already has; kind: what it says of one. */
static void mark_set(const struct spool *s, const json_t *kind, bool *there)
{
	const char *set = json_string_value(json_object_get(kind, "set"));
	const json_t *have = json_object_get(kind, "have");
	if (!set || strcmp(set, s->set) != 0)
		return;
	for (size_t i = 0; i < json_array_size(have); i++) {
		json_int_t part = json_integer_value(json_array_get(have, i));
		if (part >= 0 && (uint64_t)part < s->count)
			there[part] = true;
	}
}

/* Of all sets that the server has; version 1.0 tells of one of each kind. The last part of what was sent without the
 * load segments is sent again: the server does not know these. */
static void mark_kind(const struct cut *cut, unsigned kind, const json_t *reply, bool *there)
{
	const struct spool *s = &cut->kinds[kind];
	const json_t *sets = json_object_get(reply, "sets");
	if (!sets)
		mark_set(s, json_object_get(reply, symbfile_kind_names[kind]), there);
	for (size_t i = 0; i < json_array_size(sets); i++) {
		const json_t *set = json_array_get(sets, i);
		const char *its_kind = json_string_value(json_object_get(set, "kind"));
		const char *name = json_string_value(json_object_get(set, "set"));
		if (!its_kind || strcmp(its_kind, symbfile_kind_names[kind]) != 0)
			continue;
		mark_set(s, set, there);
		bool unknown = cut->segments.count && !json_object_get(set, "segments");
		if (unknown && name && strcmp(name, s->set) == 0)
			there[s->count - 1] = false;
	}
}

/* What the server says about an id; NULL on failure. */
static json_t *ask_for_parts(struct server_connection *c, const char *id, struct error *e)
{
	char path[64 + BUILD_ID_HEX];
	snprintf(path, sizeof path, "/api/symbols/%s", id);
	return connection_ask(c, &(struct server_request){.path = path}, e);
}

/* Whether the build id leads to this executable, too; true if it has none. An older symbtool sent no build ids, so
 * the server is asked. */
static enum err ask_for_claim(struct server_connection *c, const struct cut *cut, bool *claimed, struct error *e)
{
	char build_id[BUILD_ID_HEX + 1], hex[FILE_ID_HEX + 1];
	*claimed = true;
	if (!cut->own.found_by.len)
		return ERR_OK;
	build_id_hex(build_id, cut->own.found_by.bytes, cut->own.found_by.len);
	file_id_hex(hex, &cut->id);
	json_t *root = ask_for_parts(c, build_id, e);
	if (!root)
		return e->code == ERR_BAD_REQUEST ? ERR_OK : e->code; /* an older server knows no build ids */
	const json_t *claims = json_object_get(root, "claims");
	*claimed = false;
	for (size_t i = 0; i < json_array_size(claims); i++) {
		const char *id = json_string_value(json_array_get(claims, i));
		*claimed = *claimed || (id && strcmp(id, hex) == 0);
	}
	json_decref(root);
	return ERR_OK;
}

/* there: one for each part, ranges first. If all are there but the build id does not lead to them, the last part is
 * sent again, with the build id. */
static enum err ask_what_is_there(struct server_connection *c, const struct cut *cut, bool *there, struct error *e)
{
	char id[FILE_ID_BASE64 + 1];
	size_t count = 0, missing = 0;
	file_id_base64(id, &cut->id);
	json_t *root = ask_for_parts(c, id, e);
	if (!root)
		return e->code;
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++) {
		mark_kind(cut, i, root, there + count);
		count += cut->kinds[i].count;
	}
	json_decref(root);
	for (size_t i = 0; i < count; i++)
		missing += !there[i];
	bool claimed = true;
	enum err err = missing || !count ? ERR_OK : ask_for_claim(c, cut, &claimed, e);
	if (!err && !claimed)
		there[count - 1] = false;
	return err;
}

/* ---- sending ---- */

static enum err add_bytes(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return gzip_add(arg, data, len) ? ERR_OK : no_memory(e);
}

/* Compresses a part, into memory that the caller frees. */
static enum err compress_part(const struct spool *s, size_t part, uint8_t **out, size_t *len, struct error *e)
{
	struct gzip *g = gzip_new(s->parts[part].len);
	enum err err = g ? spool_read(s, part, add_bytes, g, e) : no_memory(e);
	if (!err && gzip_finish(g, out, len))
		err = no_memory(e);
	gzip_free(g);
	return err;
}

static void print_headers(struct buffer *out, const struct parts_upload *u, const struct part_job *job)
{
	const struct spool *s = &u->cut->kinds[job->kind];
	const struct ids *own = &u->cut->own;
	char id[FILE_ID_BASE64 + 1], build_id[BUILD_ID_HEX + 1];
	file_id_base64(id, &u->cut->id);
	build_id_hex(build_id, own->found_by.bytes, own->found_by.len);
	buffer_printf(out,
	        "Content-Type: application/octet-stream\nContent-Encoding: gzip\nFileID: %s\nFilePart: %u\nFileParts: "
	        "%zu\nFileSet: %s\nFileMore: %d\n%s%s",
	        id, job->part, s->count, s->set, !job->last, u->force ? "FileForce: 1\n" : "",
	        u->cut->stats.dynamic ? "FileSymbols: dynamic\n" : "");
	if (*build_id)
		buffer_printf(out, "BuildID: %s\nImageBase: 0x%" PRIx64 "\n", build_id, own->image_base);
	if (*u->cut->name && str_is_printable(str_from(u->cut->name)))
		buffer_printf(out, "FileName: %s\n", u->cut->name);
	if (u->cut->segments.count) {
		buffer_printf(out, "FileSegments: ");
		load_segments_print(out, &u->cut->segments);
		buffer_printf(out, "\n");
	}
	buffer_append(out, "", 1);
}

/* *len is the number of bytes sent. */
static enum err send_part(
        struct parts_upload *u, struct server_connection *c, const struct part_job *job, size_t *len, struct error *e)
{
	const struct spool *s = &u->cut->kinds[job->kind];
	char path[64];
	struct buffer headers, body;
	uint8_t *data = NULL;
	enum err err = compress_part(s, job->part, &data, len, e);
	if (err)
		return err;
	progress_resize(&u->progress, (int64_t)*len - (int64_t)s->parts[job->part].len);
	snprintf(path, sizeof path, "/api/symbols-%s", symbfile_kind_names[job->kind]);
	buffer_init(&headers, HEADERS_MAX);
	buffer_init(&body, REPLY_MAX);
	print_headers(&headers, u, job);
	struct server_request request = {.path = path,
	        .headers = (const char *)headers.data,
	        .data = data,
	        .len = *len,
	        .progress = &u->progress};
	err = headers.failed ? no_memory(e) : connection_send(c, &request, &body, e);
	buffer_release(&headers);
	buffer_release(&body);
	free(data);
	return err;
}

/* Reports the first failure, but not those that it causes. */
static void note_result(struct parts_upload *u, enum err err, const struct error *e, uint64_t bytes)
{
	pthread_mutex_lock(&u->lock);
	if (!err) {
		u->counts->sent++;
		u->counts->bytes += bytes;
	} else if (!u->err) {
		u->err = error_set(u->error, err, "%s", e->text);
		atomic_store(&u->server->cancel, true);
	}
	pthread_mutex_unlock(&u->lock);
}

static void *send_parts(void *arg)
{
	struct parts_upload *u = arg;
	struct error e;
	struct server_connection *c = connection_new(u->server);
	if (!c)
		note_result(u, no_memory(&e), &e, 0);
	for (unsigned i; c && !atomic_load(&u->server->cancel) && (i = atomic_fetch_add(&u->next, 1)) < u->count;) {
		const struct part_job *job = &u->jobs[i];
		size_t len = 0;
		enum err err = send_part(u, c, job, &len, &e);
		note_result(u, err, &e, len);
	}
	connection_free(c);
	return NULL;
}

void send_in_parallel(void *(*send)(void *arg), void *arg, size_t wanted)
{
	pthread_t threads[PARALLEL_MAX];
	size_t started = 0;
	while (started + 1 < wanted && started < PARALLEL_MAX &&
	        pthread_create(&threads[started], NULL, send, arg) == 0)
		started++;
	send(arg);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

/* The last part of each set that is to be sent stands at the end. Returns how many bytes they have. */
static uint64_t list_jobs(struct parts_upload *u, const bool *there)
{
	struct part_job last[SYMBFILE_KINDS];
	unsigned sets = 0;
	uint64_t bytes = 0;
	for (unsigned kind = 0; kind < SYMBFILE_KINDS; kind++) {
		const struct spool *s = &u->cut->kinds[kind];
		size_t end = s->count;
		while (end && there[end - 1])
			end--;
		for (unsigned part = 0; part < end; part++) {
			struct part_job job = {(enum symbfile_kind)kind, part, part + 1 == end};
			if (there[part])
				continue;
			*(job.last ? &last[sets++] : &u->jobs[u->others++]) = job;
			bytes += s->parts[part].len;
			u->count++;
		}
		u->counts->parts[kind] = (unsigned)s->count;
		u->counts->there += (unsigned)s->count;
		there += s->count;
	}
	u->counts->there -= u->count;
	memcpy(u->jobs + u->others, last, sets * sizeof *last);
	return bytes;
}

/* A set is complete with its last part, so that one comes when all others are there. */
static void send_all(struct parts_upload *u, unsigned parallel)
{
	unsigned all = u->count, others = u->others;
	u->count = others;
	if (others)
		send_in_parallel(send_parts, u, others < parallel ? others : parallel);
	atomic_store(&u->next, others);
	u->count = all;
	if (!u->err)
		send_in_parallel(send_parts, u, all - others < parallel ? all - others : parallel);
}

static enum err find_jobs(struct parts_upload *u, uint64_t *bytes, struct error *e)
{
	size_t all = u->cut->kinds[SYMBFILE_RANGES].count + u->cut->kinds[SYMBFILE_RETURNPADS].count;
	bool *there = calloc(all, sizeof *there);
	struct server_connection *c = connection_new(u->server);
	u->jobs = calloc(all, sizeof *u->jobs);
	enum err err = there && c && u->jobs ? ERR_OK : no_memory(e);
	if (!err && !u->force)
		err = ask_what_is_there(c, u->cut, there, e);
	if (!err)
		*bytes = list_jobs(u, there);
	connection_free(c);
	free(there);
	return err;
}

enum err upload_cut(struct server *s, const struct cut *c, const struct upload_options *o, struct upload_counts *counts,
        struct error *e)
{
	struct parts_upload u = {.server = s, .cut = c, .force = o->force, .counts = counts, .error = e};
	uint64_t bytes = 0;
	*counts = (struct upload_counts){0};
	atomic_store(&s->cancel, false);
	enum err err = find_jobs(&u, &bytes, e);
	if (!err && u.count) {
		pthread_mutex_init(&u.lock, NULL);
		progress_begin(&u.progress, o->label, "bytes", bytes);
		send_all(&u, o->parallel);
		progress_end(&u.progress);
		pthread_mutex_destroy(&u.lock);
		err = u.err;
	}
	free(u.jobs);
	return err;
}
