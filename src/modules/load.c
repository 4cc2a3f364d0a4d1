/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load: look once more in memcached, take the lease or leave it to who has it, ask the sources in order. The thread
 * that receives a symbol file's text also indexes it: when the text has arrived and is whole, there is the map, and
 * its pages are made of the text by whoever misses them.
 */
#include <config.h>

#include "modules/load.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "format/symmap.h"
#include "modules/load_symbfile.h"

enum { RETRY_PAUSE_MS = 150 };

/* The way of one file's text from the transfer into the map. */
struct intake {
	struct symmap *map;
	enum err err;
	struct error error;
	int64_t parse_time;
};

/* ---- memory ---- */

const char load_too_large[] = "it takes more memory than load_memory_max while it is loaded";

static void charge(void *cache, int64_t bytes)
{
	page_cache_charge(cache, bytes);
}

struct offmap_options load_options(const struct modules *m)
{
	const struct config *c = m->config;
	return (struct offmap_options){.raw_budget = c->cache_size / 4,
	        .codec = c->codec == CODEC_CHOICE_ZSTD ? CODEC_ZSTD : CODEC_LZ4,
	        .memory_max = c->load_memory_max,
	        .charge = charge,
	        .charge_arg = m->cache};
}

/* ---- the text arrives ---- */

static uint8_t *intake_space(void *arg, size_t *room)
{
	struct intake *in = arg;
	uint8_t *data = symmap_space(in->map, room);
	if (!data)
		in->err = ERR_NO_MEMORY;
	return data;
}

static bool intake_commit(void *arg, size_t n)
{
	struct intake *in = arg;
	int64_t start = clock_now();
	in->err = symmap_commit(in->map, n, &in->error);
	in->parse_time += clock_now() - start;
	return in->err == ERR_OK;
}

/* The map, if the text was whole. */
static struct offmap *intake_finish(struct intake *in, bool whole)
{
	int64_t start = clock_now();
	if (whole && !in->err)
		in->err = symmap_finish(in->map, &in->error);
	in->parse_time += clock_now() - start;
	return whole && !in->err ? symmap_map(in->map) : NULL;
}

/* ---- sources ---- */

static void log_failure(
        const struct loader *r, const struct load *l, unsigned source, const char *what, const char *text)
{
	log_event(LOG_LEVEL_WARNING, what, "%s/%s from %s: %s", l->name, l->id,
	        bucket_source_name(r->modules->sources, source), text);
}

static void count_transfer(struct load *l, const struct bucket_result *t, bool good)
{
	histogram_observe(H_DOWNLOAD, t->elapsed);
	metric_add(M_DOWNLOAD_BYTES_WIRE, (int64_t)t->wire_bytes);
	metric_add(M_DOWNLOAD_BYTES_TEXT, (int64_t)t->text_bytes);
	if (good) {
		l->download_bytes += t->text_bytes;
		l->download_time += t->elapsed;
	} else {
		l->fail_time += t->elapsed;
	}
}

/* The outcome of one transfer. FAILURE_NONE: l->module is there. */
static enum failure_class take_result(struct loader *r, struct load *l, unsigned source, const struct bucket_result *t,
        struct intake *in, struct offmap *map)
{
	if (t->outcome == BUCKET_MISSING) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		return FAILURE_MISSING;
	}
	if (t->outcome == BUCKET_TOO_LARGE || t->outcome == BUCKET_BROKEN || in->err == ERR_CORRUPT ||
	        in->err == ERR_TOO_LARGE) {
		metric_add(M_DOWNLOADS_CORRUPT, 1);
		const char *why = in->err == ERR_TOO_LARGE ? load_too_large : in->err ? in->error.text : t->text;
		failure_why(l->why, why);
		log_failure(r, l, source, "corrupt", why);
		return FAILURE_CORRUPT;
	}
	if (t->outcome != BUCKET_OK || !map) {
		metric_add(M_DOWNLOADS_FAILED, 1);
		log_failure(r, l, source, "download failed",
		        in->err || t->outcome == BUCKET_OK ? "out of memory" : t->text);
		return FAILURE_TEMPORARY;
	}
	metric_add(M_DOWNLOADS_OK, 1);
	map->marker = l->marker;
	l->module = module_new(&l->hash, map);
	if (!l->module)
		return FAILURE_TEMPORARY;
	symmap_ref(in->map);
	symmap_ref(in->map);
	l->text = l->module->text = in->map;
	return FAILURE_NONE;
}

/* One transfer of one spelling from one source. */
static enum failure_class transfer(struct loader *r, struct load *l, unsigned source, const char *id)
{
	struct offmap_options options = load_options(r->modules);
	options.nearest = r->modules->config->lookup == LOOKUP_NEAREST;
	struct intake in = {
	        .map = symmap_new(&options, r->modules->blocks, &r->modules->texts, (struct str){l->id, l->id_len})};
	struct bucket_result t = {.outcome = BUCKET_FAILED};
	if (!in.map)
		return FAILURE_TEMPORARY;
	struct bucket_sink sink = {intake_space, intake_commit, &in};
	bucket_fetch(r->bucket, source, (struct str){l->name, l->name_len}, (struct str){id, l->id_len}, &sink,
	        &r->modules->cancel, &t);
	struct offmap *map = intake_finish(&in, t.outcome == BUCKET_OK);
	if (t.delivered)
		histogram_observe(H_PARSE, in.parse_time);
	enum failure_class class = take_result(r, l, source, &t, &in, map);
	count_transfer(l, &t, class == FAILURE_NONE);
	*(class == FAILURE_NONE ? &l->parse_time : &l->parse_fail_time) += in.parse_time;
	symmap_unref(in.map);
	return class;
}

