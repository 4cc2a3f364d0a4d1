/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and replies in JSON: /symbolicate/v5, /symbolicate/v4 and the legacy /. */
#include <config.h>

#include <stdlib.h>

#include "api/router.h"
#include "api/inquiry.h"
#include "api/writer.h"
#include "base/process.h"

enum { UNYIELDING = 64 }; /* frames without a turn for others */
enum { PREFETCH_STRING_MAX = 512, PREFETCH_SYMBOL = sizeof(struct symbol) + 6 * sizeof(struct offmap_call) };
enum { AHEAD_SYMBOL = 10, AHEAD_NAMES = 4 }; /* frames */

static bool is_v4(const struct inquiry *s)
{
	return s->kind->functions_only;
}

static const char *found_word(const struct inquiry *s, int32_t want)
{
	if (want == MODULE_UNUSED)
		return "null";
	return want >= 0 && s->wants[want].state == WANT_FOUND ? "true" : "false";
}

/* The PE file name from the symbols, else the name as the request spelled it. */
static struct str module_name(const struct inquiry *s, uint32_t j, const struct request_frame *f)
{
	if (f->module < 0)
		return str_from("<unknown>");
	const struct request_module *m = &s->request.jobs[j].modules[f->module];
	int32_t want = s->want_of[j][f->module];
	if (!is_v4(s) && want >= 0 && s->wants[want].state == WANT_FOUND) {
		const struct offmap *map = s->wants[want].module->map;
		if (map->code_file_len)
			return (struct str){map->code_file, map->code_file_len};
	}
	return m->name.len ? m->name_raw : str_from("<unknown>");
}

static void write_offset(struct writer *w, const struct request_job *job, const struct request_frame *f)
{
	if (f->kind == OFFSET_TEXT)
		write_str(w, job->texts[f->offset]);
	else if (f->kind == OFFSET_NONE)
		WRITE(w, "-0x1");
	else
		write_hex(w, f->offset);
}

static void write_v5_frame(struct writer *w, const struct inquiry *s, uint32_t j, uint32_t k,
        const struct request_frame *f, uint32_t frame)
{
	uint8_t head[32], *at = put_decimal(PUT(head, "{\"frame\":"), k);
	at = PUT(at, ",\"module\":\"");
	write_bytes(w, head, (size_t)(at - head));
	write_str(w, module_name(s, j, f));
	WRITE(w, "\",");
	if (s->debug) {
		struct inquiry_reason why = inquiry_reason(s, j, f, frame);
		inquiry_write_reason(w, &why);
	}
	if (s->symbol_of[frame]) {
		write_symbol(w, s->symbol_of[frame], false);
		return;
	}
	WRITE(w, "\"module_offset\":\"");
	write_offset(w, &s->request.jobs[j], f);
	WRITE(w, "\"}");
}

static void write_v4_frame(struct writer *w, const struct inquiry *s, uint32_t j, uint32_t k,
        const struct request_frame *f, uint32_t frame)
{
	(void)k;
	WRITE(w, "\"");
	if (s->symbol_of[frame])
		write_symbol(w, s->symbol_of[frame], true);
	else
		write_offset(w, &s->request.jobs[j], f);
	if (f->kind != OFFSET_TEXT) {
		WRITE(w, " (in ");
		write_str(w, module_name(s, j, f));
		WRITE(w, ")");
	}
	WRITE(w, "\"");
}

static void prefetch_string(struct offmap_string s)
{
	for (uint32_t at = 0; at < s.len && at < PREFETCH_STRING_MAX; at += CACHE_LINE)
		__builtin_prefetch(s.data + at);
}

/* The symbols of a large reply and their names are scattered in memory, and each access would wait: so they are
 * prefetched while earlier ones are written. First the symbol, with its inlined calls behind it, then the names. */
static void prefetch_symbols(const struct inquiry *s, uint32_t frame)
{
	uint32_t left = s->request.frame_count - frame;
	const struct symbol *far = left > AHEAD_SYMBOL ? s->symbol_of[frame + AHEAD_SYMBOL] : NULL,
	                    *near = left > AHEAD_NAMES ? s->symbol_of[frame + AHEAD_NAMES] : NULL;
	for (unsigned at = 0; far && at < PREFETCH_SYMBOL; at += CACHE_LINE)
		__builtin_prefetch((const uint8_t *)far + at);
	if (!near)
		return;
	prefetch_string(near->answer.frame.function);
	prefetch_string(near->answer.frame.file);
	for (uint32_t i = 0; i < near->answer.inline_count; i++) {
		prefetch_string(near->answer.inlines[i].function);
		prefetch_string(near->answer.inlines[i].file);
	}
}

static void write_stacks(struct writer *w, struct inquiry *s, uint32_t j, uint32_t *frame)
{
	const struct request_job *job = &s->request.jobs[j];
	WRITE(w, "[");
	for (uint32_t i = 0; i < job->stack_count; i++) {
		if (i)
			WRITE(w, ",");
		WRITE(w, "[");
		for (uint32_t k = 0; k < job->stacks[i].count; k++, (*frame)++) {
			if (k)
				WRITE(w, ",");
			if (*frame % UNYIELDING == UNYIELDING - 1)
				exchange_turn(s->exchange);
			if (w->block)
				prefetch_symbols(s, *frame);
			(is_v4(s) ? write_v4_frame : write_v5_frame)(w, s, j, k, &job->stacks[i].frames[k], *frame);
		}
		WRITE(w, "]");
	}
	WRITE(w, "]");
}

