/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/load.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/process.h"
#include "modules/finish.h"
#include "objects/source_search.h"
#include "symbfile/map.h"
#include "symfiles/arrival.h"
#include "symfiles/code_notes.h"
#include "uploads/alias.h"
#include "uploads/sets.h"

/* What each thread that runs loads owns. */
struct loader {
	struct load_context *context;
	struct mc_client *memcached;
	struct bucket_client *bucket;
	struct store_client *store; /* NULL: none is configured */
};

/* One transfer: of a file from a source, or of one part of a set. */
struct attempt {
	const char *what, *from; /* name the file and where it is, for the log */
	struct bucket_result result;
	enum err err; /* of reading it, and why; why may be NULL */
	const char *why;
	int64_t parse_time; /* nanoseconds */
};

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
	if (may_wait)
		atomic_store(&l->context->needy_waits, !l->no_room);
	if (!l->no_room)
		nanosleep(&(struct timespec){0, ROOM_POLL_MS * MS}, NULL);
	return !l->no_room;
}

/* There was room. The next time it may wait as long again. */
static void end_wait(struct load *l)
{
	if (atomic_load(&l->context->needy) == l)
		atomic_store(&l->context->needy_waits, false);
	if (!l->no_room)
		l->room_until = 0;
}

/* A small load also takes what is left for small ones. */
static bool take_memory(void *arg, enum account_kind kind, uint64_t has, uint64_t bytes)
{
	struct load *l = arg, *needy = NULL;
	bool small = has + bytes <= load_small_bytes();
	if (!small && !l->heavy) {
		l->heavy = true;
		atomic_fetch_add(&l->context->heavy, 1);
		if (l->large) /* it gave way before, so now it may wait */
			atomic_compare_exchange_strong(&l->context->needy, &needy, l);
	}
	do
		if (small ? account_take_small(kind, bytes) : account_take(kind, bytes)) {
			end_wait(l);
			return true;
		}
	while (wait_for_room(l));
	return false;
}

/* It needs no more memory: another load may wait for some. */
static void end_need(struct load *l)
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
	return (struct offmap_options){.memory_max = c->load_memory_max,
	        .charge = charge,
	        .charge_arg = context->cache,
	        .take = l ? take_memory : NULL,
	        .take_arg = l};
}

/* ---- what comes of a transfer ---- */

/* Takes the map as the load's result, and what its pages are made from. */
static enum outcome_class take_map(struct load *l, struct offmap *map, struct symmap *text)
{
	map->marker = l->outcome.marker;
	l->module = module_new(&l->hash, map, LIFE_LOADED);
	if (!l->module) {
		symmap_unref(text);
		return FAILURE_TEMPORARY;
	}
	l->module->records = text;
	l->loaded = true;
	return OUTCOME_NONE;
}

/* What symbfiles say becomes a map. */
static enum err map_symbfiles(struct loader *r, const struct offmap_options *options, struct symbfile_map *from,
        struct symmap **text, struct offmap **map)
{
	struct records *records;
	struct error e;
	enum err err = symbfile_map_finish(from, &records);
	if (err)
		return err;
	if (!(*text = symmap_of(options, &r->context->idle_makers, records)))
		return ERR_NO_MEMORY;
	err = symmap_finish(*text, &e);
	if (!err && !(*map = symmap_map(*text)))
		err = ERR_NO_MEMORY;
	if (err)
		symmap_unref(*text);
	return err;
}

/* Pages that are made from the same symbfiles in another way must not mix with these in memcached: a new way is a new
 * number. */
static uint64_t symbfile_generation(uint64_t hash)
{
	enum { WAY = 4 };
	return hash + WAY;
}

/* A large load that has waited in vain although no other has much memory does not fit. A load that gave its memory
 * back to let another go on has not waited: it runs again. */
