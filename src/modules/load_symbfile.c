/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/load_symbfile.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "symbfile/map.h"
#include "symbfile/symbfile.h"
#include "uploads/alias.h"
#include "uploads/sets.h"

/* Passes the bytes of the parts into the map. */
struct intake {
	struct symbfile_map *map;
	struct symbfile_reader *reader; /* of the current part */
	struct text_hash *hash;         /* over all parts in order; becomes the map's generation */
	uint8_t *block;
	enum err err;
	struct error error;
	uint64_t bytes;
	int64_t parse_time;
};

static uint8_t *intake_space(void *arg, size_t *room)
{
	struct intake *in = arg;
	*room = BLOCK_SIZE;
	return in->block;
}

static bool intake_commit(void *arg, size_t n)
{
	struct intake *in = arg;
	int64_t start = clock_now();
	in->bytes += n;
	text_hash_add(in->hash, in->block, n);
	in->err = symbfile_reader_feed(in->reader, in->block, n, &in->error);
	in->parse_time += clock_now() - start;
	return in->err == ERR_OK;
}

static bool intake_init(struct intake *in, struct load_means *means, struct load *l)
{
	const struct offmap_options options = load_options(means, l);
	*in = (struct intake){
	        .map = symbfile_map_new(&options), .hash = text_hash_new(), .block = block_get(means->blocks)};
	return in->map && in->hash && in->block;
}

static void intake_release(struct intake *in, const struct load_means *means)
{
	symbfile_map_free(in->map);
	text_hash_free(in->hash);
	block_put(means->blocks, in->block);
}

static void log_part(const struct load *l, const char *path, const char *what, const char *text)
{
	log_event(LOG_LEVEL_WARNING, what, "%s of %s: %s", path, l->id, text);
}

/* path: below the executable's folder. */
static enum failure_class get_part(struct loader *r, struct load *l, struct intake *in, const char *path)
{
	char full[STORE_PATH_MAX];
	struct bucket_sink sink = {intake_space, intake_commit, in};
	struct bucket_result result = {.outcome = BUCKET_FAILED};
	struct symbfile_sink records = symbfile_map_sink(in->map);
	in->reader = symbfile_reader_new(&records);
	if (!in->reader)
		return FAILURE_TEMPORARY;
	layout_below(full, &l->file_id, path);
	store_get(r->store, full, &sink, &r->means->stopping, &result);
	if (result.outcome == BUCKET_OK)
		in->err = symbfile_reader_finish(in->reader, &in->error);
	symbfile_reader_free(in->reader);
	histogram_observe(H_DOWNLOAD, result.elapsed);
	metric_add(M_DOWNLOAD_BYTES_WIRE, (int64_t)result.wire_bytes);
	metric_add(M_DOWNLOAD_BYTES_TEXT, (int64_t)result.text_bytes);
	l->costs.download_time += result.elapsed;
	if (in->err == ERR_TOO_LARGE)
		return load_lacks_memory(r, l, "uploads");
	if (in->err == ERR_CORRUPT) {
		metric_add(M_DOWNLOADS_CORRUPT, 1);
		failure_why(l->failure.why, in->error.text);
		log_part(l, path, "corrupt", in->error.text);
		return FAILURE_CORRUPT;
	}
	if (result.outcome != BUCKET_OK || in->err) {
		metric_add(M_DOWNLOADS_FAILED, 1);
		log_part(l, path, "download failed", result.outcome == BUCKET_OK ? "out of memory" : result.text);
		return FAILURE_TEMPORARY;
	}
	metric_add(M_DOWNLOADS_OK, 1);
	return FAILURE_NONE;
}

static enum failure_class get_parts(
        struct loader *r, struct load *l, struct intake *in, const struct symbfile_sets *sets)
{
	enum failure_class class = FAILURE_NONE;
	for (unsigned kind = 0; kind < SYMBFILE_KINDS; kind++) {
		const struct symbfile_set *set = sets->best[kind];
		for (unsigned i = 0; set && i < set->have_count && class == FAILURE_NONE; i++)
			class = get_part(r, l, in, set->have[i].path);
	}
	return class;
}