/* A module that is listed twice becomes one key. Keys are compared as the request spelled them. */
static bool listed_before(const struct request_job *job, const uint32_t *order, uint32_t i)
{
	if (!i)
		return false;
	const struct request_module *a = &job->modules[order[i - 1]], *b = &job->modules[order[i]];
	return str_equal(a->name_raw, b->name_raw) && str_equal(a->id_raw, b->id_raw);
}

static int module_order(const void *a, const void *b, void *modules)
{
	const struct request_module *x = (struct request_module *)modules + *(const uint32_t *)a,
	                            *y = (struct request_module *)modules + *(const uint32_t *)b;
	int order = str_order(x->name_raw, y->name_raw);
	return order ? order : str_order(x->id_raw, y->id_raw);
}

static void write_found_modules(struct writer *w, const struct inquiry *s, uint32_t j, const uint32_t *order)
{
	const struct request_job *job = &s->request.jobs[j];
	WRITE(w, "{");
	for (uint32_t i = 0; i < job->module_count; i++) {
		const struct request_module *m = &job->modules[order[i]];
		if (listed_before(job, order, i))
			continue;
		if (i)
			WRITE(w, ",");
		WRITE(w, "\"");
		write_str(w, m->name_raw);
		WRITE(w, "/");
		write_str(w, m->id_raw);
		WRITE(w, "\":");
		write_str(w, str_from(found_word(s, s->want_of[j][order[i]])));
	}
	WRITE(w, "}");
}

static void write_known_modules(struct writer *w, const struct inquiry *s)
{
	const struct request_job *job = &s->request.jobs[0];
	WRITE(w, "[");
	for (uint32_t i = 0; i < job->module_count; i++) {
		if (i)
			WRITE(w, ",");
		write_str(w, str_from(found_word(s, s->want_of[0][i])));
	}
	WRITE(w, "]");
}

struct reply {
	struct inquiry *inquiry;
	uint32_t **orders;
	struct str debug;
};

static void write_reply(struct writer *w, void *arg)
{
	const struct reply *r = arg;
	struct inquiry *s = r->inquiry;
	uint32_t frame = 0;
	if (is_v4(s)) {
		WRITE(w, "{\"symbolicatedStacks\":");
		write_stacks(w, s, 0, &frame);
		WRITE(w, ",\"knownModules\":");
		write_known_modules(w, s);
	} else {
		WRITE(w, "{\"results\":[");
		for (uint32_t j = 0; j < s->request.job_count; j++) {
			if (j)
				WRITE(w, ",");
			WRITE(w, "{\"stacks\":");
			write_stacks(w, s, j, &frame);
			WRITE(w, ",\"found_modules\":");
			write_found_modules(w, s, j, r->orders[j]);
			WRITE(w, "}");
		}
		WRITE(w, "]");
	}
	if (r->debug.len) {
		WRITE(w, ",\"debug\":");
		write_str(w, r->debug);
	}
	WRITE(w, "}");
}

/* ---- requests ---- */

static enum err read_json(struct inquiry *s, struct error *e)
{
	const struct config *c = s->exchange->config;
	struct request_limits limits = {c->max_jobs, c->max_frames, c->max_modules, c->max_stacks};
	const struct yield yield = inquiry_yield(s);
	return request_read(&s->request, (struct str){(const char *)s->body.data, s->body.len},
	        is_v4(s) ? REQUEST_V4 : REQUEST_V5, &limits, &yield, s->exchange->arena, e);
}

static uint32_t **order_modules(const struct inquiry *s)
{
	struct arena *arena = s->exchange->arena;
	uint32_t **orders = arena_calloc(arena, s->request.job_count + 1, sizeof *orders);
	for (uint32_t j = 0; orders && j < s->request.job_count; j++) {
		struct request_job *job = &s->request.jobs[j];
		orders[j] = arena_alloc(arena, (job->module_count + 1) * sizeof **orders);
		if (!orders[j])
			return NULL;
		for (uint32_t i = 0; i < job->module_count; i++)
			orders[j][i] = i;
		qsort_r(orders[j], job->module_count, sizeof **orders, module_order, job->modules);
	}
	return orders;
}

static void reply(struct inquiry *s)
{
	char *text = s->debug ? inquiry_debug(s) : NULL;
	struct reply r = {s, order_modules(s), text ? str_from(text) : (struct str){"", 0}};
	if (!r.orders || (s->debug && !text))
		inquiry_fail(s, ERR_NO_MEMORY, 1, "out of memory");
	else
		inquiry_reply(s, "application/json", s->symbols.size, write_reply, &r);
	free(text);
}

static const struct inquiry_kind v5 = {.in_json = true, .read = read_json, .reply = reply},
                                 v4 = {.functions_only = true, .in_json = true, .read = read_json, .reply = reply};

void symbolicate_v5_handle(struct exchange *x)
{
	inquiry_start(x, &v5);
}

void symbolicate_v4_handle(struct exchange *x)
{
	inquiry_start(x, &v4);
}