static enum outcome_class lacks_memory(struct loader *r, struct load *l, const char *from)
{
	uint64_t most = r->context->config->load_memory_max;
	if (l->no_room && (!l->heavy || clock_now() < l->room_until || atomic_load(&r->context->heavy) > l->heavy)) {
		log_event(
		        LOG_LEVEL_INFO, "no room", "%s/%s waits until memory is given back", l->name.data, l->id.data);
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
	        l->name.data, l->id.data, from, (unsigned long long)most >> 20,
	        (unsigned long long)r->context->config->memory >> 20,
	        (unsigned long long)r->context->config->load_memory_max >> 20);
	return FAILURE_TOO_LARGE;
}

/* It gave no map. Too large for other loads' sake: temporary, with no_room set. */
static enum outcome_class failed(struct loader *r, struct load *l, const struct attempt *t)
{
	enum bucket_outcome outcome = t->result.outcome;
	bool corrupt = outcome == BUCKET_TOO_LARGE || outcome == BUCKET_BROKEN || t->err == ERR_CORRUPT;
	if (atomic_load(&l->cancel))
		return FAILURE_TEMPORARY;
	if (t->err == ERR_TOO_LARGE)
		return lacks_memory(r, l, t->from);
	if (outcome == BUCKET_MISSING) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		return FAILURE_MISSING;
	}
	const char *text = corrupt && t->err                ? t->why
	                   : t->err || outcome == BUCKET_OK ? "out of memory"
	                                                    : t->result.text;
	metric_add(corrupt ? M_DOWNLOADS_CORRUPT : M_DOWNLOADS_FAILED, 1);
	log_event(LOG_LEVEL_WARNING, corrupt ? "corrupt" : "download failed", "%s%s/%s from %s: %s", t->what,
	        l->name.data, l->id.data, t->from, text);
	if (!corrupt)
		return FAILURE_TEMPORARY;
	failure_why(l->outcome.why, text);
	return outcome == BUCKET_TOO_LARGE ? FAILURE_TOO_LARGE : FAILURE_CORRUPT;
}

/* Counts what it took, for the metrics and the load's costs. OUTCOME_NONE: it is good. */
static enum outcome_class end_attempt(struct loader *r, struct load *l, const struct attempt *t, bool good)
{
	struct load_costs *c = &l->costs;
	histogram_observe(H_DOWNLOAD, t->result.elapsed);
	metric_add(M_DOWNLOAD_BYTES_WIRE, (int64_t)t->result.wire_bytes);
	metric_add(M_DOWNLOAD_BYTES_TEXT, (int64_t)t->result.text_bytes);
	metric_add(M_DOWNLOADS_OK, good);
	c->download_bytes += good ? t->result.text_bytes : 0;
	*(good ? &c->download_time : &c->fail_time) += t->result.elapsed;
	*(good ? &c->parse_time : &c->parse_fail_time) += t->parse_time;
	return good ? OUTCOME_NONE : failed(r, l, t);
}

/* ---- symbol files ---- */

static void note_damage(const struct load *l, uint64_t damaged)
{
	metric_add(M_PARSE_DAMAGED_LINES, (int64_t)damaged);
	if (damaged)
		log_event(LOG_LEVEL_INFO, "damaged lines", "%s/%s: %llu lines skipped", l->name.data, l->id.data,
		        (unsigned long long)damaged);
}

static enum outcome_class get_text(struct loader *r, struct load *l, unsigned source, struct bucket_object object)
{
	struct load_context *context = r->context;
	struct attempt t = {
	        .what = "", .from = bucket_source_name(context->sources, source), .result.outcome = BUCKET_FAILED};
	struct offmap_options options = load_options(context, l);
	options.nearest = context->config->lookup == LOOKUP_NEAREST;
	struct symmap *text = symmap_new(&options, &context->idle_makers, object.id);
	if (!text)
		return FAILURE_TEMPORARY;
	struct arrival in;
	arrival_begin(&in, text, context->blocks, &context->readers);
	struct bucket_sink sink = arrival_sink(&in);
	bucket_fetch(r->bucket, source, object, &sink, &context->stopping, &t.result);
	struct offmap *map = arrival_finish(&in, t.result.outcome == BUCKET_OK);
	if (t.result.text_bytes)
		histogram_observe(H_PARSE, in.parse_time);
	t.err = in.err;
	t.why = in.error.text;
	t.parse_time = in.parse_time;
	enum outcome_class class = end_attempt(r, l, &t, map != NULL);
	struct str code_file, code_id;
	if (!map) {
		symmap_unref(text);
		return class;
	}
	note_damage(l, map->damaged);
	if (symmap_code(text, &code_file, &code_id))
		code_note(object.name, object.id, code_file, code_id);
	return take_map(l, map, text);
}

