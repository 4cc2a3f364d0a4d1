/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow reading: a tree of values, looked at key by key in the order in which request_read reports. Where jansson
 * refuses JSON that the grammar allows (numbers out of range, a NUL in a key, half a surrogate pair, deep nesting) it
 * has no say about what the body means.
 */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/scan.h"
#include "request_oracle.h"

enum verdict { NO_JSON, JSON, NO_VERDICT };

struct model {
	const struct request_limits *limits;
	uint64_t frames, stacks, modules;
	char prefix[32]; /* of refusals inside a job */
	char refusal[256];
};

static char difference[1024];

static bool differ(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool differ(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(difference, sizeof difference, format, args);
	va_end(args);
	return false;
}

static bool refuse(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct model *m, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(m->refusal, sizeof m->refusal, format, args);
	va_end(args);
	return false;
}

static const char *module_fault(json_t *module)
{
	size_t size = json_is_array(module) ? json_array_size(module) : 0;
	if (size == 0)
		return "not a pair of debug_filename and debug_id";
	if (!json_is_string(json_array_get(module, 0)))
		return "debug_filename is not a string";
	if (size == 1)
		return "not a pair of debug_filename and debug_id";
	if (!json_is_string(json_array_get(module, 1)))
		return "debug_id is not a string";
	return size == 2 ? NULL : "not a pair of debug_filename and debug_id";
}

static bool model_modules(struct model *m, json_t *map)
{
	if (!map)
		return refuse(m, "%sno memoryMap", m->prefix);
	if (!json_is_array(map))
		return refuse(m, "%smemoryMap is not a list", m->prefix);
	for (size_t i = 0; i < json_array_size(map); i++) {
		if (m->modules++ >= m->limits->modules)
			return refuse(m, "too many modules: at most %" PRIu64 " a request", m->limits->modules);
		const char *fault = module_fault(json_array_get(map, i));
		if (fault)
			return refuse(m, "%smemoryMap %zu: %s", m->prefix, i, fault);
	}
	return true;
}

static const char *frame_fault(json_t *frame)
{
	size_t size = json_is_array(frame) ? json_array_size(frame) : 0;
	if (size == 0)
		return "not a pair of module_index and module_offset";
	if (!json_is_integer(json_array_get(frame, 0)))
		return "module_index is not an integer";
	if (size == 1)
		return "not a pair of module_index and module_offset";
	json_t *offset = json_array_get(frame, 1);
	if (!json_is_number(offset) && !json_is_string(offset))
		return "module_offset is neither a number nor a string";
	return size == 2 ? NULL : "not a pair of module_index and module_offset";
}

static bool model_stack(struct model *m, json_t *stack, size_t number)
{
	if (!json_is_array(stack))
		return refuse(m, "%sstack %zu: not a list", m->prefix, number);
	for (size_t i = 0; i < json_array_size(stack); i++) {
		if (m->frames++ >= m->limits->frames)
			return refuse(m, "too many frames: at most %" PRIu64 " a request", m->limits->frames);
		const char *fault = frame_fault(json_array_get(stack, i));
		if (fault)
			return refuse(m, "%sstack %zu frame %zu: %s", m->prefix, number, i, fault);
	}
	return true;
}

static bool model_stacks(struct model *m, json_t *stacks)
{
	if (!stacks)
		return refuse(m, "%sno stacks", m->prefix);
	if (!json_is_array(stacks))
		return refuse(m, "%sstacks is not a list", m->prefix);
	for (size_t i = 0; i < json_array_size(stacks); i++) {
		if (m->stacks++ >= m->limits->stacks)
			return refuse(m, "too many stacks: at most %" PRIu64 " a request", m->limits->stacks);
		if (!model_stack(m, json_array_get(stacks, i), i))
			return false;
	}
	return true;
}

static bool index_is_above(json_t *frame, json_t *map)
{
	return json_integer_value(json_array_get(frame, 0)) >= (json_int_t)json_array_size(map);
}

static bool model_indexes(struct model *m, json_t *map, json_t *stacks)
{
	for (size_t i = 0; i < json_array_size(stacks); i++) {
		json_t *stack = json_array_get(stacks, i);
		for (size_t k = 0; k < json_array_size(stack); k++) {
			json_t *frame = json_array_get(stack, k);
			if (index_is_above(frame, map))
				return refuse(m, "%sstack %zu frame %zu: module_index %lld is not in memoryMap",
				        m->prefix, i, k, (long long)json_integer_value(json_array_get(frame, 0)));
		}
	}
	return true;
}

static bool model_job(struct model *m, json_t *job)
{
	if (!json_is_object(job))
		return refuse(m, "%snot an object", m->prefix);
	json_t *map = json_object_get(job, "memoryMap"), *stacks = json_object_get(job, "stacks");
	return model_modules(m, map) && model_stacks(m, stacks) && model_indexes(m, map, stacks);
}

static bool model_jobs(struct model *m, json_t *jobs)
{
	if (!json_is_array(jobs))
		return refuse(m, "jobs is not a list");
	for (size_t i = 0; i < json_array_size(jobs); i++) {
		if (i >= m->limits->jobs)
			return refuse(m, "too many jobs: at most %" PRIu64 " a request", m->limits->jobs);
		snprintf(m->prefix, sizeof m->prefix, "job %zu: ", i);
		if (!model_job(m, json_array_get(jobs, i)))
			return false;
	}
	return true;
}

/* Whether the body is a request; if not, m->refusal says why. */
static bool model_body(struct model *m, json_t *root, enum request_version version)
{
	if (!json_is_object(root))
		return refuse(m, "the body is not a JSON object");
	json_t *jobs = json_object_get(root, "jobs"), *number = json_object_get(root, "version");
	if (version == REQUEST_V5)
		return jobs ? model_jobs(m, jobs) : model_job(m, root);
	if (jobs)
		return refuse(m, "jobs in a request of version 4");
	if (number && !(json_is_integer(number) && json_integer_value(number) == 4))
		return refuse(m, "version is not 4");
	return model_job(m, root);
}

static bool same_string(struct str raw, json_t *value)
{
	char *text = malloc(raw.len + 1);
	if (!text)
		abort();
	size_t len = scan_decode(text, raw);
	bool same = len == json_string_length(value) && memcmp(text, json_string_value(value), len) == 0;
	free(text);
	return same;
}

static bool same_text(struct str text, json_t *offset)
{
	char number[512];
	if (json_is_string(offset))
		return same_string(text, offset);
	if (text.len >= sizeof number)
		return true;
	memcpy(number, text.data, text.len);
	number[text.len] = 0;
	if (json_is_integer(offset))
		return strtoll(number, NULL, 10) == json_integer_value(offset) && !strpbrk(number, ".eE");
	return strtod(number, NULL) == json_real_value(offset);
}

static bool same_frame(const struct request_job *job, const struct request_frame *f, json_t *pair)
{
	json_int_t index = json_integer_value(json_array_get(pair, 0));
	json_t *offset = json_array_get(pair, 1);
	json_int_t v = json_integer_value(offset);
	if (f->module != (index < 0 ? -1 : index))
		return false;
	if (json_is_integer(offset) && v >= 0)
		return f->kind == OFFSET_ADDRESS && f->offset == (uint64_t)v;
	if (json_is_integer(offset) && v == -1)
		return f->kind == OFFSET_NONE;
	return f->kind == OFFSET_TEXT && f->offset < job->text_count && same_text(job->texts[f->offset], offset);
}

static bool same_stack(
        const struct request_job *job, const struct request_stack *stack, json_t *expected, uint32_t *texts)
{
	if (stack->count != json_array_size(expected))
		return differ("a stack of %u frames", stack->count);
	for (uint32_t i = 0; i < stack->count; i++) {
		if (!same_frame(job, &stack->frames[i], json_array_get(expected, i)))
			return differ("frame %u", i);
		*texts += stack->frames[i].kind == OFFSET_TEXT;
	}
	return true;
}

static bool same_stacks(const struct request_job *job, json_t *stacks, uint64_t *frames)
{
	uint32_t texts = 0;
	if (job->stack_count != json_array_size(stacks))
		return differ("%u stacks", job->stack_count);
	for (uint32_t i = 0; i < job->stack_count; i++) {
		if (!same_stack(job, &job->stacks[i], json_array_get(stacks, i), &texts))
			return false;
		*frames += job->stacks[i].count;
	}
	return texts == job->text_count || differ("%u texts instead of %u", job->text_count, texts);
}

static bool is_string(struct str text, json_t *value)
{
	return text.len == json_string_length(value) && memcmp(text.data, json_string_value(value), text.len) == 0;
}

static bool same_modules(const struct request_job *job, json_t *map)
{
	if (job->module_count != json_array_size(map))
		return differ("%u modules", job->module_count);
	for (uint32_t i = 0; i < job->module_count; i++) {
		const struct request_module *m = &job->modules[i];
		json_t *pair = json_array_get(map, i), *name = json_array_get(pair, 0), *id = json_array_get(pair, 1);
		if (!is_string(m->name, name) || !is_string(m->id, id))
			return differ("memoryMap %u", i);
		if (!same_string(m->name_raw, name) || !same_string(m->id_raw, id))
			return differ("raw form of memoryMap %u", i);
	}
	return true;
}

static bool same_request(const struct request *r, json_t *root, enum request_version version)
{
	json_t *jobs = version == REQUEST_V5 ? json_object_get(root, "jobs") : NULL;
	size_t count = jobs ? json_array_size(jobs) : 1;
	uint64_t frames = 0, modules = 0;
	if (r->job_count != count)
		return differ("%u jobs", r->job_count);
	for (size_t i = 0; i < count; i++) {
		json_t *job = jobs ? json_array_get(jobs, i) : root;
		if (!same_modules(&r->jobs[i], json_object_get(job, "memoryMap")) ||
		        !same_stacks(&r->jobs[i], json_object_get(job, "stacks"), &frames))
			return false;
		modules += r->jobs[i].module_count;
	}
	if (r->frame_count != frames || r->module_count != modules)
		return differ("totals %" PRIu64 " and %" PRIu64, r->frame_count, r->module_count);
	return true;
}

/* Whether the grammar allows the body, as far as jansson can tell from how it refused it. */
static enum verdict verdict_of_refusal(struct str body, json_error_t *error)
{
	enum json_error_code code = json_error_code(error);
	if (code == json_error_numeric_overflow) {
		json_t *root = json_loadb(
		        body.data, body.len, JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, error);
		if (root) {
			json_decref(root);
			return JSON;
		}
		code = json_error_code(error);
	}
	if (code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
	        code == json_error_stack_overflow || strstr(error->text, "invalid Unicode"))
		return NO_VERDICT;
	return NO_JSON;
}

/* Ours has refused the body. */
static bool check_refusal(const struct error *e, enum verdict verdict, size_t len)
{
	size_t at;
	bool no_json = sscanf(e->text, "byte %zu: ", &at) == 1;
	if (e->code != ERR_BAD_REQUEST)
		return differ("code %d: %s", (int)e->code, e->text);
	if (no_json && at > len)
		return differ("a fault behind the end: %s", e->text);
	if (verdict == NO_JSON && !no_json)
		return differ("not JSON, but refused with: %s", e->text);
	if (verdict == JSON && no_json)
		return differ("JSON, but refused with: %s", e->text);
	return true;
}

static bool compare(const struct request *r, enum err err, const struct error *e, json_t *root,
        enum request_version version, const struct request_limits *limits)
{
	struct model m = {.limits = limits};
	if (!model_body(&m, root, version))
		return strcmp(m.refusal, err ? e->text : "") == 0 ||
		       differ("expected \"%s\", got \"%s\"", m.refusal, err ? e->text : "");
	if (err)
		return differ("a good request is refused: %s", e->text);
	return same_request(r, root, version);
}

/* The tree, or NULL. A NUL byte is no part of any JSON, but jansson overlooks one behind a number. */
static json_t *load(struct str body, enum verdict *verdict)
{
	json_error_t error;
	json_t *root = NULL;
	*verdict = NO_JSON;
	if (memchr(body.data, 0, body.len))
		return NULL;
	root = json_loadb(body.data, body.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
	*verdict = root ? JSON : verdict_of_refusal(body, &error);
	return root;
}

const char *oracle_compare(struct str body, enum request_version version, const struct request_limits *limits)
{
	struct arena arena;
	struct request request;
	struct error e = {0};
	enum verdict verdict;
	arena_init(&arena, SIZE_MAX);
	enum err err = request_read(&request, body, version, limits, NULL, &arena, &e);
	json_t *root = load(body, &verdict);
	bool same = true;
	if (err)
		same = check_refusal(&e, verdict, body.len);
	else if (verdict == NO_JSON)
		same = differ("accepted what is not JSON");
	if (same && root)
		same = compare(&request, err, &e, root, version, limits);
	json_decref(root);
	arena_release(&arena);
	return same ? NULL : difference;
}
