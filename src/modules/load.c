/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "modules/arrival.h"
#include "symfiles/code_notes.h"

/* ---- loads ---- */

/* NUL-terminated; NULL if out of memory. */
static char *copy_text(struct str s)
{
	char *copy = malloc(s.len + 1);
	if (copy) {
		memcpy(copy, s.data, s.len);
		copy[s.len] = 0;
	}
	return copy;
}

struct load *load_new(struct load_context *context, const struct module_want *w)
{
	struct load *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	metric_add(M_LOADS_IN_FLIGHT, 1);
	l->name = copy_text(w->name);
	l->id = copy_text(w->id);
	if (!l->name || !l->id) {
		load_free(l);
		return NULL;
	}
	l->name_len = w->name.len;
	l->id_len = w->id.len;
	l->hash = w->own.hash;
	l->spelling = w->own.spelling;
	l->kind = w->kind;
	l->file_id = w->file_id;
	l->question = w->question;
	l->lost = w->own.lost;
	l->since = clock_now();
	l->context = context;
	return l;
}

void load_free(struct load *l)
{
	metric_add(M_LOADS_IN_FLIGHT, -1);
	free(l->name);
	free(l->id);
	free(l);
}

/* ---- memory ---- */

/* The load cannot wait for ever: its source does not either. */
#define ROOM_WAIT (5 * SECOND)
enum { ROOM_POLL_MS = 10 };

/* Memory is full. One load may wait until others have ended; if a second one lacks memory too, that one gives its own
 * back, or both would wait for each other. */
static bool wait_for_room(struct load *l)
{
	struct load *needy = NULL;
	bool may_wait = atomic_compare_exchange_strong(&l->context->needy, &needy, l) || needy == l;
	int64_t now = clock_now();
	if (!l->room_until)
		l->room_until = now + ROOM_WAIT;
	l->no_room = !may_wait || now >= l->room_until || atomic_load(&l->context->stopping);
	if (!l->no_room)
		nanosleep(&(struct timespec){0, ROOM_POLL_MS * MS}, NULL);
	return !l->no_room;
}

/* A small load also takes what is left for small ones. */
static bool take_memory(void *arg, enum account_kind kind, uint64_t has, uint64_t bytes)
{
	struct load *l = arg, *needy = NULL;
	bool small = has + bytes <= load_small_bytes();
	if (!small && !l->heavy) {
		l->heavy = true;
		atomic_fetch_add(&l->context->heavy, 1);
		if (l->large) /* others have had their turn */
			atomic_compare_exchange_strong(&l->context->needy, &needy, l);
	}
	do
		if (small ? account_take_small(kind, bytes) : account_take(kind, bytes))
			return true;
	while (wait_for_room(l));
	return false;
}

void load_end_need(struct load *l)
{
	struct load *needy = l;
	atomic_compare_exchange_strong(&l->context->needy, &needy, NULL);
	atomic_fetch_sub(&l->context->heavy, l->heavy);
	l->heavy = false;
	l->room_until = 0;
}

static void charge(void *cache, int64_t bytes)
{
	page_cache_charge(cache, bytes);
}

struct offmap_options load_options(struct load_context *context, struct load *l)
{
	const struct config *c = context->config;
	return (struct offmap_options){.raw_budget = c->cache_size / 4,
	        .codec = c->codec == CODEC_CHOICE_ZSTD ? CODEC_ZSTD : CODEC_LZ4,
	        .memory_max = c->load_memory_max,
	        .charge = charge,
	        .charge_arg = context->cache,
	        .take = l ? take_memory : NULL,
	        .take_arg = l};
}

/* ---- what comes of a transfer ---- */

void load_count(struct load *l, const struct bucket_result *t, int64_t parse_time, bool good)
{
	struct load_costs *c = &l->costs;
	histogram_observe(H_DOWNLOAD, t->elapsed);
	metric_add(M_DOWNLOAD_BYTES_WIRE, (int64_t)t->wire_bytes);
	metric_add(M_DOWNLOAD_BYTES_TEXT, (int64_t)t->text_bytes);
	c->download_bytes += good ? t->text_bytes : 0;
	*(good ? &c->download_time : &c->fail_time) += t->elapsed;
	*(good ? &c->parse_time : &c->parse_fail_time) += parse_time;
}

enum outcome_class load_take_map(struct load *l, struct offmap *map)
{
	if (!map)
		return FAILURE_TEMPORARY;
	map->marker = l->outcome.marker;
	l->module = module_new(&l->hash, map);
	return l->module ? OUTCOME_NONE : FAILURE_TEMPORARY;
}

/* A load that has waited in vain although no other has much memory does not fit. */
static enum outcome_class lacks_memory(struct loader *r, struct load *l, const char *from)
{
	uint64_t most = r->context->config->load_memory_max;
	if (l->no_room && atomic_load(&r->context->heavy) > l->heavy) {
		log_event(LOG_LEVEL_INFO, "no room", "%s/%s waits until other loads have given memory back", l->name,
		        l->id);
		return FAILURE_TEMPORARY;
	}
	if (l->no_room && account_total() / 8 * 7 < most)
		most = account_total() / 8 * 7;
	l->no_room = false;
	metric_add(M_DOWNLOADS_TOO_LARGE, 1);
	snprintf(l->outcome.why, sizeof l->outcome.why, "it needs more than the %llu MB that one module may take here",
	        (unsigned long long)most >> 20);
	log_event(LOG_LEVEL_WARNING, "too large",
	        "%s/%s from %s needs more than %llu MB to load; memory is %llu MB, load_memory_max %llu "
	        "MB",
	        l->name, l->id, from, (unsigned long long)most >> 20,
	        (unsigned long long)r->context->config->memory >> 20,
	        (unsigned long long)r->context->config->load_memory_max >> 20);
	return FAILURE_TOO_LARGE;
}

