/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a symbolication request in one pass, without a tree of values or recursion.
 *
 * Anything that does not belong into a request, be it a wrong type or broken JSON, stops the reading. The value of the
 * current key is then skipped like any JSON value, which finds what is wrong with the JSON. If nothing is, the refusal
 * is kept until the object ends, because a later key of the same name replaces the value. So each byte is looked at a
 * small constant number of times, whatever the body contains.
 *
 * What has been read is kept in lists, which are cut back when a value is replaced. At the end they are copied to the
 * arena in exact size.
 */
#include <config.h>

#include "json/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "json/scan.h"

enum {
	KEY_RAW_MAX = 54,      /* "memoryMap" with every letter as \uXXXX */
	INDEX_DIGITS = 9,      /* of a usual module_index, which is below INDEX_HUGE */
	OFFSET_DIGITS = 18,    /* of a usual module_offset */
	INDEX_SHOWN = 40,      /* digits of a module_index that an error repeats */
	LIST_SMALL = 16 << 10, /* bytes of a list that is not charged */
};

#define INDEX_HUGE INT32_MAX /* stands for every module_index of at least this: no memory map is that long */

enum place { PLACE_BODY, PLACE_JOB, PLACE_MODULE, PLACE_STACK, PLACE_FRAME };

/* Why a request is refused. The text is made only once the refusal is final, since a body may hold millions of reasons
 * that turn out not to count. */
struct refusal {
	const char *what, *rest; /* around detail */
	char detail[INDEX_SHOWN + 8];
	enum place place;
	bool in_job;             /* of several */
	size_t job, item, frame; /* item: a module or stack of the job */
};

/* What is known about a key: ERR_MISSING until it is seen, then ERR_OK, or ERR_BAD_REQUEST and why. */
struct value {
	enum err code;
	struct refusal refusal;
};

struct list {
	void *items; /* malloc'd */
	size_t count;
	uint32_t cap;
	uint64_t held; /* bytes charged for it */
};

struct raw_module {
	struct str name, id;
};

/* The job being read. */
struct draft {
	size_t modules, stacks, frames, texts; /* lengths of the lists when it began; its own items follow */
	size_t stack_frames;                   /* length of the list of frames when the stack being read began */
	struct value memory_map, stacks_value;
	int32_t highest; /* module_index */
	struct str huge; /* the first module_index that became INDEX_HUGE, as written */
};

struct reading {
	struct scan scan; /* the body */
	struct arena *arena;
	const struct request_limits *limits;
	enum request_version version;
	struct refusal refusal;
	struct value jobs_value, version_value;
	bool listed; /* jobs come from `jobs`, so that errors name the job */
	struct draft job;
	struct list jobs;    /* struct request_job, only its counts set */
	struct list modules; /* struct raw_module */
	struct list stacks;  /* uint32_t: the number of frames */
	struct list frames;  /* struct request_frame */
	struct list texts;   /* struct str */
};

enum key { KEY_OTHER, KEY_JOBS, KEY_MEMORY_MAP, KEY_STACKS, KEY_VERSION };

static enum key key_of(struct str raw)
{
	static const struct {
		const char *name;
		enum key key;
	} keys[] = {
	        {"stacks", KEY_STACKS},
	        {"memoryMap", KEY_MEMORY_MAP},
	        {"jobs", KEY_JOBS},
	        {"version", KEY_VERSION},
	};
	char text[KEY_RAW_MAX];
	if (raw.len > KEY_RAW_MAX)
		return KEY_OTHER;
	struct str key = {text, scan_decode(text, raw)};
	for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++)
		if (str_equal(key, str_from(keys[i].name)))
			return keys[i].key;
	return KEY_OTHER;
}

/* A list that becomes large is charged. */
static bool enlarge(struct arena *arena, struct list *l, size_t size)
{
	if (!array_enlarge(&l->items, &l->cap, l->count + 1, size))
		return false;
	uint64_t bytes = l->cap * (uint64_t)size;
	if (bytes <= LIST_SMALL)
		return true;
	if (!arena_hold(arena, (int64_t)(bytes - l->held)))
		return false;
	l->held = bytes;
	return true;
}

static inline enum err push_item(struct reading *r, struct list *l, const void *item, size_t size)
{
	if (l->count == l->cap && !enlarge(r->arena, l, size))
		return ERR_NO_MEMORY;
	memcpy((char *)l->items + size * l->count++, item, size);
	return ERR_OK;
}

