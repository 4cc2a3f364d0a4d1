/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/metrics.h"
#include "modules/load.h"
#include "symbfile/map.h"

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

enum outcome_class load_elf(struct loader *r, struct load *l, unsigned source)
{
	const struct load_context *context = r->context;
	const struct offmap_options options = load_options(r->context, l);
	struct symbfile_map *records = symbfile_map_new(&options);
	struct offmap *map = NULL;
	struct bucket_result t;
	struct elf_source_report report;
	if (!records)
		return FAILURE_TEMPORARY;
	const struct elf_taker taker = {symbfile_map_sink(records), options.take, options.take_arg, &context->stopping};
	const struct build_id_question question = question_of(l);
	elf_source_load(&context->elf, r->bucket, source, &question, &taker, &t, &report);
	enum err err =
	        report.error.code == ERR_TOO_LARGE || report.error.code == ERR_NO_MEMORY ? report.error.code : ERR_OK;
	if (t.outcome == BUCKET_OK && !(err = symbfile_map_finish(records, &map))) {
		map->generation = report.hash;
		map->text_bytes = t.text_bytes;
		metric_add(M_DOWNLOADS_OK, 1);
		histogram_observe(H_PARSE, report.read_time);
	}
	enum outcome_class class =
	        map ? load_take_map(l, map)
	            : load_failed(r, l, "executable of ", bucket_source_name(context->sources, source), &t, err, NULL);
	if (class == FAILURE_MISSING && report.error.code)
		failure_why(l->outcome.why, report.error.text);
	load_count(l, &t, report.read_time, class == OUTCOME_NONE);
	symbfile_map_free(records);
	load_end_need(l);
	return class;
}
