/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/join.h"

#include <stdlib.h>
#include <string.h>

#include "extract/functions.h"

enum { WAITING_MAX = 32 << 20 }; /* bytes */

enum err join_init(
        struct join *j, size_t units, struct coverage *coverage, const struct symbfile_sink *sink, struct error *e)
{
	*j = (struct join){.sink = sink, .coverage = coverage, .count = units};
	j->results = calloc(units + 1, sizeof *j->results);
	if (!j->results)
		return no_memory(e);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->moved, NULL);
	return ERR_OK;
}

void join_release(struct join *j)
{
	if (!j->results)
		return;
	for (size_t i = 0; i < j->count; i++)
		result_free(j->results[i]);
	free(j->results);
	line_table_release(&j->lines);
	pthread_mutex_destroy(&j->lock);
	pthread_cond_destroy(&j->moved);
	*j = (struct join){0};
}

bool join_wait(struct join *j, size_t unit)
{
	pthread_mutex_lock(&j->lock);
	while (!j->err && j->waiting > WAITING_MAX && unit != j->next)
		pthread_cond_wait(&j->moved, &j->lock);
	bool go_on = !j->err;
	pthread_mutex_unlock(&j->lock);
	return go_on;
}

void join_fail(struct join *j, enum err err, const struct error *error)
{
	pthread_mutex_lock(&j->lock);
	if (!j->err) {
		j->err = err;
		j->error = *error;
	}
	pthread_cond_broadcast(&j->moved);
	pthread_mutex_unlock(&j->lock);
}

/* The name by the symbols of a function that has none in the debug data. */
static enum err find_name(struct join *j, uint64_t address, struct str *name, struct error *e)
{
	return name->len == 0 && j->name ? j->name(j->name_arg, address, name, e) : ERR_OK;
}

/* Lines from limit on belong to other code. */
static enum err emit_range(struct join *j, const struct symbfile_range *range, uint64_t limit, struct error *e)
{
	struct symbfile_range r = *range;
	if (r.va >= limit)
		return ERR_OK;
	if (r.length > limit - r.va)
		r.length = limit - r.va;
	while (r.line_count > 0 && r.lines[r.line_count - 1].offset >= r.length)
		r.line_count--;
	j->ranges++;
	enum err err = r.depth == 0 ? find_name(j, r.va, &r.func, e) : ERR_OK;
	if (err)
		return err;
	return j->sink->range ? j->sink->range(j->sink->arg, &r, e) : ERR_OK;
}

static enum err emit_pad(struct join *j, const struct symbfile_pad *pad, uint64_t limit, struct error *e)
{
	struct symbfile_frame named[INLINE_DEPTH_MAX + 1];
	struct symbfile_pad p = *pad;
	enum err err = ERR_OK;
	if (p.va >= limit)
		return ERR_OK;
	if (p.count > 0 && p.count <= INLINE_DEPTH_MAX + 1 && p.frames[0].func.len == 0) {
		memcpy(named, p.frames, p.count * sizeof *named);
		err = find_name(j, p.va, &named[0].func, e);
		p.frames = named;
	}
	j->pads++;
	return !err && j->sink->pad ? j->sink->pad(j->sink->arg, &p, e) : err;
}

/* Hands on the part of the i-th piece of a result that is before limit. */
static enum err emit_piece(struct join *j, const struct result *r, size_t i, uint64_t limit, struct error *e)
{
	const struct result_piece *p = &r->pieces[i];
	bool last = i + 1 == r->piece_count;
	size_t range_end = last ? r->range_count : p[1].first_range;
	size_t pad_end = last ? r->pad_count : p[1].first_pad;
	enum err err = ERR_OK;
	for (size_t k = p->first_range; k < range_end && !err; k++)
		err = emit_range(j, &r->ranges[k], limit, e);
	for (size_t k = p->first_pad; k < pad_end && !err; k++)
		err = emit_pad(j, &r->pads[k], limit, e);
	return err;
}

enum err join_emit(struct join *j, const struct result *r, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < r->piece_count && !err; i++)
		err = emit_piece(j, r, i, r->pieces[i].end, e);
	return err;
}

enum err join_emit_new(struct join *j, const struct result *r, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < r->piece_count && !err; i++) {
		const struct result_piece *p = &r->pieces[i];
		uint64_t limit = coverage_take(j->coverage, p->start, p->end);
		if (limit > p->start)
			err = emit_piece(j, r, i, limit, e);
	}
	return err;
}

static enum err keep_lines(struct join *j, const struct result *r, struct error *e)
{
	for (size_t i = 0; i < r->line_count; i++) {
		const struct result_line *l = &r->lines[i];
		if (coverage_free(j->coverage, l->start, l->end) < l->end &&
		        !line_table_add(&j->lines, l->start, l->end, l->path, l->line))
			return no_memory(e);
	}
	return ERR_OK;
}

/* The lock is held, but not while records go to the sink. */
static void hand_on(struct join *j, struct result *r)
{
	struct error error = {0};
	j->results[j->next] = NULL;
	size_t size = result_size(r);
	pthread_mutex_unlock(&j->lock);
	enum err err = r->err;
	bool corrupt = err == ERR_CORRUPT, lost = r->piece_count == 0;
	struct error damage = r->error;
	if (!err || corrupt)
		err = join_emit_new(j, r, &error);
	else
		error = r->error;
	if (!err)
		err = keep_lines(j, r, &error);
	result_free(r);
	pthread_mutex_lock(&j->lock);
	if (corrupt && j->damaged++ == 0)
		j->damage = damage;
	j->lost += corrupt && lost;
	j->next++;
	j->waiting -= size;
	if (err && !j->err) {
		j->err = err;
		j->error = error;
	}
	pthread_cond_broadcast(&j->moved);
}

void join_add(struct join *j, size_t unit, struct result *r)
{
	pthread_mutex_lock(&j->lock);
	j->results[unit] = r;
	j->waiting += result_size(r);
	if (!j->busy) {
		j->busy = true;
		while (!j->err && j->next < j->count && j->results[j->next])
			hand_on(j, j->results[j->next]);
		j->busy = false;
	}
	pthread_mutex_unlock(&j->lock);
}