/* ---- executables ---- */

/* A text may have told the whole build id, of which the module's id is a part. */
static struct build_id_question question_of(const struct load *l)
{
	struct build_id_question q = l->question;
	if (!q.whole.len && !build_id_question_parse(&q, l->id))
		q = (struct build_id_question){.has_first = false};
	return q;
}

static void log_lacking(const struct load *l, uint64_t units)
{
	if (units)
		log_event(LOG_LEVEL_INFO, "files missing",
		        "%s/%s: entries of %llu units are in .dwo, .dwp, dwz or PDB files that its source lacks",
		        l->name.data, l->id.data, (unsigned long long)units);
}

/* What the file's debug data say becomes a map. */
static enum outcome_class get_executable(struct loader *r, struct load *l, unsigned source)
{
	struct load_context *context = r->context;
	struct attempt t = {.what = "executable of ", .from = bucket_source_name(context->sources, source)};
	const struct offmap_options options = load_options(context, l);
	struct symbfile_map *records = symbfile_map_new(&options);
	struct offmap *map = NULL;
	struct symmap *text;
	struct elf_source_report report;
	if (!records)
		return FAILURE_TEMPORARY;
	const struct elf_taker taker = {.name = l->name,
	        .sink = symbfile_map_sink(records),
	        .take = options.take,
	        .take_arg = options.take_arg,
	        .client = l->client->key,
	        .cancel = &l->cancel};
	const struct build_id_question question = question_of(l);
	atomic_store(&l->fetches, true);
	if (atomic_load(&context->stopping))
		atomic_store(&l->cancel, true);
	elf_source_load(&context->elf, r->bucket, source, &question, &taker, &t.result, &report);
	atomic_store(&l->fetches, false);
	if (report.error.code == ERR_TOO_LARGE || report.error.code == ERR_NO_MEMORY)
		t.err = report.error.code;
	if (t.result.outcome == BUCKET_OK && !(t.err = map_symbfiles(r, &options, records, &text, &map))) {
		map->generation = symbfile_generation(report.hash);
		map->file = report.loaded;
		map->text_bytes = t.result.text_bytes;
		map->lacking = report.lacking;
		histogram_observe(H_PARSE, report.read_time);
		log_lacking(l, report.lacking);
	}
	t.parse_time = report.read_time;
	enum outcome_class class = end_attempt(r, l, &t, map != NULL);
	if (class == FAILURE_MISSING && report.error.code)
		failure_why(l->outcome.why, report.error.text);
	symbfile_map_free(records);
	return map ? take_map(l, map, text) : class;
}

/* ---- sources ---- */

struct module_search {
	struct loader *loader;
	struct load *load;
	struct str name;
	struct outcome corrupt; /* of the first file that was */
};

static enum source_answer ask(void *arg, unsigned source, struct str id)
{
	struct module_search *a = arg;
	struct load *l = a->load;
	const struct load_context *context = a->loader->context;
	const bool is_sym = bucket_source_kind(context->sources, source) == BUCKET_SYMS;
	const enum outcome_class class = is_sym ? get_text(a->loader, l, source, (struct bucket_object){a->name, id})
	                                        : get_executable(a->loader, l, source);
	end_need(l);
	if (class == OUTCOME_NONE || class == FAILURE_CORRUPT)
		outcomes_source(context->outcomes, source + 1, class == OUTCOME_NONE);
	l->outcome.class = class;
	switch (class) {
	case OUTCOME_NONE:
		l->module->map->origin = bucket_sources_digests(context->sources)[source];
		return SOURCE_GOOD;
	case FAILURE_MISSING:
		return SOURCE_MISSING;
	case FAILURE_CORRUPT:
		l->outcome.source = source + 1;
		if (a->corrupt.class == OUTCOME_NONE)
			a->corrupt = l->outcome;
		return SOURCE_CORRUPT;
	case FAILURE_TEMPORARY:
		return l->no_room ? SOURCE_STOP : SOURCE_FAILED;
	case FAILURE_TOO_LARGE:
	case OUTCOME_REDIRECT:
		break;
	}
	return SOURCE_STOP;
}