/* Says what does not fit, and where. For broken JSON this is never shown: scan_skip says what is wrong. */
static enum err refuse(struct reading *r, enum place place, const char *what)
{
	struct refusal *f = &r->refusal;
	f->what = what;
	f->rest = "";
	f->detail[0] = 0;
	f->place = place;
	f->in_job = r->listed && place != PLACE_BODY;
	f->job = r->jobs.count;
	f->item = place == PLACE_MODULE ? r->modules.count - r->job.modules : r->stacks.count - r->job.stacks;
	f->frame = r->frames.count - r->job.stack_frames;
	return ERR_BAD_REQUEST;
}

/* `what` ends in "at most ". */
static enum err refuse_number(struct reading *r, const char *what, uint64_t limit)
{
	refuse(r, PLACE_BODY, what);
	snprintf(r->refusal.detail, sizeof r->refusal.detail, "%" PRIu64, limit);
	r->refusal.rest = " a request";
	return ERR_BAD_REQUEST;
}

/* The items of a list; `[` has been taken. */
static inline enum err read_items(struct reading *r, enum err (*read_item)(struct reading *r))
{
	bool first = true;
	int more;
	while ((more = scan_step(&r->scan, ']', &first)) > 0) {
		enum err err = read_item(r);
		if (err)
			return err;
	}
	return more < 0 ? refuse(r, PLACE_BODY, "broken list") : ERR_OK;
}

/* Keeps integers, but no reals and nothing that is not a number. */
static inline bool read_index(struct reading *r, int32_t *module)
{
	struct scan_number n = {.integer = true};
	int c = scan_peek(&r->scan);
	if (!scan_plain(&r->scan, INDEX_DIGITS, &n.magnitude) &&
	        ((c != '-' && !scan_is_digit(c)) || !scan_number(&r->scan, &n) || !n.integer))
		return false;
	if (n.negative && (n.huge || n.magnitude > 0)) {
		*module = -1;
	} else if (!n.huge && n.magnitude < INDEX_HUGE) {
		*module = (int32_t)n.magnitude;
	} else {
		*module = INDEX_HUGE;
		if (!r->job.huge.data)
			r->job.huge = n.text;
	}
	if (*module > r->job.highest)
		r->job.highest = *module;
	return true;
}

static enum err keep_text(struct reading *r, struct request_frame *f, struct str text)
{
	f->kind = OFFSET_TEXT;
	f->offset = r->texts.count - r->job.texts;
	return push_item(r, &r->texts, &text, sizeof text);
}

static inline enum err read_offset(struct reading *r, struct request_frame *f)
{
	struct scan_number n;
	struct str text;
	int c = scan_peek(&r->scan);
	f->kind = OFFSET_ADDRESS;
	if (scan_plain(&r->scan, OFFSET_DIGITS, &f->offset))
		return ERR_OK;
	if (c == '"' && scan_string(&r->scan, &text))
		return keep_text(r, f, text);
	if ((c != '-' && !scan_is_digit(c)) || !scan_number(&r->scan, &n))
		return refuse(r, PLACE_FRAME, "module_offset is neither a number nor a string");
	if (!n.integer || n.huge || (n.negative && n.magnitude > 1))
		return keep_text(r, f, n.text);
	f->kind = n.negative && n.magnitude == 1 ? OFFSET_NONE : OFFSET_ADDRESS;
	f->offset = n.magnitude;
	return ERR_OK;
}

static enum err read_frame(struct reading *r)
{
	static const char no_pair[] = "not a pair of module_index and module_offset";
	struct request_frame f;
	if (r->frames.count >= r->limits->frames)
		return refuse_number(r, "too many frames: at most ", r->limits->frames);
	if (!scan_take(&r->scan, '[') || scan_peek(&r->scan) == ']')
		return refuse(r, PLACE_FRAME, no_pair);
	if (!read_index(r, &f.module))
		return refuse(r, PLACE_FRAME, "module_index is not an integer");
	if (!scan_take(&r->scan, ','))
		return refuse(r, PLACE_FRAME, no_pair);
	enum err err = read_offset(r, &f);
	if (err)
		return err;
	if (!scan_take(&r->scan, ']'))
		return refuse(r, PLACE_FRAME, no_pair);
	return push_item(r, &r->frames, &f, sizeof f);
}