enum outcome_class load_failed(struct loader *r, struct load *l, const char *what, const char *from,
        const struct bucket_result *t, enum err err, const char *why)
{
	bool corrupt = t->outcome == BUCKET_TOO_LARGE || t->outcome == BUCKET_BROKEN || err == ERR_CORRUPT;
	if (err == ERR_TOO_LARGE)
		return lacks_memory(r, l, from);
	if (t->outcome == BUCKET_MISSING) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		return FAILURE_MISSING;
	}
	const char *text = corrupt && err ? why : err || t->outcome == BUCKET_OK ? "out of memory" : t->text;
	metric_add(corrupt ? M_DOWNLOADS_CORRUPT : M_DOWNLOADS_FAILED, 1);
	log_event(LOG_LEVEL_WARNING, corrupt ? "corrupt" : "download failed", "%s%s/%s from %s: %s", what, l->name,
	        l->id, from, text);
	if (!corrupt)
		return FAILURE_TEMPORARY;
	failure_why(l->outcome.why, text);
	return t->outcome == BUCKET_TOO_LARGE ? FAILURE_TOO_LARGE : FAILURE_CORRUPT;
}

/* ---- sources ---- */

static enum outcome_class take_text(struct load *l, struct symmap *text, struct offmap *map)
{
	enum outcome_class class = load_take_map(l, map);
	metric_add(M_DOWNLOADS_OK, 1);
	if (l->module) {
		symmap_ref(text);
		symmap_ref(text);
		l->text = l->module->text = text;
	}
	return class;
}

static enum outcome_class transfer(struct loader *r, struct load *l, unsigned source, const char *id)
{
	/* How the digits of a build id are spelled does not matter. */
	if (bucket_source_kind(r->context->sources, source) != BUCKET_SYMS)
		return id == l->id ? load_elf(r, l, source) : FAILURE_MISSING;
	struct offmap_options options = load_options(r->context, l);
	options.nearest = r->context->config->lookup == LOOKUP_NEAREST;
	struct symmap *text =
	        symmap_new(&options, r->context->blocks, &r->context->texts, (struct str){l->id, l->id_len});
	if (!text)
		return FAILURE_TEMPORARY;
	struct arrival in;
	arrival_begin(&in, text, r->context->blocks, &r->context->readers);
	struct bucket_sink sink = arrival_sink(&in);
	struct bucket_result t = {.outcome = BUCKET_FAILED};
	bucket_fetch(r->bucket, source, (struct bucket_object){{l->name, l->name_len}, {id, l->id_len}}, &sink,
	        &r->context->stopping, &t);
	struct offmap *map = arrival_finish(&in, t.outcome == BUCKET_OK);
	if (t.delivered)
		histogram_observe(H_PARSE, in.parse_time);
	enum outcome_class class = t.outcome == BUCKET_OK && map
	                                   ? take_text(l, text, map)
	                                   : load_failed(r, l, "", bucket_source_name(r->context->sources, source), &t,
	                                             in.err, in.error.text);
	load_count(l, &t, in.parse_time, class == OUTCOME_NONE);
	struct str code_file, code_id;
	if (class == OUTCOME_NONE && symmap_code(text, &code_file, &code_id))
		code_note((struct str){l->name, l->name_len}, (struct str){id, l->id_len}, code_file, code_id);
	symmap_unref(text);
	load_end_need(l);
	return class;
}

/* Retries while the failure is temporary. */
static enum outcome_class try_source(struct loader *r, struct load *l, unsigned source, const char *id)
{
	enum outcome_class class = transfer(r, l, source, id);
	for (uint64_t i = 0; i < r->context->config->bucket_retries && class == FAILURE_TEMPORARY && !l->no_room &&
	                     !atomic_load(&r->context->stopping);
	        i++) {
		bucket_pause();
		class = transfer(r, l, source, id);
	}
	return class;
}

/* Asks each source for the id as requested and, if it is missing, in upper case. The first source that has the file
 * wins. */
void load_sym(struct loader *r, struct load *l)
{
	char upper[1025];
	bool failed = false;
	size_t n = l->id_len < sizeof upper ? l->id_len : sizeof upper - 1;
	for (size_t i = 0; i < n; i++)
		upper[i] = (char)(l->id[i] >= 'a' && l->id[i] <= 'z' ? l->id[i] - 'a' + 'A' : l->id[i]);
	upper[n] = 0;
	l->outcome.class = FAILURE_MISSING;
	for (unsigned i = 0; i < bucket_sources_count(r->context->sources); i++) {
		enum outcome_class class = try_source(r, l, i, l->id);
		if (class == FAILURE_MISSING && memcmp(upper, l->id, n) != 0)
			class = try_source(r, l, i, upper);
		if (class == OUTCOME_NONE || class == FAILURE_CORRUPT || class == FAILURE_TOO_LARGE || l->no_room) {
			l->outcome.class = class;
			return;
		}
		failed = failed || class == FAILURE_TEMPORARY;
	}
	if (failed)
		l->outcome.class = FAILURE_TEMPORARY;
}