/* If no source has a good file, the first that has a corrupt one tells why, unless one may have a good file that cannot
 * be read now. */
static void search_sources(struct loader *r, struct load *l, struct bucket_object object, unsigned kinds)
{
	struct module_search a = {.loader = r, .load = l, .name = object.name, .corrupt = {.class = OUTCOME_NONE}};
	struct source_search search = {.kinds = kinds,
	        .id = object.id,
	        .tries = r->context->config->bucket_retries,
	        .cancel = &l->cancel,
	        .stopping = &r->context->stopping,
	        .ask = ask,
	        .arg = &a};
	l->outcome.class = FAILURE_TEMPORARY;
	const enum source_answer answer = source_search(r->context->sources, &search);
	l->passed = search.passed;
	if (answer == SOURCE_MISSING)
		l->outcome.class = FAILURE_MISSING;
	else if (answer == SOURCE_CORRUPT)
		l->outcome = a.corrupt;
	else if (answer == SOURCE_FAILED || (answer == SOURCE_STOP && atomic_load(&l->cancel)))
		l->outcome.class = FAILURE_TEMPORARY;
}

/* Name and id may be a code file and its code id: then it is the module whose symbol file says so. */
static void search_by_code(struct loader *r, struct load *l)
{
	struct code_module m;
	struct error e;
	enum err err = code_note_find(l->name, l->id, &m, &r->context->stopping, &e);
	if (!err)
		search_sources(r, l, (struct bucket_object){m.name, m.id}, 1U << BUCKET_SYMS);
	else if (err != ERR_MISSING)
		l->outcome.class = FAILURE_TEMPORARY;
}

static void load_sym(struct loader *r, struct load *l)
{
	enum { DEBUG_ID = 33 };
	search_sources(r, l, (struct bucket_object){l->name, l->id}, UINT_MAX);
	if (l->outcome.class == FAILURE_MISSING && l->id.len != DEBUG_ID)
		search_by_code(r, l);
}

/* ---- uploads ---- */

/* The parts of an executable on their way into one map. */
struct parts {
	struct offmap_options options;
	struct symbfile_map *map;
	struct text_hash *hash; /* over all parts in order; becomes the map's generation */
	uint64_t bytes;
	int64_t parse_time;
};

/* path: below the executable's folder. A part that is missing may be there again: the list of them named it. */
static enum outcome_class get_part(struct loader *r, struct load *l, struct parts *p, const char *path)
{
	char full[STORE_PATH_MAX];
	struct part_read part;
	const struct symbfile_sink records = symbfile_map_sink(p->map);
	layout_below(full, &l->file_id, path);
	symbfile_part_read(&part, r->store, full, &records, p->hash, &r->context->stopping);
	p->bytes += part.bytes;
	p->parse_time += part.read_time;
	bool whole = part.result.outcome == BUCKET_OK;
	part.result.outcome = whole ? BUCKET_OK : BUCKET_FAILED;
	const struct attempt t = {
	        .what = "", .from = full, .result = part.result, .err = part.error.code, .why = part.error.text};
	return end_attempt(r, l, &t, whole && !t.err);
}

static enum outcome_class get_parts(struct loader *r, struct load *l, struct parts *p, const struct symbfile_sets *sets)
{
	enum outcome_class class = OUTCOME_NONE;
	for (unsigned kind = 0; kind < SYMBFILE_KINDS; kind++) {
		const struct symbfile_set *set = sets->best[kind];
		for (unsigned i = 0; set && i < set->have_count && class == OUTCOME_NONE; i++)
			class = get_part(r, l, p, set->have[i].path);
	}
	return class;
}