/* With further tries while the failure is temporary. */
static enum failure_class try_source(struct loader *r, struct load *l, unsigned source, const char *id)
{
	enum failure_class class = transfer(r, l, source, id);
	for (uint64_t i = 0; i < r->modules->config->bucket_retries && class == FAILURE_TEMPORARY &&
	                     !atomic_load(&r->modules->cancel);
	        i++) {
		struct timespec pause = {0, (long)(RETRY_PAUSE_MS * MS + (int64_t)(random_u64() % 100) * MS)};
		nanosleep(&pause, NULL);
		class = transfer(r, l, source, id);
	}
	return class;
}

/* All sources in order, each with the id as it was asked and, where that is missing, in upper case. The first that has
 * the file wins. */
static void ask_sources(struct loader *r, struct load *l)
{
	char upper[1025];
	bool failed = false;
	size_t n = l->id_len < sizeof upper ? l->id_len : sizeof upper - 1;
	for (size_t i = 0; i < n; i++)
		upper[i] = (char)(l->id[i] >= 'a' && l->id[i] <= 'z' ? l->id[i] - 'a' + 'A' : l->id[i]);
	upper[n] = 0;
	l->failure = FAILURE_MISSING;
	for (unsigned i = 0; i < bucket_sources_count(r->modules->sources); i++) {
		enum failure_class class = try_source(r, l, i, l->id);
		if (class == FAILURE_MISSING && memcmp(upper, l->id, n) != 0)
			class = try_source(r, l, i, upper);
		if (class == FAILURE_NONE || class == FAILURE_CORRUPT) {
			l->failure = class;
			return;
		}
		failed = failed || class == FAILURE_TEMPORARY;
	}
	if (failed)
		l->failure = FAILURE_TEMPORARY;
}

/* ---- the lease ---- */

/* A root that another host has stored meanwhile; `believe` that its pages are there. Also reads the marker. */
static bool find_root(struct loader *r, struct load *l, bool believe, bool *reached)
{
	struct root_get g = {.hash = &l->hash, .want_root = true};
	l->marker_seen = clock_now();
	page_memcached_roots(r->memcached, &g, 1, INT64_MAX);
	l->marker = g.marker;
	*reached = g.reached;
	if (!g.map || !believe) {
		offmap_free(g.map);
		return false;
	}
	l->module = module_new(&l->hash, g.map);
	if (l->module)
		atomic_store(&l->module->stored, true);
	return l->module != NULL;
}

static void hold_lease(struct modules *m, struct load *l)
{
	pthread_mutex_lock(&m->lock);
	l->lease_next = m->leases;
	l->lease_link = &m->leases;
	if (l->lease_next)
		l->lease_next->lease_link = &l->lease_next;
	m->leases = l;
	pthread_mutex_unlock(&m->lock);
	l->leased = true;
}

/* Takes the lease. LOAD_ELSEWHERE: another host has it, and its map is waited for; but not for ever. Without memcached
 * everybody loads. */
static enum load_step ask_lease(struct loader *r, struct load *l)
{
	bool reached, waited = l->lease_until;
	if (find_root(r, l, !l->lost, &reached))
		return LOAD_DONE;
	if (!reached)
		return LOAD_HERE;
	l->token = random_u64();
	enum mc_status status = page_memcached_lease(r->memcached, &l->hash, l->token);
	if (status == MC_OK)
		hold_lease(r->modules, l);
	/* whose lease it was may just have written the lost page again */
	if (status == MC_OK && waited && find_root(r, l, true, &reached))
		return LOAD_DONE;
	if (status != MC_EXISTS || (waited && clock_now() >= l->lease_until))
		return LOAD_HERE;
	if (!waited) {
		l->lease_until = clock_now() + r->modules->config->bucket_total_timeout;
		metric_add(M_LEASE_WAITS, 1);
	}
	return LOAD_ELSEWHERE;
}

/* What has become of a load that another host had the lease of. */
static enum load_step look_again(struct loader *r, struct load *l)
{
	bool reached;
	if (find_root(r, l, !l->lost, &reached))
		return LOAD_DONE;
	bool leased = reached && page_memcached_lease_look(r->memcached, &l->hash) == MC_OK;
	return leased && clock_now() < l->lease_until ? LOAD_ELSEWHERE : LOAD_HERE;
}

enum load_step load_run(struct loader *r, struct load *l)
{
	enum load_step step = LOAD_HERE;
	l->marker_seen = clock_now();
	if (mc_enabled(r->modules->servers))
		step = l->transferring ? ask_lease(r, l) : look_again(r, l);
	if (step == LOAD_ELSEWHERE || (step == LOAD_HERE && !l->transferring))
		return step;
	if (step == LOAD_HERE) {
		metric_add(M_CACHE_ROOT_NONE, 1);
		if (l->kind == WANT_SYMBFILE)
			load_symbfile(r, l);
		else if (l->kind == WANT_ALIAS)
			load_alias(r, l);
		else
			ask_sources(r, l);
		metric_add(M_LOADS_TOTAL, l->module && !l->kept);
	}
	if (l->module) {
		l->failure = FAILURE_NONE;
		pthread_mutex_lock(&l->module->lock);
		l->module_bytes = l->module->bytes;
		pthread_mutex_unlock(&l->module->lock);
		atomic_store(&l->module->checked, l->marker_seen);
		atomic_fetch_add(&l->module->holds, 1); /* until it is finished */
		if (!l->kept)
			l->module->lost_at = l->lost ? clock_now() : 0;
		failures_forget(r->modules->failures, &l->hash);
	}
	return LOAD_DONE;
}