static enum err read_stack(struct reading *r)
{
	r->job.stack_frames = r->frames.count;
	if (r->stacks.count >= r->limits->stacks)
		return refuse_number(r, "too many stacks: at most ", r->limits->stacks);
	if (!scan_take(&r->scan, '['))
		return refuse(r, PLACE_STACK, "not a list");
	enum err err = read_items(r, read_frame);
	if (err)
		return err;
	uint32_t count = (uint32_t)(r->frames.count - r->job.stack_frames);
	return push_item(r, &r->stacks, &count, sizeof count);
}

/* The last `stacks` of a job counts, so an earlier one is dropped first. */
static enum err read_stacks(struct reading *r)
{
	r->stacks.count = r->job.stacks;
	r->frames.count = r->job.frames;
	r->texts.count = r->job.texts;
	r->job.highest = -1;
	r->job.huge = (struct str){NULL, 0};
	return scan_take(&r->scan, '[') ? read_items(r, read_stack) : refuse(r, PLACE_JOB, "stacks is not a list");
}

static enum err read_module(struct reading *r)
{
	static const char no_pair[] = "not a pair of debug_filename and debug_id";
	struct raw_module m;
	if (r->modules.count >= r->limits->modules)
		return refuse_number(r, "too many modules: at most ", r->limits->modules);
	if (!scan_take(&r->scan, '[') || scan_peek(&r->scan) == ']')
		return refuse(r, PLACE_MODULE, no_pair);
	if (scan_peek(&r->scan) != '"' || !scan_string(&r->scan, &m.name))
		return refuse(r, PLACE_MODULE, "debug_filename is not a string");
	if (!scan_take(&r->scan, ','))
		return refuse(r, PLACE_MODULE, no_pair);
	if (scan_peek(&r->scan) != '"' || !scan_string(&r->scan, &m.id))
		return refuse(r, PLACE_MODULE, "debug_id is not a string");
	if (!scan_take(&r->scan, ']'))
		return refuse(r, PLACE_MODULE, no_pair);
	return push_item(r, &r->modules, &m, sizeof m);
}

static enum err read_memory_map(struct reading *r)
{
	r->modules.count = r->job.modules;
	return scan_take(&r->scan, '[') ? read_items(r, read_module) : refuse(r, PLACE_JOB, "memoryMap is not a list");
}

/* A value that does not fit is not an error yet: it is skipped, and the refusal is kept until the end of the object.
 * ERR_CORRUPT: broken JSON. */
static enum err read_value(struct reading *r, struct value *v, enum err (*read)(struct reading *r))
{
	const uint8_t *first = r->scan.at;
	v->code = read(r);
	if (v->code != ERR_BAD_REQUEST)
		return v->code;
	v->refusal = r->refusal;
	r->scan.at = first;
	return scan_skip(&r->scan) ? ERR_OK : ERR_CORRUPT;
}

static enum err ignore_value(struct reading *r)
{
	return scan_skip(&r->scan) ? ERR_OK : ERR_CORRUPT;
}

static enum err read_job_value(struct reading *r, enum key key)
{
	if (key == KEY_MEMORY_MAP)
		return read_value(r, &r->job.memory_map, read_memory_map);
	if (key == KEY_STACKS)
		return read_value(r, &r->job.stacks_value, read_stacks);
	return ignore_value(r);
}

/* An object's keys and values; `{` has been taken. */
static enum err read_members(struct reading *r, enum err (*read_member)(struct reading *r, enum key key))
{
	bool first = true;
	int more;
	while ((more = scan_step(&r->scan, '}', &first)) > 0) {
		struct str key;
		if (!scan_key(&r->scan, &key))
			return refuse(r, PLACE_BODY, "broken key");
		enum err err = read_member(r, key_of(key));
		if (err)
			return err;
	}
	return more < 0 ? refuse(r, PLACE_BODY, "broken object") : ERR_OK;
}

static void begin_job(struct reading *r)
{
	struct draft *d = &r->job;
	d->modules = r->modules.count;
	d->stacks = r->stacks.count;
	d->frames = r->frames.count;
	d->texts = r->texts.count;
	d->memory_map.code = d->stacks_value.code = ERR_MISSING;
}

static void show_index(struct refusal *f, int32_t module, struct str huge)
{
	if (module < INDEX_HUGE)
		snprintf(f->detail, sizeof f->detail, "%" PRId32, module);
	else
		snprintf(f->detail, sizeof f->detail, "%.*s%s", STR_FMT(str_first(huge, INDEX_SHOWN)),
		        huge.len > INDEX_SHOWN ? "..." : "");
}

