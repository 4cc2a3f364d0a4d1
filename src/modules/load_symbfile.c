/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "modules/load.h"
#include "symbfile/map.h"
#include "symbfile/symbfile.h"
#include "uploads/alias.h"
#include "uploads/sets.h"

/* The parts of an executable on their way into one map. */
struct parts {
	struct symbfile_map *map;
	struct symbfile_reader *reader; /* of the current part */
	struct text_hash *hash;         /* over all parts in order; becomes the map's generation */
	enum err err;
	struct error error;
	uint64_t bytes;
	int64_t parse_time;
};

static bool add_to_part(void *arg, const uint8_t *data, size_t len)
{
	struct parts *p = arg;
	int64_t start = clock_now();
	p->bytes += len;
	text_hash_add(p->hash, data, len);
	p->err = symbfile_reader_feed(p->reader, data, len, &p->error);
	p->parse_time += clock_now() - start;
	return p->err == ERR_OK;
}

static bool parts_init(struct parts *p, struct load_context *context, struct load *l)
{
	const struct offmap_options options = load_options(context, l);
	*p = (struct parts){.map = symbfile_map_new(&options), .hash = text_hash_new()};
	return p->map && p->hash;
}

static void parts_release(struct parts *p)
{
	symbfile_map_free(p->map);
	text_hash_free(p->hash);
}

/* path: below the executable's folder. A part that is missing may be there again: the list of them named it. */
static enum outcome_class get_part(struct loader *r, struct load *l, struct parts *p, const char *path)
{
	char full[STORE_PATH_MAX];
	struct bucket_result result = {.outcome = BUCKET_FAILED};
	struct symbfile_sink records = symbfile_map_sink(p->map);
	p->reader = symbfile_reader_new(&records);
	if (!p->reader)
		return FAILURE_TEMPORARY;
	layout_below(full, &l->file_id, path);
	store_get(r->store, full, add_to_part, p, &r->context->stopping, &result);
	if (result.outcome == BUCKET_OK)
		p->err = symbfile_reader_finish(p->reader, &p->error);
	else
		result.outcome = BUCKET_FAILED;
	symbfile_reader_free(p->reader);
	bool good = result.outcome == BUCKET_OK && !p->err;
	load_count(l, &result, 0, good);
	metric_add(M_DOWNLOADS_OK, good);
	return good ? OUTCOME_NONE : load_failed(r, l, "", full, &result, p->err, p->error.text);
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

static enum outcome_class finish_map(
        struct loader *r, struct load *l, struct parts *p, unsigned missing, uint64_t origin)
{
	struct offmap *map = NULL;
	int64_t start = clock_now();
	enum err err = symbfile_map_finish(p->map, &map);
	if (err)
		return load_failed(r, l, "", "uploads", &(struct bucket_result){.outcome = BUCKET_OK}, err, NULL);
	l->costs.parse_time += p->parse_time + clock_now() - start;
	histogram_observe(H_PARSE, l->costs.parse_time);
	metric_set(M_LAST_MAP_RAW_BYTES, (int64_t)map->raw_bytes);
	metric_add(M_SYMBFILE_PARTS_MISSING, missing);
	map->generation = text_hash_value(p->hash);
	map->text_bytes = p->bytes;
	map->damaged = missing;
	enum outcome_class class = load_take_map(l, map);
	if (l->module)
		l->module->origin = origin;
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

void load_symbfile(struct loader *r, struct load *l)
{
	struct symbfile_sets sets;
	struct parts parts;
	struct error e;
	l->outcome.class = FAILURE_TEMPORARY;
	if (!r->store)
		return;
	if (symbfile_sets_get(&sets, r->store, &l->file_id, &r->context->stopping, &e)) {
		log_event(LOG_LEVEL_WARNING, "download failed", "list of %s: %s", l->id, e.text);
		metric_add(M_DOWNLOADS_FAILED, 1);
		if (keep_cached(r, l, NULL))
			l->outcome.checked = clock_now(); /* it took its time to fail */
		return;
	}
	if (!sets.best[SYMBFILE_RANGES] && !sets.best[SYMBFILE_RETURNPADS]) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		l->outcome.class = FAILURE_MISSING;
	} else if (!keep_cached(r, l, &sets)) {
		if (parts_init(&parts, r->context, l))
			l->outcome.class = get_parts(r, l, &parts, &sets);
		if (l->outcome.class == OUTCOME_NONE)
			l->outcome.class = finish_map(r, l, &parts, symbfile_sets_missing(&sets), sets.hash);
		parts_release(&parts);
		load_end_need(l);
	}
	symbfile_sets_release(&sets);
}

void load_build_id(struct loader *r, struct load *l)
{
	struct symbfile_claims claims;
	struct error e;
	bool found = false;
	l->outcome.class = FAILURE_TEMPORARY;
	if (!r->store)
		return;
	enum err err = symbfile_claims_get(&claims, r->store, &l->question, &r->context->stopping, &e);
	if (!err)
		err = symbfile_alias_choose(&l->outcome.redirect, &found, &claims, r->store, &r->context->stopping, &e);
	if (err) {
		log_event(LOG_LEVEL_WARNING, "download failed", "executables with build id %s: %s", l->id, e.text);
		metric_add(M_DOWNLOADS_FAILED, 1);
		return;
	}
	if (claims.count > 1) {
		char hex[FILE_ID_HEX + 1];
		file_id_hex(hex, &l->outcome.redirect.id);
		log_event(LOG_LEVEL_WARNING, "build id claimed",
		        "%s%u executables claim build id %s; %s answers: its set is the best",
		        claims.count == ALIAS_CLAIMS ? "at least " : "", claims.count, l->id, hex);
	}
	metric_add(M_DOWNLOADS_MISSING, !found);
	l->outcome.class = found ? OUTCOME_REDIRECT : FAILURE_MISSING;
}