static enum failure_class finish_map(
        struct loader *r, struct load *l, struct intake *in, unsigned missing, uint64_t origin)
{
	struct offmap *map = NULL;
	int64_t start = clock_now();
	enum err err = symbfile_map_finish(in->map, &map);
	if (err)
		return err == ERR_TOO_LARGE ? load_lacks_memory(r, l, "uploads") : FAILURE_TEMPORARY;
	l->costs.parse_time = in->parse_time + clock_now() - start;
	l->costs.download_bytes = in->bytes;
	histogram_observe(H_PARSE, l->costs.parse_time);
	metric_set(M_LAST_MAP_RAW_BYTES, (int64_t)map->raw_bytes);
	metric_add(M_SYMBFILE_PARTS_MISSING, missing);
	map->generation = text_hash_value(in->hash);
	map->text_bytes = in->bytes;
	map->damaged = missing;
	map->marker = l->failure.marker;
	l->module = module_new(&l->lease.hash, map);
	if (l->module)
		l->module->origin = origin;
	return l->module ? FAILURE_NONE : FAILURE_TEMPORARY;
}

/* Keeps the cached module if the store still has the same sets, or cannot be asked (sets NULL). Only without memcached:
 * with it, markers announce uploads. */
static bool keep_cached(struct loader *r, struct load *l, const struct symbfile_sets *sets)
{
	struct module *module = mc_enabled(r->means->servers) ? NULL : page_cache_get(r->means->cache, &l->lease.hash);
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
	struct intake in;
	struct error e;
	l->failure.class = FAILURE_TEMPORARY;
	if (!r->store)
		return;
	if (symbfile_sets_get(&sets, r->store, &l->file_id, &r->means->stopping, &e)) {
		log_event(LOG_LEVEL_WARNING, "download failed", "list of %s: %s", l->id, e.text);
		metric_add(M_DOWNLOADS_FAILED, 1);
		if (keep_cached(r, l, NULL))
			l->failure.checked = clock_now(); /* it took its time to fail */
		return;
	}
	if (!sets.best[SYMBFILE_RANGES] && !sets.best[SYMBFILE_RETURNPADS]) {
		metric_add(M_DOWNLOADS_MISSING, 1);
		l->failure.class = FAILURE_MISSING;
	} else if (!keep_cached(r, l, &sets)) {
		if (intake_init(&in, r->means, l))
			l->failure.class = get_parts(r, l, &in, &sets);
		if (l->failure.class == FAILURE_NONE)
			l->failure.class = finish_map(r, l, &in, symbfile_sets_missing(&sets), sets.hash);
		intake_release(&in, r->means);
		load_end_need(l);
	}
	symbfile_sets_release(&sets);
}

void load_alias(struct loader *r, struct load *l)
{
	struct symbfile_claims claims;
	struct error e;
	bool found = false;
	l->failure.class = FAILURE_TEMPORARY;
	if (!r->store)
		return;
	enum err err = symbfile_claims_get(&claims, r->store, &l->question, &r->means->stopping, &e);
	if (!err)
		err = symbfile_alias_choose(&l->failure.alias, &found, &claims, r->store, &r->means->stopping, &e);
	if (err) {
		log_event(LOG_LEVEL_WARNING, "download failed", "executables with build id %s: %s", l->id, e.text);
		metric_add(M_DOWNLOADS_FAILED, 1);
		return;
	}
	if (claims.count > 1) {
		char hex[FILE_ID_HEX + 1];
		file_id_hex(hex, &l->failure.alias.id);
		log_event(LOG_LEVEL_WARNING, "build id claimed",
		        "%s%u executables claim build id %s; %s answers, whose set is the best",
		        claims.count == ALIAS_CLAIMS ? "at least " : "", claims.count, l->id, hex);
	}
	metric_add(M_DOWNLOADS_MISSING, !found);
	l->failure.class = found ? FAILURE_ALIAS : FAILURE_MISSING;
}
