/* SPDX-License-Identifier: Apache-2.0 */
/* What the header Debug asks for: how the request was answered. */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "api/inquiry.h"
#include "base/clock.h"
#include "base/json_text.h"

static double seconds(int64_t nanoseconds)
{
	return (double)nanoseconds / 1e9;
}

/* false if out of memory. */
static bool set_module(json_t *object, const struct module_want *w, json_t *value)
{
	char key[2 * 1024 + 2];
	int n = snprintf(key, sizeof key, "%.*s/%.*s", STR_FMT(w->name), STR_FMT(w->id));
	if (n > 0 && (size_t)n < sizeof key)
		return json_object_set_new(object, key, value) == 0;
	json_decref(value);
	return true;
}

/* How many frames have no name, for each reason. */
static bool count_unnamed(const struct inquiry *s, json_t *counts, json_t *reasons)
{
	bool ok = true;
	uint64_t count[REASONS] = {0}, frame = 0;
	for (uint32_t j = 0; j < s->request.job_count; j++)
		for (uint32_t i = 0; i < s->request.jobs[j].stack_count; i++) {
			const struct request_stack *stack = &s->request.jobs[j].stacks[i];
			for (uint32_t k = 0; k < stack->count; k++)
				count[inquiry_reason(s, j, &stack->frames[k], frame++).reason]++;
		}
	for (unsigned i = 1; i < REASONS; i++) {
		const struct reason_row *row = reason_row((enum reason)i);
		if (!count[i])
			continue;
		ok = ok && !json_object_set_new(counts, row->word, json_integer((json_int_t)count[i]));
		ok = ok && !json_object_set_new(
		                   reasons, row->word, json_pack("{s:s, s:s}", "means", row->means, "help", row->help));
	}
	return ok;
}

/* Modules without symbols, or without some of them. */
static bool tell_modules(const struct inquiry *s, json_t *modules)
{
	bool ok = true;
	for (uint32_t i = 0; i < s->want_count; i++) {
		const struct module_want *w = &s->wants[i];
		struct inquiry_reason why = inquiry_module_reason(w);
		if (why.reason)
			ok = ok && set_module(modules, w,
			                   json_sprintf("%s%s%s", reason_row(why.reason)->word, *why.detail ? ": " : "",
			                           why.detail));
	}
	return ok;
}

/* Where a module's file is loaded, as /api/symbols has it; NULL: out of memory. */
static json_t *file_map_json(const struct file_map *m)
{
	json_t *all = json_array();
	bool ok = all != NULL;
	for (unsigned i = 0; i < m->count && ok; i++)
		ok = !json_array_append_new(
		        all, json_pack("{s:o, s:o, s:o}", "offset", json_sprintf("0x%" PRIx64, m->items[i].offset),
		                     "address", json_sprintf("0x%" PRIx64, m->items[i].address), "file_size",
		                     json_sprintf("0x%" PRIx64, m->items[i].size)));
	if (ok)
		return all;
	json_decref(all);
	return NULL;
}

char *inquiry_debug(const struct inquiry *s)
{
	json_t *stacks_per = json_object(), *bases = json_object(), *sizes = json_object(), *times = json_object(),
	       *fails = json_object(), *parses = json_object(), *parse_fails = json_object(), *damaged = json_object(),
	       *missing = json_object(), *lacks = json_object(), *unnamed = json_object(), *lacking = json_object(),
	       *reasons = json_object(), *segments = json_object();
	bool ok = count_unnamed(s, unnamed, reasons) && tell_modules(s, lacking);
	int64_t download_time = 0, parse_time = 0;
	uint64_t download_bytes = 0, downloads = 0, loads = 0, real = s->request.frame_count;
	for (uint32_t j = 0; j < s->request.job_count; j++)
		real -= s->request.jobs[j].text_count;
	for (uint32_t i = 0; i < s->want_count; i++) {
		const struct module_want *w = &s->wants[i];
		ok &= set_module(stacks_per, w, json_integer(s->stacks_of[i]));
		if (w->image_base)
			ok &= set_module(bases, w, json_sprintf("0x%" PRIx64, w->image_base));
		if (inquiry_file_map(w)->count)
			ok &= set_module(segments, w, file_map_json(inquiry_file_map(w)));
		uint64_t left_out = w->state == WANT_FOUND ? w->module->map->damaged : 0;
		if (left_out)
			ok &= set_module(
			        w->kind == WANT_SYMBFILE ? missing : damaged, w, json_integer((json_int_t)left_out));
		if (w->state == WANT_FOUND && w->module->map->lacking)
			ok &= set_module(lacks, w, json_integer((json_int_t)w->module->map->lacking));
		if (w->costs.fail_time)
			ok &= set_module(fails, w, json_real(seconds(w->costs.fail_time)));
		loads += w->loaded;
		if (w->costs.parse_fail_time)
			ok &= set_module(parse_fails, w, json_real(seconds(w->costs.parse_fail_time)));
		if (!w->costs.download_bytes)
			continue;
		downloads++;
		download_bytes += w->costs.download_bytes;
		download_time += w->costs.download_time;
		parse_time += w->costs.parse_time;
		ok &= set_module(sizes, w, json_integer((json_int_t)w->costs.download_bytes));
		ok &= set_module(times, w, json_real(seconds(w->costs.download_time)));
		ok &= set_module(parses, w, json_real(seconds(w->costs.parse_time)));
	}
	const struct {
		const char *name;
		json_t *value;
	} parts[] = {
	        {"time", json_real(seconds(clock_now() - s->exchange->started))},
	        {"stacks",
	                json_pack("{s:I, s:I}", "count", (json_int_t)s->request.frame_count, "real", (json_int_t)real)},
	        {"modules",
	                json_pack("{s:I, s:o}", "count", (json_int_t)s->want_count, "stacks_per_module", stacks_per)},
	        {"cache_lookups",
	                json_pack("{s:I, s:I, s:I, s:f}", "count", (json_int_t)(s->stats.cache_count + s->want_count),
	                        "hits", (json_int_t)(s->stats.cache_hits + s->want_count - loads), "size",
	                        (json_int_t)s->stats.cache_bytes, "time", seconds(s->stats.cache_time))},
	        {"downloads", json_pack("{s:I, s:I, s:f, s:o, s:o, s:o}", "count", (json_int_t)downloads, "size",
	                              (json_int_t)download_bytes, "time", seconds(download_time), "size_per_module",
	                              sizes, "time_per_module", times, "fail_time_per_module", fails)},
	        {"parse_sym", json_pack("{s:f, s:o, s:o, s:o}", "time", seconds(parse_time), "time_per_module", parses,
	                              "fail_time_per_module", parse_fails, "damaged_lines_per_module", damaged)},
	        {"save_symcache", json_pack("{s:f, s:{}}", "time", 0.0, "time_per_module")},
	        {"missing_parts_per_module", missing},
	        {"missing_units_per_module", lacks},
	        {"image_bases", bases},
	        {"segments", segments},
	        {"unnamed", json_pack("{s:o, s:o}", "frames", unnamed, "modules", lacking)},
	        {"reasons", reasons},
	};
	json_t *debug = json_object();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		ok = json_object_set_new(debug, parts[i].name, parts[i].value) == 0 && ok;
	char *text = ok ? json_text(debug, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(debug);
	return text;
}