static enum outcome_class finish_parts(
        struct loader *r, struct load *l, struct parts *p, const struct symbfile_sets *sets)
{
	struct offmap *map = NULL;
	struct symmap *text;
	int64_t start = clock_now();
	struct attempt t = {.what = "", .from = "uploads", .result.outcome = BUCKET_OK};
	if ((t.err = map_symbfiles(r, &p->options, p->map, &text, &map)))
		return failed(r, l, &t);
	l->costs.parse_time += p->parse_time + clock_now() - start;
	histogram_observe(H_PARSE, l->costs.parse_time);
	map->generation = symbfile_generation(text_hash_value(p->hash));
	map->text_bytes = p->bytes;
	enum outcome_class class = take_map(l, map, text);
	if (l->module)
		l->module->origin = sets->hash;
	return class;
}

/* The symbfiles become one map. */
static enum outcome_class get_sets(struct loader *r, struct load *l, const struct symbfile_sets *sets)
{
	struct parts p = {.options = load_options(r->context, l), .hash = text_hash_new()};
	p.map = symbfile_map_new(&p.options);
	enum outcome_class class = p.map && p.hash ? get_parts(r, l, &p, sets) : FAILURE_TEMPORARY;
	if (class == OUTCOME_NONE)
		class = finish_parts(r, l, &p, sets);
	symbfile_map_free(p.map);
	text_hash_free(p.hash);
	end_need(l);
	return class;
}

/* Keeps the cached module if the store still has the same sets, or cannot be asked (sets NULL). Only without memcached:
 * with it, markers announce uploads. */
static bool keep_cached(struct loader *r, struct load *l, const struct symbfile_sets *sets)
{
	struct module *module = mc_enabled(r->context->servers) ? NULL : page_cache_get(r->context->cache, &l->hash);
	if (module && sets && module->origin != sets->hash) {
		module_unref(module);
		module = NULL;
	}
	l->module = module;
	return l->kept = module != NULL;
}

/* Asks the store for what was uploaded for an executable. */
static void load_symbfile(struct loader *r, struct load *l)
{
	struct symbfile_sets sets;
	struct error e;
	if (symbfile_sets_get(&sets, r->store, &l->file_id, &r->context->stopping, &e)) {
		log_event(LOG_LEVEL_WARNING, "download failed", "list of %s: %s", l->id.data, e.text);
		metric_add(M_DOWNLOADS_FAILED, 1);
		if (keep_cached(r, l, NULL))
			l->outcome.checked = clock_now(); /* it took its time to fail */
		return;
	}
	if (!sets.best[SYMBFILE_RANGES] && !sets.best[SYMBFILE_RETURNPADS]) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		l->outcome.class = FAILURE_MISSING;
	} else if (!keep_cached(r, l, &sets)) {
		l->outcome.class = get_sets(r, l, &sets);
	}
	symbfile_sets_release(&sets);
}

/* Asks the store which executable has a build id: a redirect if one was uploaded. */
static void load_build_id(struct loader *r, struct load *l)
{
	struct symbfile_claims claims;
	struct error e;
	bool found = false;
	enum err err = symbfile_claims_get(&claims, r->store, &l->question, &r->context->stopping, &e);
	if (!err)
		err = symbfile_alias_choose(&l->outcome.redirect, &found, &claims, r->store, &r->context->stopping, &e);
	if (err) {
		log_event(LOG_LEVEL_WARNING, "download failed", "executables with build id %s: %s", l->id.data, e.text);
		metric_add(M_DOWNLOADS_FAILED, 1);
		return;
	}
	if (claims.count > 1) {
		char hex[FILE_ID_HEX + 1];
		file_id_hex(hex, &l->outcome.redirect.id);
		log_event(LOG_LEVEL_WARNING, "build id claimed",
		        "%s%u executables claim build id %s; %s answers: its set is the best",
		        claims.count == ALIAS_CLAIMS ? "at least " : "", claims.count, l->id.data, hex);
	}
	metric_add(M_DOWNLOADS_MISSING, !found);
	l->outcome.class = found ? OUTCOME_REDIRECT : FAILURE_MISSING;
}

/* ---- the lease ---- */