/* Names the job's first frame whose module_index is not below `modules`, the length of its memory map. */
static enum err refuse_index(struct reading *r, size_t modules)
{
	const uint32_t *counts = (const uint32_t *)r->stacks.items + r->job.stacks;
	const struct request_frame *f = (const struct request_frame *)r->frames.items + r->job.frames;
	size_t stack = 0, frame = 0;
	while (f[frame].module < 0 || (size_t)f[frame].module < modules)
		frame++;
	f += frame;
	while (frame >= counts[stack])
		frame -= counts[stack++];
	refuse(r, PLACE_FRAME, "module_index ");
	r->refusal.rest = " is not in memoryMap";
	r->refusal.item = stack;
	r->refusal.frame = frame;
	show_index(&r->refusal, f->module, r->job.huge);
	return ERR_BAD_REQUEST;
}

static enum err refuse_kept(struct reading *r, const struct value *v, const char *missing)
{
	if (v->code == ERR_MISSING)
		return refuse(r, PLACE_JOB, missing);
	r->refusal = v->refusal;
	return ERR_BAD_REQUEST;
}

/* The whole job has been read. memoryMap may follow stacks, so only now are they compared. */
static enum err end_job(struct reading *r)
{
	struct draft *d = &r->job;
	size_t modules = r->modules.count - d->modules;
	if (d->memory_map.code)
		return refuse_kept(r, &d->memory_map, "no memoryMap");
	if (d->stacks_value.code)
		return refuse_kept(r, &d->stacks_value, "no stacks");
	if (d->highest >= 0 && (size_t)d->highest >= modules)
		return refuse_index(r, modules);
	const struct request_job job = {.module_count = (uint32_t)modules,
	        .stack_count = (uint32_t)(r->stacks.count - d->stacks),
	        .text_count = (uint32_t)(r->texts.count - d->texts)};
	return push_item(r, &r->jobs, &job, sizeof job);
}

static enum err read_job(struct reading *r)
{
	if (r->jobs.count >= r->limits->jobs)
		return refuse_number(r, "too many jobs: at most ", r->limits->jobs);
	if (!scan_take(&r->scan, '{'))
		return refuse(r, PLACE_JOB, "not an object");
	begin_job(r);
	enum err err = read_members(r, read_job_value);
	return err ? err : end_job(r);
}

static enum err read_jobs(struct reading *r)
{
	r->jobs.count = r->modules.count = r->stacks.count = r->frames.count = r->texts.count = 0;
	r->listed = true;
	return scan_take(&r->scan, '[') ? read_items(r, read_job) : refuse(r, PLACE_BODY, "jobs is not a list");
}

static enum err read_version(struct reading *r)
{
	struct scan_number n;
	int c = scan_peek(&r->scan);
	bool is_four = scan_is_digit(c) && scan_number(&r->scan, &n) && n.integer && !n.huge && n.magnitude == 4;
	return is_four ? ERR_OK : refuse(r, PLACE_BODY, "version is not 4");
}

static enum err read_body_value(struct reading *r, enum key key)
{
	if (key == KEY_JOBS && r->version == REQUEST_V4) {
		r->jobs_value.code = ERR_OK;
		return ignore_value(r);
	}
	if (key == KEY_JOBS)
		return read_value(r, &r->jobs_value, read_jobs);
	if (key == KEY_VERSION && r->version == REQUEST_V4)
		return read_value(r, &r->version_value, read_version);
	return r->listed ? ignore_value(r) : read_job_value(r, key);
}

static enum err end_body(struct reading *r)
{
	if (r->version == REQUEST_V4 && r->jobs_value.code != ERR_MISSING)
		return refuse(r, PLACE_BODY, "jobs in a request of version 4");
	if (r->version_value.code == ERR_BAD_REQUEST)
		return refuse_kept(r, &r->version_value, "");
	if (r->jobs_value.code == ERR_BAD_REQUEST)
		return refuse_kept(r, &r->jobs_value, "");
	return r->listed ? ERR_OK : end_job(r);
}

static enum err read_body(struct reading *r)
{
	enum err err;
	begin_job(r);
	r->jobs_value.code = r->version_value.code = ERR_MISSING;
	if (!scan_take(&r->scan, '{'))
		err = refuse(r, PLACE_BODY, "the body is not a JSON object");
	else
		err = read_members(r, read_body_value);
	if (!err && scan_peek(&r->scan) != SCAN_END)
		err = refuse(r, PLACE_BODY, "broken end");
	if (!err)
		err = end_body(r);
	if (err != ERR_BAD_REQUEST)
		return err;
	r->scan.at = r->scan.start;
	return scan_document(&r->scan) ? ERR_BAD_REQUEST : ERR_CORRUPT;
}

