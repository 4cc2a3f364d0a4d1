/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load: look once more in memcached, take the lease or leave it to who has it, ask the sources in order, parse while
 * the text arrives. Text goes through large blocks: the transfer (and inflating) fills them, a second thread parses
 * them. A file that ends within the first block is parsed on the same thread.
 *
 * A large file is also scanned as it arrives, by a third thread, for the few functions that those who wait have asked
 * for: that is as fast as any network. They are answered when the file has arrived and is known to be whole, and the
 * map of all is finished behind their back; blocks that wait for that are the backlog.
 */
#include <config.h>

#include "modules/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/nice.h"
#include "base/random.h"
#include "format/breakpad.h"
#include "modules/load_symbfile.h"

enum {
	BLOCKS = 512,    /* of one load that may wait for the parser or the scanner */
	BLOCKS_FREE = 4, /* these whatever the backlog of others */
	SPARES = 16,
	HOLD_OFF_MS = 250,
	HOLD_OFF_BLOCKS = 160,
	SCAN_BYTES_MAX = 64 << 20, /* with more to keep all wait for the map */
	RETRY_PAUSE_MS = 150,
};

struct block {
	uint8_t *data;
	size_t len;
};

/* The way of one file's text from the transfer into the parser. */
struct pipeline {
	struct modules *modules;
	struct breakpad *parser;
	struct breakpad *scanner; /* of what was asked; NULL: nothing */
	struct block blocks[BLOCKS];
	struct block *open; /* being filled; the transfer's own */
	uint8_t *spares[SPARES];
	unsigned spare_count;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t filled, parsed, scanned; /* blocks so far; block n is blocks[n % BLOCKS] */
	bool ended;                       /* no more will be filled */
	bool threaded, scanning;          /* there are threads for it */
	pthread_t thread, scan_thread;
	enum err scan_err; /* the scanning thread's own */
	enum err err;      /* of the parser, which then takes no more */
	/* the parsing thread's own */
	struct error error;
	int64_t parse_time;
};

/* ---- memory ---- */

const char load_too_large[] = "its map takes more memory than load_memory_max while it is built";

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

/* ---- the pipeline ---- */

/* Parses a block, on whichever thread does that. */
static enum err parse_block(struct pipeline *p, const struct block *b)
{
	int64_t start = clock_now();
	enum err err = breakpad_feed(p->parser, b->data, b->len, &p->error);
	p->parse_time += clock_now() - start;
	return err;
}

/* The backlog of all loads has a bound, of which each load may have a little whatever the others have. A block waits
 * until the slower of parser and scanner is done with it. */
static bool is_far_behind(const struct pipeline *p)
{
	uint64_t done = p->scanning && p->scanned < p->parsed ? p->scanned : p->parsed;
	uint64_t waiting = p->filled - done, max = p->modules->config->cache_size / 8;
	if (max > BACKLOG_MAX)
		max = BACKLOG_MAX;
	return waiting == BLOCKS || (waiting >= BLOCKS_FREE && block_pool_used(p->modules->blocks) >= max);
}

/* Block n has been parsed or scanned. When both are done with it, it goes. Under p->lock. */
static void leave_block(struct pipeline *p, uint64_t n)
{
	struct block *b = &p->blocks[n % BLOCKS];
	if (p->parsed <= n || (p->scanning && p->scanned <= n))
		return;
	block_put(p->modules->blocks, b->data);
	b->data = NULL;
	pthread_cond_broadcast(&p->changed);
}

/* The block that follows *done of them, or NULL at the end. */
static const struct block *next_block(struct pipeline *p, const uint64_t *done)
{
	pthread_mutex_lock(&p->lock);
	while (*done == p->filled && !p->ended)
		pthread_cond_wait(&p->changed, &p->lock);
	const struct block *b = *done == p->filled ? NULL : &p->blocks[*done % BLOCKS];
	pthread_mutex_unlock(&p->lock);
	return b;
}

/* A transfer that is fast has the processors to itself: the parser begins when the text has arrived, when much of it
 * waits, or after a while. */
static void hold_off(struct pipeline *p)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += HOLD_OFF_MS * MS;
	until.tv_sec += until.tv_nsec / SECOND;
	until.tv_nsec %= SECOND;
	pthread_mutex_lock(&p->lock);
	while (!p->ended && p->filled - p->parsed < HOLD_OFF_BLOCKS &&
	        pthread_cond_timedwait(&p->changed, &p->lock, &until) != ETIMEDOUT)
		continue;
	pthread_mutex_unlock(&p->lock);
}

