/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/account.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "modules/intake.h"
#include "modules/load_elf.h"
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

struct load *load_new(struct load_means *means, const struct module_want *w)
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
	l->lease.hash = w->own.hash;
	l->spelling = w->own.spelling;
	l->kind = w->kind;
	l->file_id = w->file_id;
	l->question = w->question;
	l->lost = w->own.lost;
	l->since = clock_now();
	l->means = means;
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
	bool may_wait = atomic_compare_exchange_strong(&l->means->needy, &needy, l) || needy == l;
	int64_t now = clock_now();
	if (!l->room_until)
		l->room_until = now + ROOM_WAIT;
	l->no_room = !may_wait || now >= l->room_until || atomic_load(&l->means->stopping);
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
		atomic_fetch_add(&l->means->heavy, 1);
		if (l->large) /* others have had their turn */
			atomic_compare_exchange_strong(&l->means->needy, &needy, l);
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
	atomic_compare_exchange_strong(&l->means->needy, &needy, NULL);
	atomic_fetch_sub(&l->means->heavy, l->heavy);
	l->heavy = false;
	l->room_until = 0;
}

/* A load that has waited in vain although no other has much memory does not fit. */
enum failure_class load_lacks_memory(struct loader *r, struct load *l, const char *from)
{
	uint64_t most = r->means->config->load_memory_max;
	if (l->no_room && atomic_load(&r->means->heavy) > l->heavy) {
		log_event(LOG_LEVEL_INFO, "no room", "%s/%s: it is loaded when other loads have given memory back",
		        l->name, l->id);
		return FAILURE_TEMPORARY;
	}
	if (l->no_room && account_total() / 8 * 7 < most)
		most = account_total() / 8 * 7;
	l->no_room = false;
	metric_add(M_DOWNLOADS_TOO_LARGE, 1);
	snprintf(l->failure.why, sizeof l->failure.why, "it needs more than the %llu MB that one module may take here",
	        (unsigned long long)most >> 20);
	log_event(LOG_LEVEL_WARNING, "too large",
	        "%s/%s from %s: it needs more than %llu MB while it is loaded; memory is %llu MB, load_memory_max %llu "
	        "MB",
	        l->name, l->id, from, (unsigned long long)most >> 20,
	        (unsigned long long)r->means->config->memory >> 20,
	        (unsigned long long)r->means->config->load_memory_max >> 20);
	return FAILURE_TOO_LARGE;
}

static void charge(void *cache, int64_t bytes)
{
	page_cache_charge(cache, bytes);
}

struct offmap_options load_options(struct load_means *means, struct load *l)
{
	const struct config *c = means->config;
	return (struct offmap_options){.raw_budget = c->cache_size / 4,
	        .codec = c->codec == CODEC_CHOICE_ZSTD ? CODEC_ZSTD : CODEC_LZ4,
	        .memory_max = c->load_memory_max,
	        .charge = charge,
	        .charge_arg = means->cache,
	        .take = l ? take_memory : NULL,
	        .take_arg = l};
}

/* ---- sources ---- */

static void log_failure(
        const struct loader *r, const struct load *l, unsigned source, const char *what, const char *text)
{
	log_event(LOG_LEVEL_WARNING, what, "%s/%s from %s: %s", l->name, l->id,
	        bucket_source_name(r->means->sources, source), text);
}

static void count_transfer(struct load *l, const struct bucket_result *t, bool good)
{
	histogram_observe(H_DOWNLOAD, t->elapsed);
	metric_add(M_DOWNLOAD_BYTES_WIRE, (int64_t)t->wire_bytes);
	metric_add(M_DOWNLOAD_BYTES_TEXT, (int64_t)t->text_bytes);
	if (good) {
		l->costs.download_bytes += t->text_bytes;
		l->costs.download_time += t->elapsed;
	} else {
		l->costs.fail_time += t->elapsed;
	}
}