void load_origins(const struct load_context *context, enum want_kind kind, struct root_get *g)
{
	g->origins = bucket_sources_digests(context->sources);
	g->origin_count = kind == WANT_SYM ? bucket_sources_count(context->sources) : 0;
}

enum load_step {
	LOAD_DONE,      /* the outcome is known */
	LOAD_ELSEWHERE, /* another host has the lease: check again later */
	LOAD_HERE,      /* no other host is loading it: run it here, as a transfer */
};

/* Looks for a root that another host has stored meanwhile, and uses it if `believe` (trust that its pages are still
 * there), or if the map has become whole since a page was missed. Also reads the marker, and looks for a lease. */
static bool find_root(struct loader *r, struct load *l, bool believe, struct root_get *g)
{
	*g = (struct root_get){.hash = &l->hash, .want_root = true, .want_lease = true};
	load_origins(r->context, l->kind, g);
	l->outcome.checked = clock_now();
	page_memcached_roots(r->memcached, g, 1, INT64_MAX);
	l->outcome.marker = g->marker;
	bool made = g->map && l->lost == LOST_UNMADE && offmap_is_whole(g->map);
	if (!g->map || (!believe && !made)) {
		offmap_free(g->map);
		return false;
	}
	l->module = module_new(&l->hash, g->map, LIFE_STORED);
	return l->module != NULL;
}

/* Takes the lease. LOAD_ELSEWHERE: another host has it, and we wait for its map, though not for ever. If memcached does
 * not answer, every host loads. */
static enum load_step ask_lease(struct loads *ls, struct loader *r, struct load *l)
{
	struct root_get g;
	bool waited = l->lease.until;
	l->lease.token = random_u64();
	enum mc_status status = page_memcached_lease(r->memcached, &l->hash, l->lease.token);
	bool is_held = status == MC_OK;
	if (status == MC_DOWN)
		return LOAD_HERE;
	/* Looked for behind it: who had the lease until now has stored the module, lost page included. */
	bool found = find_root(r, l, !l->lost || (is_held && waited), &g);
	if (is_held)
		lease_hold(ls, l);
	if (found)
		return LOAD_DONE;
	if (status != MC_EXISTS || (waited && clock_now() >= l->lease.until))
		return LOAD_HERE;
	if (!waited) {
		l->lease.until = clock_now() + r->context->config->bucket_total_timeout;
		metric_add(M_LEASE_WAITS, 1);
	}
	return LOAD_ELSEWHERE;
}

/* Checks on a module that another host was loading. */
static enum load_step look_again(struct loader *r, struct load *l)
{
	struct root_get g;
	if (find_root(r, l, !l->lost, &g))
		return LOAD_DONE;
	return g.leased && clock_now() < l->lease.until ? LOAD_ELSEWHERE : LOAD_HERE;
}

/* ---- one load ---- */

/* Sets l->module, or l->outcome. */
static void load_from_sources(struct loader *r, struct load *l)
{
	metric_add(M_CACHE_ROOT_NONE, 1);
	l->outcome.class = FAILURE_TEMPORARY;
	if (l->kind == WANT_SYM)
		load_sym(r, l);
	else if (r->store && l->kind == WANT_SYMBFILE)
		load_symbfile(r, l);
	else if (r->store)
		load_build_id(r, l);
	metric_add(M_LOADS_TOTAL, l->module && !l->kept);
}

/* Another request may have put the module into the cache since the load was asked for. */
static bool take_cached(struct loader *r, struct load *l)
{
	struct module *module = l->lost ? NULL : page_cache_get(r->context->cache, &l->hash);
	if (!module || atomic_load(&module->checked) < l->since) {
		module_unref(module);
		return false;
	}
	l->module = module;
	l->kept = true;
	l->outcome.marker = module->map->marker;
	l->outcome.checked = atomic_load(&module->checked);
	return true;
}