/* A copy of exact size in the arena. */
static void *list_copy(const struct list *l, size_t size, struct arena *arena)
{
	void *copy = arena_alloc(arena, l->count * size);
	if (copy && l->count)
		memcpy(copy, l->items, l->count * size);
	return copy;
}

static size_t escaped_bytes(const struct raw_module *m)
{
	return (scan_has_escape(m->name) ? m->name.len : 0) + (scan_has_escape(m->id) ? m->id.len : 0);
}

/* The decoded form: the body itself if nothing is escaped, else a copy at *room, which moves on. */
static struct str decoded(struct str raw, char **room)
{
	if (!scan_has_escape(raw))
		return raw;
	struct str text = {*room, scan_decode(*room, raw)};
	*room += text.len;
	return text;
}

/* Replaces half surrogate pairs, which a reply may not contain. */
static bool mend(struct str *raw, struct arena *arena)
{
	if (!scan_has_half(*raw))
		return true;
	char *whole = arena_alloc(arena, raw->len);
	if (!whole)
		return false;
	scan_mend(whole, *raw);
	raw->data = whole;
	return true;
}

static struct str *copy_texts(const struct list *l, struct arena *arena)
{
	struct str *texts = list_copy(l, sizeof *texts, arena);
	for (size_t i = 0; texts && i < l->count; i++)
		if (!mend(&texts[i], arena))
			return NULL;
	return texts;
}

static struct request_module *copy_modules(const struct list *l, struct arena *arena)
{
	const struct raw_module *raw = l->items;
	size_t bytes = 0;
	for (size_t i = 0; i < l->count; i++)
		bytes += escaped_bytes(&raw[i]);
	struct request_module *modules = arena_calloc(arena, l->count, sizeof *modules);
	char *text = arena_alloc(arena, bytes);
	if (!modules || !text)
		return NULL;
	for (size_t i = 0; i < l->count; i++) {
		struct request_module *m = &modules[i];
		m->name_raw = raw[i].name;
		m->id_raw = raw[i].id;
		if (!mend(&m->name_raw, arena) || !mend(&m->id_raw, arena))
			return NULL;
		m->name = decoded(m->name_raw, &text);
		m->id = decoded(m->id_raw, &text);
	}
	return modules;
}

/* frames holds the frames of all stacks, one stack after the other */
static struct request_stack *copy_stacks(const struct list *l, struct request_frame *frames, struct arena *arena)
{
	const uint32_t *counts = l->items;
	struct request_stack *stacks = arena_calloc(arena, l->count, sizeof *stacks);
	if (!stacks)
		return NULL;
	for (size_t i = 0; i < l->count; i++) {
		stacks[i] = (struct request_stack){frames, counts[i]};
		frames += counts[i];
	}
	return stacks;
}

static enum err build(const struct reading *r, struct request *out, struct arena *arena)
{
	struct request_frame *frames = list_copy(&r->frames, sizeof *frames, arena);
	struct str *texts = copy_texts(&r->texts, arena);
	struct request_job *jobs = list_copy(&r->jobs, sizeof *jobs, arena);
	struct request_module *modules = copy_modules(&r->modules, arena);
	struct request_stack *stacks = frames ? copy_stacks(&r->stacks, frames, arena) : NULL;
	if (!texts || !jobs || !modules || !stacks)
		return ERR_NO_MEMORY;
	for (size_t i = 0; i < r->jobs.count; i++) {
		struct request_job *job = &jobs[i];
		job->modules = modules;
		job->stacks = stacks;
		job->texts = texts;
		modules += job->module_count;
		stacks += job->stack_count;
		texts += job->text_count;
	}
	*out = (struct request){jobs, (uint32_t)r->jobs.count, r->frames.count, r->modules.count};
	return ERR_OK;
}

static void print_place(char *out, size_t size, const struct refusal *f)
{
	out[0] = 0;
	if (f->place == PLACE_MODULE)
		snprintf(out, size, "memoryMap %zu: ", f->item);
	else if (f->place == PLACE_FRAME)
		snprintf(out, size, "stack %zu frame %zu: ", f->item, f->frame);
	else if (f->place == PLACE_STACK)
		snprintf(out, size, "stack %zu: ", f->item);
}