static void *parser_main(void *arg)
{
	struct pipeline *p = arg;
	enum err err = ERR_OK;
	if (p->scanning) { /* those who wait are answered from the scan */
		give_way(NICE_BUILDING);
		hold_off(p);
	}
	/* Two threads together take more processor time than one: not while the transfer needs it. */
	bool two_threads = !p->scanning || cores_count() > 2;
	for (const struct block *b; (b = next_block(p, &p->parsed));) {
		if (two_threads)
			breakpad_use_threads(p->parser);
		if (!err)
			err = parse_block(p, b);
		pthread_mutex_lock(&p->lock);
		two_threads = two_threads || p->ended;
		p->err = err;
		p->parsed++;
		leave_block(p, p->parsed - 1);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

/* Fresh memory costs the transfer's thread more than what it puts there; this one has time left. */
static void prepare_block(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	bool wanted = p->spare_count < SPARES && !p->ended && !is_far_behind(p);
	pthread_mutex_unlock(&p->lock);
	uint8_t *data = wanted ? block_get(p->modules->blocks) : NULL;
	if (!data)
		return;
	pthread_mutex_lock(&p->lock);
	p->spares[p->spare_count++] = data;
	pthread_mutex_unlock(&p->lock);
}

static void *scanner_main(void *arg)
{
	struct pipeline *p = arg;
	for (const struct block *b; (b = next_block(p, &p->scanned));) {
		/* what is wrong with the text the parser will find out too, and says so */
		if (!p->scan_err)
			p->scan_err = breakpad_feed(p->scanner, b->data, b->len, NULL);
		if (p->scan_err) {
			breakpad_free(p->scanner);
			p->scanner = NULL;
		}
		pthread_mutex_lock(&p->lock);
		p->scanned++;
		leave_block(p, p->scanned - 1);
		pthread_mutex_unlock(&p->lock);
		prepare_block(p);
	}
	return NULL;
}

/* A free block to fill; waits while too many are not done with. NULL: the parser has given up. */
static struct block *open_block(struct pipeline *p)
{
	struct block *b = &p->blocks[p->filled % BLOCKS];
	pthread_mutex_lock(&p->lock);
	while (is_far_behind(p))
		pthread_cond_wait(&p->changed, &p->lock);
	enum err err = p->err;
	*b = (struct block){.data = !err && p->spare_count ? p->spares[--p->spare_count] : NULL};
	pthread_mutex_unlock(&p->lock);
	if (!err && !b->data)
		b->data = block_get(p->modules->blocks);
	return b->data ? b : NULL;
}

/* The text is longer than a block. */
static void start_threads(struct pipeline *p)
{
	p->scanning = p->scanner && pthread_create(&p->scan_thread, NULL, scanner_main, p) == 0;
	p->threaded = pthread_create(&p->thread, NULL, parser_main, p) == 0;
}

/* Hands the block being filled to the parser. */
static void hand_over(struct pipeline *p)
{
	struct block *b = p->open;
	p->open = NULL;
	if (p->filled == 0)
		start_threads(p);
	if (!p->threaded && !p->err)
		p->err = parse_block(p, b);
	pthread_mutex_lock(&p->lock);
	p->filled++;
	if (!p->threaded) {
		p->parsed++;
		leave_block(p, p->parsed - 1);
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static uint8_t *pipeline_space(void *arg, size_t *room)
{
	struct pipeline *p = arg;
	if (!p->open && !(p->open = open_block(p)))
		return NULL;
	*room = BLOCK_SIZE - p->open->len;
	return p->open->data + p->open->len;
}

static bool pipeline_commit(void *arg, size_t n)
{
	struct pipeline *p = arg;
	p->open->len += n;
	if (p->open->len == BLOCK_SIZE)
		hand_over(p);
	return true;
}

static bool pipeline_init(struct pipeline *p, struct modules *m, const struct load *l)
{
	const struct config *c = m->config;
	struct offmap_options options = load_options(m), few = options;
	options.nearest = few.nearest = c->lookup == LOOKUP_NEAREST;
	few.memory_max = SCAN_BYTES_MAX;
	struct str id = {l->id, l->id_len};
	*p = (struct pipeline){.modules = m, .parser = breakpad_new(&options, id)};
	if (l->asked_count && (p->scanner = breakpad_new(&few, id)) &&
	        !breakpad_ask(p->scanner, l->asked, l->asked_count)) {
		breakpad_free(p->scanner);
		p->scanner = NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	init_condition(&p->changed);
	return p->parser != NULL;
}

/* The text ends here. */
static void pipeline_end(struct pipeline *p)
{
	if (p->filled && p->open && p->open->len)
		hand_over(p);
	pthread_mutex_lock(&p->lock);
	p->ended = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* What was scanned, as a map if the text was whole; NULL: nothing. */
static struct offmap *pipeline_scanned(struct pipeline *p, bool whole)
{
	struct offmap *map = NULL;
	if (p->scanning) {
		pthread_join(p->scan_thread, NULL);
		if (whole && !p->scan_err && breakpad_finish(p->scanner, &map, NULL) != ERR_OK)
			map = NULL;
	}
	breakpad_free(p->scanner);
	p->scanner = NULL;
	return map;
}

/* What is left is parsed, and the map made if the text was whole. */
static enum err pipeline_finish(struct pipeline *p, bool whole, struct offmap **map)
{
	*map = NULL;
	if (p->threaded)
		pthread_join(p->thread, NULL);
	else if (p->open && p->open->len && !p->err)
		p->err = parse_block(p, p->open);
	if (whole && !p->err) {
		int64_t start = clock_now();
		p->err = breakpad_finish(p->parser, map, &p->error);
		p->parse_time += clock_now() - start;
	}
	return p->err;
}

static void pipeline_release(struct pipeline *p)
{
	breakpad_free(p->parser);
	breakpad_free(p->scanner);
	for (unsigned i = 0; i < BLOCKS; i++)
		block_put(p->modules->blocks, p->blocks[i].data);
	while (p->spare_count)
		block_put(p->modules->blocks, p->spares[--p->spare_count]);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
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
        struct pipeline *p, struct offmap *map, enum err err)
{
	if (t->outcome == BUCKET_MISSING) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		return FAILURE_MISSING;
	}
	if (t->outcome == BUCKET_TOO_LARGE || t->outcome == BUCKET_BROKEN || err == ERR_CORRUPT ||
	        err == ERR_TOO_LARGE) {
		metric_add(M_DOWNLOADS_CORRUPT, 1);
		const char *why = err == ERR_TOO_LARGE ? load_too_large : err ? p->error.text : t->text;
		failure_why(l->why, why);
		log_failure(r, l, source, "corrupt", why);
		return FAILURE_CORRUPT;
	}
	if (t->outcome != BUCKET_OK || !map) {
		metric_add(M_DOWNLOADS_FAILED, 1);
		log_failure(r, l, source, "download failed", t->outcome == BUCKET_OK ? "out of memory" : t->text);
		return FAILURE_TEMPORARY;
	}
	metric_add(M_DOWNLOADS_OK, 1);
	metric_add(M_PARSE_DAMAGED_LINES, (int64_t)map->damaged);
	if (map->damaged)
		log_event(LOG_LEVEL_INFO, "damaged lines", "%s/%s: %llu lines skipped", l->name, l->id,
		        (unsigned long long)map->damaged);
	map->marker = l->marker;
	l->module = module_new(&l->hash, map);
	return l->module ? FAILURE_NONE : FAILURE_TEMPORARY;
}

static void answer_early(struct loader *r, struct load *l, struct offmap *map)
{
	if (!map)
		return;
	map->marker = l->marker;
	struct module *module = module_new(&l->hash, map);
	if (module)
		loads_tell_early(r->modules, l, module);
}

/* One transfer of one spelling from one source. */
static enum failure_class transfer(struct loader *r, struct load *l, unsigned source, const char *id)
{
	struct pipeline p;
	struct bucket_result t = {.outcome = BUCKET_FAILED};
	struct offmap *map = NULL;
	enum failure_class class = FAILURE_TEMPORARY;
	if (pipeline_init(&p, r->modules, l)) {
		struct bucket_sink sink = {pipeline_space, pipeline_commit, &p};
		bucket_fetch(r->bucket, source, (struct str){l->name, l->name_len}, (struct str){id, l->id_len}, &sink,
		        &r->modules->cancel, &t);
		pipeline_end(&p);
		if (t.outcome == BUCKET_OK)
			loads_transferred(r->modules, l);
		answer_early(r, l, pipeline_scanned(&p, t.outcome == BUCKET_OK));
		enum err err = pipeline_finish(&p, t.outcome == BUCKET_OK, &map);
		if (map)
			metric_set(M_LAST_MAP_RAW_BYTES, (int64_t)map->raw_bytes);
		if (t.delivered)
			histogram_observe(H_PARSE, p.parse_time);
		class = take_result(r, l, source, &t, &p, map, err);
		count_transfer(l, &t, class == FAILURE_NONE);
		*(class == FAILURE_NONE ? &l->parse_time : &l->parse_fail_time) += p.parse_time;
	}
	pipeline_release(&p);
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
		loads_gather_asked(r->modules, l);
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
		atomic_fetch_add(&l->module->holds, 1); /* until it is stored */
		if (!l->kept)
			l->module->lost_at = l->lost ? clock_now() : 0;
		failures_forget(r->modules->failures, &l->hash);
	}
	return LOAD_DONE;
}