static void take_module(struct loader *r, struct load *l)
{
	l->outcome.class = OUTCOME_NONE;
	atomic_store(&l->module->checked, l->outcome.checked);
	atomic_fetch_add(&l->module->holds, 1); /* until finish_load is done */
	if (!l->kept)
		l->module->lost_at = l->lost >= LOST_PAGE ? clock_now() : 0;
	if (l->loaded) {
		l->module->passed = l->passed;
		l->module->passed_at = l->outcome.checked;
		atomic_store(&l->module->shared,
		        !l->passed && (l->lost == LOST_UNMADE || (l->lease.held && l->lost < LOST_AGAIN)));
		snprintf(l->module->label, sizeof l->module->label, "%s%s%s", l->name.data, l->name.len ? "/" : "",
		        l->id.data);
	}
	outcomes_forget(r->context->outcomes, &l->hash);
}

/* Sets the outcome of l: from memcached if another host was faster, else from the sources. May take as long as the
 * timeouts allow. If l does not transfer, only checks on the other host. */
static enum load_step run_load(struct loads *ls, struct loader *r, struct load *l)
{
	enum load_step step = LOAD_HERE;
	struct root_get g;
	if (take_cached(r, l))
		step = LOAD_DONE;
	else if (l->lost == LOST_UNMADE) /* other hosts' loads do not help: each makes the pages that it needs */
		step = find_root(r, l, false, &g) ? LOAD_DONE : LOAD_HERE;
	else if (mc_enabled(r->context->servers))
		step = l->client ? ask_lease(ls, r, l) : look_again(r, l);
	if (step == LOAD_ELSEWHERE || (step == LOAD_HERE && !l->client))
		return step;
	if (step == LOAD_HERE)
		load_from_sources(r, l);
	if (l->no_room) { /* once more, when no other load has much memory */
		if (l->lease.held)
			lease_give_back(ls, l, r->memcached);
		l->outcome = (struct outcome){0};
		return LOAD_HERE;
	}
	if (l->module)
		take_module(r, l);
	return LOAD_DONE;
}

/* ---- threads ---- */

/* Opens the loader's clients. If memory runs out, tries again with the next load. */
static bool equip(struct loader *r)
{
	const struct load_context *context = r->context;
	if (!r->memcached)
		r->memcached = mc_client_new(context->servers);
	if (!r->bucket)
		r->bucket = bucket_client_new(context->sources);
	if (!r->store && context->store)
		r->store = store_client_take(context->store);
	return r->memcached && r->bucket && (r->store || !context->store);
}

static void *loader_main(void *arg);

/* Starts the next thread, if there may be one more: called by the last one only. */
static bool start_next(struct finishers *finishers, pthread_t *next)
{
	struct loads *ls = finishers->loads;
	if (ls->loaders == loaders_max(ls->context->config))
		return false;
	ls->loaders++;
	if (pthread_create(next, NULL, loader_main, finishers) == 0)
		return true;
	ls->loaders--; /* not touched if there is a next one, whose it is then */
	return false;
}

static void *loader_main(void *arg)
{
	struct finishers *finishers = arg;
	struct loads *ls = finishers->loads;
	struct loader r = {.context = ls->context};
	struct load *l;
	pthread_t next;
	bool followed = false;
	pthread_setname_np(pthread_self(), "loader");
	background_enter(false);
	while ((l = loads_take(ls))) {
		enum load_step step = LOAD_DONE;
		followed = followed || start_next(finishers, &next);
		l->outcome.checked = clock_now();
		if (equip(&r))
			step = run_load(ls, &r, l);
		else
			l->outcome.class = FAILURE_TEMPORARY;
		if (step == LOAD_DONE) {
			loads_publish(ls, l);
			finish_load(finishers, l, r.memcached);
		} else {
			loads_put_back(ls, l, step == LOAD_ELSEWHERE);
		}
	}
	mc_client_free(r.memcached);
	bucket_client_free(r.bucket);
	store_client_give(r.store);
	background_leave();
	if (followed)
		pthread_join(next, NULL);
	return NULL;
}

bool loaders_start(struct finishers *finishers)
{
	struct loads *ls = finishers->loads;
	return ls->started = start_next(finishers, &ls->first_loader);
}

void loaders_stop(struct finishers *finishers)
{
	struct loads *ls = finishers->loads;
	loads_cancel(ls);
	if (ls->started)
		pthread_join(ls->first_loader, NULL);
}