/* The same for programs. */
static void set_place(struct error *e, const struct refusal *f)
{
	int n = snprintf(e->place, sizeof e->place, "{\"job\":%zu", f->in_job ? f->job : 0);
	if (f->place == PLACE_MODULE)
		n += snprintf(e->place + n, sizeof e->place - (size_t)n, ",\"module\":%zu", f->item);
	if (f->place == PLACE_FRAME || f->place == PLACE_STACK)
		n += snprintf(e->place + n, sizeof e->place - (size_t)n, ",\"stack\":%zu", f->item);
	if (f->place == PLACE_FRAME)
		n += snprintf(e->place + n, sizeof e->place - (size_t)n, ",\"frame\":%zu", f->frame);
	snprintf(e->place + n, sizeof e->place - (size_t)n, "}");
	if (f->place == PLACE_BODY || (!f->in_job && n == (int)strlen("{\"job\":0")))
		e->place[0] = 0;
}

static void report(const struct reading *r, enum err err, struct error *e)
{
	const struct refusal *f = &r->refusal;
	char job[32] = "", place[64];
	if (f->in_job)
		snprintf(job, sizeof job, "job %zu: ", f->job);
	print_place(place, sizeof place, f);
	if (err == ERR_NO_MEMORY) {
		error_set(e, err, "no memory for the request");
	} else if (err == ERR_CORRUPT) {
		error_set(e, ERR_BAD_REQUEST, "byte %td: %s", r->scan.at - r->scan.start, r->scan.fault);
		if (e)
			snprintf(e->place, sizeof e->place, "{\"byte\":%td}", r->scan.at - r->scan.start);
	} else {
		error_set(e, err, "%s%s%s%s%s", job, place, f->what, f->detail, f->rest);
		if (e)
			set_place(e, f);
	}
}

static void release_lists(struct reading *r)
{
	struct list *const lists[] = {&r->jobs, &r->modules, &r->stacks, &r->frames, &r->texts};
	for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		free(lists[i]->items);
		arena_hold(r->arena, -(int64_t)lists[i]->held);
	}
}

enum err request_read(struct request *request, struct str body, enum request_version version,
        const struct request_limits *limits, const struct yield *y, struct arena *arena, struct error *e)
{
	const uint8_t *start = (const uint8_t *)(body.data ? body.data : "");
	struct reading r = {.arena = arena, .limits = limits, .version = version};
	*request = (struct request){0};
	if (body.len > UINT32_MAX) /* so that every count fits in 32 bits */
		return error_set(e, ERR_BAD_REQUEST, "the body is longer than 4 GiB");
	r.scan = (struct scan){.start = start, .at = start, .end = start + body.len, .yield = y};
	enum err err = read_body(&r);
	if (!err)
		err = build(&r, request, arena);
	if (err)
		report(&r, err, e);
	release_lists(&r);
	return err == ERR_CORRUPT ? ERR_BAD_REQUEST : err;
}

/* ---- without the body ---- */

/* Where texts go; without memory, only counts how much they need. */
struct copies {
	struct str body;
	char *to;
	size_t bytes;
};

static void move_text(struct copies *c, struct str *s)
{
	if (!s->len || s->data < c->body.data || s->data >= c->body.data + c->body.len)
		return;
	if (c->to)
		s->data = memcpy(c->to + c->bytes, s->data, s->len);
	c->bytes += s->len;
}

static void move_texts(struct copies *c, const struct request *r)
{
	for (uint32_t j = 0; j < r->job_count; j++) {
		const struct request_job *job = &r->jobs[j];
		for (uint32_t i = 0; i < job->module_count; i++) {
			struct request_module *m = &job->modules[i];
			struct str *const texts[] = {&m->name_raw, &m->id_raw, &m->name, &m->id};
			for (unsigned k = 0; k < sizeof texts / sizeof *texts; k++)
				move_text(c, texts[k]);
		}
		for (uint32_t i = 0; i < job->text_count; i++)
			move_text(c, &job->texts[i]);
	}
}

bool request_leave_body(struct request *r, struct str body, size_t most, struct arena *arena)
{
	struct copies c = {.body = body};
	move_texts(&c, r);
	if (c.bytes > most || !(c.to = arena_alloc(arena, c.bytes)))
		return false;
	c.bytes = 0;
	move_texts(&c, r);
	return true;
}
