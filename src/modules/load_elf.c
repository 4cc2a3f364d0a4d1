/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/load_elf.h"

#include "base/log.h"
#include "base/metrics.h"
#include "symbfile/map.h"

static void log_failure(
        const struct loader *r, const struct load *l, unsigned source, const char *what, const char *text)
{
	log_event(LOG_LEVEL_WARNING, what, "executable of %s/%s from %s: %s", l->name, l->id,
	        bucket_source_name(r->means->sources, source), text);
}

static void count(struct load *l, const struct bucket_result *t, bool good)
{
	metric_add(M_DOWNLOAD_BYTES_WIRE, (int64_t)t->wire_bytes);
	metric_add(M_DOWNLOAD_BYTES_TEXT, (int64_t)t->text_bytes);
	l->costs.download_bytes += good ? t->text_bytes : 0;
	*(good ? &l->costs.download_time : &l->costs.fail_time) += t->elapsed;
}

/* Of a file that was read whole. */
static enum failure_class take_map(
        struct load *l, struct symbfile_map *records, uint64_t generation, uint64_t bytes, enum err *err)
{
	struct offmap *map = NULL;
	*err = symbfile_map_finish(records, &map);
	if (*err)
		return FAILURE_TEMPORARY;
	map->generation = generation;
	map->text_bytes = bytes;
	map->marker = l->failure.marker;
	l->module = module_new(&l->lease.hash, map);
	return l->module ? FAILURE_NONE : FAILURE_TEMPORARY;
}

static enum failure_class fail(
        struct loader *r, struct load *l, unsigned source, const struct bucket_result *t, enum err err)
{
	if (err == ERR_TOO_LARGE)
		return load_lacks_memory(r, l, bucket_source_name(r->means->sources, source));
	switch (t->outcome) {
	case BUCKET_MISSING:
		metric_add(M_DOWNLOADS_MISSING, 1);
		return FAILURE_MISSING;
	case BUCKET_BROKEN:
	case BUCKET_TOO_LARGE:
		metric_add(M_DOWNLOADS_CORRUPT, 1);
		failure_why(l->failure.why, t->text);
		log_failure(r, l, source, "corrupt", t->text);
		return t->outcome == BUCKET_BROKEN ? FAILURE_CORRUPT : FAILURE_TOO_LARGE;
	default:
		metric_add(M_DOWNLOADS_FAILED, 1);
		log_failure(r, l, source, "download failed", err ? "out of memory" : t->text);
		return FAILURE_TEMPORARY;
	}
}

/* A text may have told the whole build id, of which the module's id is a part. */
static struct build_id_question question_of(const struct load *l)
{
	struct build_id_question q;
	if (l->question.whole.len > 0)
		return l->question;
	if (!build_id_question_parse(&q, (struct str){l->id, l->id_len}))
		q = (struct build_id_question){.has_first = false};
	return q;
}

enum failure_class load_elf(struct loader *r, struct load *l, unsigned source)
{
	const struct load_means *means = r->means;
	const struct offmap_options options = load_options(r->means, l);
	struct symbfile_map *records = symbfile_map_new(&options);
	struct bucket_result t;
	struct elf_source_report report;
	enum failure_class class = FAILURE_TEMPORARY;
	if (!records)
		return class;
	const struct symbfile_sink sink = symbfile_map_sink(records);
	const struct build_id_question question = question_of(l);
	elf_source_load(&means->elf, r->bucket, source, &question, &sink, &means->stopping, &t, &report);
	enum err err =
	        report.error.code == ERR_TOO_LARGE || report.error.code == ERR_NO_MEMORY ? report.error.code : ERR_OK;
	histogram_observe(H_DOWNLOAD, t.elapsed);
	if (t.outcome == BUCKET_OK)
		class = take_map(l, records, report.hash, t.text_bytes, &err);
	if (class == FAILURE_NONE) {
		metric_add(M_DOWNLOADS_OK, 1);
		histogram_observe(H_PARSE, report.read_time);
	} else {
		class = fail(r, l, source, &t, err);
	}
	count(l, &t, class == FAILURE_NONE);
	*(class == FAILURE_NONE ? &l->costs.parse_time : &l->costs.parse_fail_time) += report.read_time;
	symbfile_map_free(records);
	load_end_need(l);
	return class;
}