/* Turns the outcome of one transfer into a failure class. FAILURE_NONE: l->module is set. */
static enum failure_class take_result(struct loader *r, struct load *l, unsigned source, const struct bucket_result *t,
        struct intake *in, struct offmap *map)
{
	if (t->outcome == BUCKET_MISSING) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		return FAILURE_MISSING;
	}
	if (in->err == ERR_TOO_LARGE)
		return load_lacks_memory(r, l, bucket_source_name(r->means->sources, source));
	if (t->outcome == BUCKET_TOO_LARGE || t->outcome == BUCKET_BROKEN || in->err == ERR_CORRUPT) {
		metric_add(M_DOWNLOADS_CORRUPT, 1);
		const char *why = in->err ? in->error.text : t->text;
		failure_why(l->failure.why, why);
		log_failure(r, l, source, "corrupt", why);
		return t->outcome == BUCKET_TOO_LARGE ? FAILURE_TOO_LARGE : FAILURE_CORRUPT;
	}
	if (t->outcome != BUCKET_OK || !map) {
		metric_add(M_DOWNLOADS_FAILED, 1);
		log_failure(r, l, source, "download failed",
		        in->err || t->outcome == BUCKET_OK ? "out of memory" : t->text);
		return FAILURE_TEMPORARY;
	}
	metric_add(M_DOWNLOADS_OK, 1);
	map->marker = l->failure.marker;
	l->module = module_new(&l->lease.hash, map);
	if (!l->module)
		return FAILURE_TEMPORARY;
	symmap_ref(in->map);
	symmap_ref(in->map);
	l->text = l->module->text = in->map;
	return FAILURE_NONE;
}

static enum failure_class transfer(struct loader *r, struct load *l, unsigned source, const char *id)
{
	/* How the digits of a build id are spelled does not matter. */
	if (bucket_source_kind(r->means->sources, source) != BUCKET_SYMS)
		return id == l->id ? load_elf(r, l, source) : FAILURE_MISSING;
	struct offmap_options options = load_options(r->means, l);
	options.nearest = r->means->config->lookup == LOOKUP_NEAREST;
	struct symmap *text = symmap_new(&options, r->means->blocks, &r->means->texts, (struct str){l->id, l->id_len});
	if (!text)
		return FAILURE_TEMPORARY;
	struct intake in;
	intake_begin(&in, text, r->means->blocks, &r->means->readers);
	struct bucket_sink sink = intake_sink(&in);
	struct bucket_result t = {.outcome = BUCKET_FAILED};
	bucket_fetch(r->bucket, source, (struct bucket_object){{l->name, l->name_len}, {id, l->id_len}}, &sink,
	        &r->means->stopping, &t);
	struct offmap *map = intake_finish(&in, t.outcome == BUCKET_OK);
	if (t.delivered)
		histogram_observe(H_PARSE, in.parse_time);
	enum failure_class class = take_result(r, l, source, &t, &in, map);
	count_transfer(l, &t, class == FAILURE_NONE);
	*(class == FAILURE_NONE ? &l->costs.parse_time : &l->costs.parse_fail_time) += in.parse_time;
	struct str code_file, code_id;
	if (class == FAILURE_NONE && symmap_code(text, &code_file, &code_id))
		code_note((struct str){l->name, l->name_len}, (struct str){id, l->id_len}, code_file, code_id);
	symmap_unref(text);
	load_end_need(l);
	return class;
}

/* Retries while the failure is temporary. */
static enum failure_class try_source(struct loader *r, struct load *l, unsigned source, const char *id)
{
	enum failure_class class = transfer(r, l, source, id);
	for (uint64_t i = 0; i < r->means->config->bucket_retries && class == FAILURE_TEMPORARY && !l->no_room &&
	                     !atomic_load(&r->means->stopping);
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
	l->failure.class = FAILURE_MISSING;
	for (unsigned i = 0; i < bucket_sources_count(r->means->sources); i++) {
		enum failure_class class = try_source(r, l, i, l->id);
		if (class == FAILURE_MISSING && memcmp(upper, l->id, n) != 0)
			class = try_source(r, l, i, upper);
		if (class == FAILURE_NONE || class == FAILURE_CORRUPT || class == FAILURE_TOO_LARGE || l->no_room) {
			l->failure.class = class;
			return;
		}
		failed = failed || class == FAILURE_TEMPORARY;
	}
	if (failed)
		l->failure.class = FAILURE_TEMPORARY;
}
