/* /symbolicate/v5, /symbolicate/v4 and the legacy /: read the request, get its modules, look its frames up, write the
 * reply. */
#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "format/reply_json.h"
#include "format/request_json.h"
#include "base/json_text.h"
#include "api/router.h"
#include "modules/services.h"
#include "store/bucket.h"
#include "modules/symbolicate.h"

enum { BLOCK = 256 * 1024 };    /* of the reply at a time */
enum { PAGES_MAX = 128 << 20 }; /* bytes of pages that a request may hold */
enum { ASKED_MAX = 1024 };      /* offsets for which a module may answer before it is loaded in whole */
enum { RESTARTS_MAX = 8 };      /* a page may be lost again while its module is loaded again */

enum { CACHE_LINE = 64, PREFETCH_STRING_MAX = 512 };
enum { AHEAD_SYMBOL = 12, AHEAD_INLINES = 8, AHEAD_NAMES = 4 }; /* frames */

enum { MODULE_UNUSED = -1 }; /* in place of the index of a want: no frame refers to the module */

struct session {
	struct load_wait wait; /* first: done finds the session by it */
	struct exchange *exchange;
	struct modules *modules;
	bool v4, debug;
	struct buffer body;
	struct request request;
	struct module_want *wants;
	uint32_t want_count;
	int32_t **want_of;   /* by job and module */
	uint32_t *stacks_of; /* frames that refer to each want, for debug */
	struct lookup *lookups;
	const struct symbol **symbol_of; /* by frame, counted through all jobs; NULL: it was not looked up */
	size_t lookup_count;
	struct symbols symbols;
	struct symbolicate_stats stats;
	unsigned restarts;
};

static void step(struct exchange *x);

static const char busy[] = "too many requests are loading symbols or hold too much memory; try again";
static const char late[] = "symbols did not arrive in time; what has arrived is kept: try again";

/* ---- modules ---- */

/* Wants by name and id, for one request. */
struct want_table {
	uint32_t *slots; /* index + 1 */
	uint32_t mask;
	uint64_t seed; /* so that nobody can choose modules that fall into one slot */
};

static uint32_t *want_slot(const struct session *s, struct want_table *t, const struct request_module *m)
{
	uint32_t at = (uint32_t)name_hash_seeded(m->name, m->id, t->seed) & t->mask;
	for (; t->slots[at]; at = (at + 1) & t->mask) {
		const struct module_want *w = &s->wants[t->slots[at] - 1];
		if (str_equal(w->name, m->name) && str_equal(w->id, m->id))
			break;
	}
	return &t->slots[at];
}

static bool init_sym(struct session *s, struct module_want *w, struct str name, struct str id)
{
	if (!module_want_init(w, s->modules, name, id))
		return false;
	if (!bucket_can_hold(name, id)) {
		w->state = WANT_FAILED;
		w->failure = FAILURE_MISSING;
	}
	return true;
}

/* FileIDs are known by their form, whatever the name. */
static bool init_want(struct session *s, struct module_want *w, struct str name, struct str id)
{
	struct file_id file_id;
	if (*s->exchange->config->symbfile_store && file_id_parse(&file_id, id))
		return module_want_init_file(w, name, id, &file_id);
	return init_sym(s, w, name, id);
}

/* What looks like a FileID, but is none that was uploaded, may be a debug id: then it is looked for in the buckets too.
 * *again: there are new wants. false: no memory. */
static bool try_buckets(struct session *s, bool *again)
{
	*again = false;
	for (uint32_t i = 0; i < s->want_count; i++) {
		struct module_want *w = &s->wants[i];
		if (!w->symbfile || w->state != WANT_FAILED || w->failure != FAILURE_MISSING)
			continue;
		if (!init_sym(s, w, w->name, w->id))
			return false;
		*again = true;
	}
	if (*again)
		modules_resolve(s->modules, s->wants, s->want_count, s->wait.deadline);
	return true;
}

/* The index of a module's want; `make` makes it when it is new. MODULE_UNUSED for one without name or id, or that
 * nobody wants. false: no memory. */
static bool find_want(
        struct session *s, struct want_table *t, const struct request_module *m, bool make, int32_t *index)
{
	*index = MODULE_UNUSED;
	if (!m->name.len || !m->id.len)
		return true;
	uint32_t *slot = want_slot(s, t, m);
	if (!*slot && make) {
		if (!init_want(s, &s->wants[s->want_count], m->name, m->id))
			return false;
		*slot = ++s->want_count;
	}
	if (*slot)
		*index = (int32_t)*slot - 1;
	return true;
}

/* Which modules of a job some frame refers to. */
static bool mark_used(struct arena *arena, const struct request_job *job, bool **used)
{
	*used = arena_calloc(arena, job->module_count + 1, sizeof **used);
	for (uint32_t i = 0; *used && i < job->stack_count; i++)
		for (uint32_t k = 0; k < job->stacks[i].count; k++)
			if (job->stacks[i].frames[k].module >= 0)
				(*used)[job->stacks[i].frames[k].module] = true;
	return *used != NULL;
}

/* Only modules that some frame of the request refers to are wanted. */
static bool collect_wants(struct session *s)
{
	struct arena *arena = s->exchange->arena;
	struct want_table table = {.mask = 15, .seed = modules_seed(s->modules)};
	while (table.mask < 2 * s->request.module_count)
		table.mask = 2 * table.mask + 1;
	table.slots = arena_calloc(arena, table.mask + 1, sizeof *table.slots);
	s->wants = arena_calloc(arena, s->request.module_count + 1, sizeof *s->wants);
	s->want_of = arena_calloc(arena, s->request.job_count + 1, sizeof *s->want_of);
	s->stacks_of = arena_calloc(arena, s->request.module_count + 1, sizeof *s->stacks_of);
	if (!table.slots || !s->wants || !s->want_of || !s->stacks_of)
		return false;
	for (int make = 1; make >= 0; make--)
		for (uint32_t j = 0; j < s->request.job_count; j++) {
			const struct request_job *job = &s->request.jobs[j];
			bool *used = NULL;
			if (make)
				s->want_of[j] = arena_alloc(arena, (job->module_count + 1) * sizeof **s->want_of);
			if (!s->want_of[j] || (make && !mark_used(arena, job, &used)))
				return false;
			for (uint32_t i = 0; i < job->module_count; i++)
				if ((!make || used[i]) &&
				        !find_want(s, &table, &job->modules[i], make, &s->want_of[j][i]))
					return false;
		}
	return true;
}

/* The frames to look up: those with an address in a module that is in this state. */
static bool collect_lookups(struct session *s, enum want_state state)
{
	struct arena *arena = s->exchange->arena;
	uint32_t frame = 0, number = 0;
	uint32_t *last_stack = arena_calloc(arena, s->want_count + 1, sizeof *last_stack);
	if (!s->lookups) {
		s->lookups = arena_alloc(arena, s->request.frame_count * sizeof *s->lookups);
		s->symbol_of = arena_alloc(arena, s->request.frame_count * sizeof *s->symbol_of);
	}
	if (!s->lookups || !s->symbol_of || !last_stack)
		return false;
	s->lookup_count = 0;
	memset(s->symbol_of, 0, s->request.frame_count * sizeof *s->symbol_of);
	memset(s->stacks_of, 0, s->want_count * sizeof *s->stacks_of);
	for (uint32_t j = 0; j < s->request.job_count; j++)
		for (uint32_t i = 0; i < s->request.jobs[j].stack_count; i++) {
			const struct request_stack *stack = &s->request.jobs[j].stacks[i];
			number++;
			for (uint32_t k = 0; k < stack->count; k++, frame++) {
				const struct request_frame *f = &stack->frames[k];
				int32_t want = f->module < 0 ? MODULE_UNUSED : s->want_of[j][f->module];
				if (want < 0)
					continue;
				if (last_stack[want] != number) {
					last_stack[want] = number;
					s->stacks_of[want]++;
				}
				if (f->kind == OFFSET_ADDRESS && s->wants[want].state == state)
					s->lookups[s->lookup_count++] =
					        (struct lookup){f->offset, (uint32_t)want, frame};
			}
		}
	return true;
}

/* What each module that must be loaded is wanted for, unless that is much. */
static void collect_asked(struct session *s)
{
	uint64_t **next = arena_calloc(s->exchange->arena, s->want_count + 1, sizeof *next);
	if (!next || !collect_lookups(s, WANT_LOAD))
		return;
	for (size_t i = 0; i < s->lookup_count; i++)
		s->wants[s->lookups[i].want].asked_count++;
	for (uint32_t i = 0; i < s->want_count; i++) {
		struct module_want *w = &s->wants[i];
		if (w->asked_count <= ASKED_MAX)
			next[i] = arena_alloc(s->exchange->arena, w->asked_count * sizeof **next);
		if (!next[i])
			w->asked_count = 0;
		w->asked = next[i];
	}
	for (size_t i = 0; i < s->lookup_count; i++)
		if (next[s->lookups[i].want])
			*next[s->lookups[i].want]++ = s->lookups[i].offset;
}

/* ---- the reply ---- */

/* Text that the reply is made of. Its size is known before a byte goes out: a first pass, with `block` NULL, only
 * counts. Then it is written into a block that goes out whenever it is full, and is always warm in the processor's
 * cache. */
struct writer {
	struct exchange *exchange;
	uint8_t *block, *at, *end;
	uint64_t size; /* counted */
	bool failed;   /* nobody takes it any more */
};

static void flush(struct writer *w)
{
	w->failed = w->failed || !exchange_reply_add(w->exchange, w->block, (size_t)(w->at - w->block));
	w->at = w->block;
}

static void write_across(struct writer *w, const char *data, size_t len)
{
	while (len) {
		size_t room = (size_t)(w->end - w->at), n = len < room ? len : room;
		w->at = put_text(w->at, data, n);
		data += n;
		len -= n;
		if (w->at == w->end)
			flush(w);
	}
}

static inline void write_bytes(struct writer *w, const void *data, size_t len)
{
	if (!w->block)
		w->size += len;
	else if (len <= (size_t)(w->end - w->at))
		w->at = len ? put_text(w->at, data, len) : w->at;
	else
		write_across(w, data, len);
}
#define WRITE(w, literal) write_bytes((w), (literal), sizeof(literal) - 1)

static void write_str(struct writer *w, struct str s)
{
	write_bytes(w, s.data, s.len);
}

static void write_number(struct writer *w, uint64_t v)
{
	uint8_t digits[20];
	write_bytes(w, digits, (size_t)(put_decimal(digits, v) - digits));
}

static void write_hex(struct writer *w, uint64_t v)
{
	uint8_t digits[18];
	write_bytes(w, digits, (size_t)(put_hex(digits, v) - digits));
}

static const char *found_word(const struct session *s, int32_t want)
{
	if (want == MODULE_UNUSED)
		return "null";
	return want >= 0 && s->wants[want].state == WANT_FOUND ? "true" : "false";
}

/* The PE file name that the symbols know, else the name as the request spelled it. */
static struct str module_name(const struct session *s, uint32_t j, const struct request_frame *f)
{
	if (f->module < 0)
		return str_from("<unknown>");
	const struct request_module *m = &s->request.jobs[j].modules[f->module];
	int32_t want = s->want_of[j][f->module];
	if (!s->v4 && want >= 0 && s->wants[want].state == WANT_FOUND) {
		const struct offmap *map = s->wants[want].module->map;
		if (map->code_file_len)
			return (struct str){map->code_file, map->code_file_len};
	}
	return m->name.len ? m->name_raw : str_from("<unknown>");
}

/* The block has room for the text of any symbol. */
static void write_symbol(struct writer *w, const struct symbol *symbol, bool v4)
{
	if (!w->block)
		return; /* counted in symbols.size */
	if (symbol->size > (size_t)(w->end - w->at))
		flush(w);
	w->at = (v4 ? put_v4_head : put_v5_tail)(w->at, symbol->offset, &symbol->answer);
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

static void write_v5_frame(struct writer *w, const struct session *s, uint32_t j, uint32_t k,
        const struct request_frame *f, uint32_t frame)
{
	WRITE(w, "{\"frame\":");
	write_number(w, k);
	WRITE(w, ",\"module\":\"");
	write_str(w, module_name(s, j, f));
	WRITE(w, "\",");
	if (s->symbol_of[frame]) {
		write_symbol(w, s->symbol_of[frame], false);
		return;
	}
	WRITE(w, "\"module_offset\":\"");
	write_offset(w, &s->request.jobs[j], f);
	WRITE(w, "\"}");
}

static void write_v4_frame(struct writer *w, const struct session *s, uint32_t j, uint32_t k,
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

/* The symbols of a large reply and their names lie far apart, so that each would be waited for: they are fetched while
 * those before them are written. First the symbol, then its inlined calls, then the names. */
static void prefetch_symbols(const struct session *s, uint32_t frame)
{
	uint32_t left = s->request.frame_count - frame;
	const struct symbol *far = left > AHEAD_SYMBOL ? s->symbol_of[frame + AHEAD_SYMBOL] : NULL,
	                    *nearer = left > AHEAD_INLINES ? s->symbol_of[frame + AHEAD_INLINES] : NULL,
	                    *near = left > AHEAD_NAMES ? s->symbol_of[frame + AHEAD_NAMES] : NULL;
	if (far) {
		__builtin_prefetch(far);
		__builtin_prefetch((const uint8_t *)far + CACHE_LINE);
	}
	for (uint32_t i = 0; nearer && i < nearer->answer.inline_count; i++)
		__builtin_prefetch(&nearer->answer.inlines[i]);
	if (!near)
		return;
	prefetch_string(near->answer.frame.function);
	prefetch_string(near->answer.frame.file);
	for (uint32_t i = 0; i < near->answer.inline_count; i++) {
		prefetch_string(near->answer.inlines[i].function);
		prefetch_string(near->answer.inlines[i].file);
	}
}

static void write_stacks(struct writer *w, const struct session *s, uint32_t j, uint32_t *frame)
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
			if (w->block)
				prefetch_symbols(s, *frame);
			(s->v4 ? write_v4_frame : write_v5_frame)(w, s, j, k, &job->stacks[i].frames[k], *frame);
		}
		WRITE(w, "]");
	}
	WRITE(w, "]");
}

/* A module that is listed twice is one key. Keys are compared as the request spelled them. */
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
	const struct str pairs[2][2] = {{x->name_raw, y->name_raw}, {x->id_raw, y->id_raw}};
	for (unsigned i = 0; i < 2; i++) {
		const struct str *p = pairs[i];
		size_t n = p[0].len < p[1].len ? p[0].len : p[1].len;
		int d = n ? memcmp(p[0].data, p[1].data, n) : 0;
		if (d || p[0].len != p[1].len)
			return d ? d : p[0].len < p[1].len ? -1 : 1;
	}
	return 0;
}

static void write_found_modules(struct writer *w, const struct session *s, uint32_t j, const uint32_t *order)
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

static void write_known_modules(struct writer *w, const struct session *s)
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

static void write_reply(struct writer *w, const struct session *s, uint32_t *const *orders, struct str debug)
{
	uint32_t frame = 0;
	if (s->v4) {
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
			write_found_modules(w, s, j, orders[j]);
			WRITE(w, "}");
		}
		WRITE(w, "]");
	}
	if (debug.len) {
		WRITE(w, ",\"debug\":");
		write_str(w, debug);
	}
	WRITE(w, "}");
}

/* ---- debug ---- */

static double seconds(int64_t nanoseconds)
{
	return (double)nanoseconds / 1e9;
}

/* false: no memory. */
static bool set_module(json_t *object, const struct module_want *w, json_t *value)
{
	char key[2 * 1024 + 2];
	int n = snprintf(key, sizeof key, "%.*s/%.*s", STR_FMT(w->name), STR_FMT(w->id));
	if (n > 0 && (size_t)n < sizeof key)
		return json_object_set_new(object, key, value) == 0;
	json_decref(value);
	return true;
}

/* NULL without memory. */
static json_t *debug_json(const struct session *s)
{
	json_t *stacks_per = json_object(), *sizes = json_object(), *times = json_object(), *fails = json_object(),
	       *parses = json_object(), *parse_fails = json_object(), *damaged = json_object(),
	       *missing = json_object();
	bool ok = true;
	int64_t download_time = 0, parse_time = 0;
	uint64_t download_bytes = 0, downloads = 0, loads = 0, real = s->request.frame_count;
	for (uint32_t j = 0; j < s->request.job_count; j++)
		real -= s->request.jobs[j].text_count;
	for (uint32_t i = 0; i < s->want_count; i++) {
		const struct module_want *w = &s->wants[i];
		ok &= set_module(stacks_per, w, json_integer(s->stacks_of[i]));
		if (w->state == WANT_FOUND && w->module->map->damaged)
			ok &= set_module(
			        w->symbfile ? missing : damaged, w, json_integer((json_int_t)w->module->map->damaged));
		if (w->fail_time)
			ok &= set_module(fails, w, json_real(seconds(w->fail_time)));
		loads += w->loaded;
		if (w->parse_fail_time)
			ok &= set_module(parse_fails, w, json_real(seconds(w->parse_fail_time)));
		if (!w->download_bytes)
			continue;
		downloads++;
		download_bytes += w->download_bytes;
		download_time += w->download_time;
		parse_time += w->parse_time;
		ok &= set_module(sizes, w, json_integer((json_int_t)w->download_bytes));
		ok &= set_module(times, w, json_real(seconds(w->download_time)));
		ok &= set_module(parses, w, json_real(seconds(w->parse_time)));
	}
	json_t *debug = json_pack(
	        "{s:f, s:{s:I, s:I}, s:{s:I, s:o}, s:{s:I, s:I, s:I, s:f}, s:{s:I, s:I, s:f, s:o, s:o, s:o}, "
	        "s:{s:f, s:o, s:o, s:o}, s:{s:f, s:{}}, s:o}",
	        "time", seconds(clock_now() - s->exchange->started), "stacks", "count",
	        (json_int_t)s->request.frame_count, "real", (json_int_t)real, "modules", "count",
	        (json_int_t)s->want_count, "stacks_per_module", stacks_per, "cache_lookups", "count",
	        (json_int_t)(s->stats.cache_count + s->want_count), "hits",
	        (json_int_t)(s->stats.cache_hits + s->want_count - loads), "size", (json_int_t)s->stats.cache_bytes,
	        "time", seconds(s->stats.cache_time), "downloads", "count", (json_int_t)downloads, "size",
	        (json_int_t)download_bytes, "time", seconds(download_time), "size_per_module", sizes, "time_per_module",
	        times, "fail_time_per_module", fails, "parse_sym", "time", seconds(parse_time), "time_per_module",
	        parses, "fail_time_per_module", parse_fails, "damaged_lines_per_module", damaged, "save_symcache",
	        "time", 0.0, "time_per_module", "missing_parts_per_module", missing);
	if (ok)
		return debug;
	json_decref(debug);
	return NULL;
}

/* ---- the course of a request ---- */

static void release(struct session *s)
{
	modules_leave(s->modules, &s->wait);
	for (uint32_t i = 0; i < s->want_count; i++)
		module_want_release(&s->wants[i]);
	buffer_release(&s->body);
	symbols_release(&s->symbols);
}

static void fail(struct session *s, enum err code, unsigned retry_after, const char *text)
{
	struct error e;
	struct exchange *x = s->exchange;
	error_set(&e, code, "%s", text);
	release(s);
	exchange_reply_error(x, &e, retry_after);
}

static void count_results(struct session *s)
{
	uint64_t found = 0, missing = 0, skipped = 0;
	s->exchange->frames = s->request.frame_count;
	s->exchange->modules = s->want_count;
	for (uint32_t i = 0; i < s->want_count; i++) {
		*(s->wants[i].state == WANT_FOUND ? &found : &missing) += 1;
		s->exchange->loads += s->wants[i].loaded;
	}
	for (uint32_t j = 0; j < s->request.job_count; j++)
		skipped += s->request.jobs[j].text_count;
	metric_add(M_MODULES_FOUND, (int64_t)found);
	metric_add(M_MODULES_MISSING, (int64_t)missing);
	metric_add(M_FRAMES_TOTAL, (int64_t)s->stats.found);
	metric_add(M_FRAMES_UNKNOWN, (int64_t)(s->request.frame_count - skipped - s->stats.found));
	metric_add(M_FRAMES_SKIPPED, (int64_t)skipped);
}

static void too_large(struct session *s)
{
	fail(s, ERR_BAD_REQUEST, 0, "reply too large: ask for fewer frames");
}

static uint32_t **order_modules(const struct session *s)
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

/* A small reply is one block, so that one call takes it. */
static bool make_block(struct writer *w, const struct session *s)
{
	uint64_t most = s->symbols.largest > BLOCK ? s->symbols.largest : BLOCK;
	size_t room = w->size < most ? w->size : most;
	w->block = w->at = malloc(room);
	w->end = w->block ? w->block + room : NULL;
	return w->block != NULL;
}

static void write_out(struct writer *w, struct session *s, uint32_t *const *orders, struct str debug)
{
	struct exchange *x = s->exchange;
	count_results(s);
	exchange_reply_begin(x, 200, "application/json", w->size);
	write_reply(w, s, orders, debug);
	flush(w);
	release(s);
	exchange_reply_end(x);
}

static void reply(struct session *s)
{
	json_t *debug = s->debug ? debug_json(s) : NULL;
	char *debug_text = json_text(debug, JSON_COMPACT | JSON_SORT_KEYS);
	struct str debug_str = debug_text ? str_from(debug_text) : (struct str){"", 0};
	uint32_t **orders = order_modules(s);
	struct writer w = {.exchange = s->exchange, .size = s->symbols.size};
	json_decref(debug);
	if (orders)
		write_reply(&w, s, orders, debug_str);
	if (w.size > s->exchange->config->max_reply)
		too_large(s);
	else if (!orders || (s->debug && !debug_text) || !make_block(&w, s))
		fail(s, ERR_NO_MEMORY, 1, "out of memory");
	else
		write_out(&w, s, orders, debug_str);
	free(w.block);
	free(debug_text);
}

/* A temporary failure of one module is one of the request. */
static bool refuse_temporary(struct session *s)
{
	unsigned retry_after = 0;
	const struct module_want *first = NULL;
	for (uint32_t i = 0; i < s->want_count; i++) {
		const struct module_want *w = &s->wants[i];
		if (w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY) {
			first = first ? first : w;
			retry_after = w->retry_after > retry_after ? w->retry_after : retry_after;
		}
	}
	if (!first)
		return false;
	char text[200];
	snprintf(text, sizeof text, "symbols of %.*s/%.*s cannot be had at present; try again",
	        first->name.len > 80 ? 80 : (int)first->name.len, first->name.data,
	        first->id.len > 50 ? 50 : (int)first->id.len, first->id.data);
	fail(s, ERR_UNAVAILABLE, retry_after, text);
	return true;
}

static void wait_done(struct load_wait *wait)
{
	struct session *s = (struct session *)wait;
	exchange_resume(s->exchange, step);
}

static bool is_gone(const struct load_wait *wait)
{
	return exchange_gone(((const struct session *)wait)->exchange);
}

/* Looks up and answers, as often as pages turn out to be lost. Returns true when the modules must be loaded first. */
static bool answer(struct session *s)
{
	symbols_release(&s->symbols);
	s->stats.found = 0;
	if (!collect_lookups(s, WANT_FOUND)) {
		fail(s, ERR_NO_MEMORY, 1, "out of memory");
		return false;
	}
	switch (symbolicate(s->modules, s->wants, s->want_count, s->lookups, s->lookup_count, s->v4, &s->symbols,
	        s->symbol_of, &s->stats)) {
	case SYMBOLICATE_OK:
		reply(s);
		return false;
	case SYMBOLICATE_LOAD:
		if (++s->restarts <= RESTARTS_MAX)
			return true;
		fail(s, ERR_UNAVAILABLE, 1, "pages of a module were lost again and again; try again");
		return false;
	case SYMBOLICATE_TOO_LATE:
		fail(s, ERR_UNAVAILABLE, 1, late);
		return false;
	case SYMBOLICATE_TOO_LARGE:
		too_large(s);
		return false;
	default:
		fail(s, ERR_NO_MEMORY, 1, "out of memory");
		return false;
	}
}

/* From wherever the request is: runs until it is answered or must wait. */
static void step(struct exchange *x)
{
	struct session *s = x->user;
	if (exchange_gone(x)) {
		fail(s, ERR_UNAVAILABLE, 1, "the client went away");
		return;
	}
	if (s->wait.refused) {
		fail(s, ERR_UNAVAILABLE, 2, busy);
		return;
	}
	if (s->wait.timed_out || clock_now() >= s->wait.deadline) {
		fail(s, ERR_UNAVAILABLE, 1, late);
		return;
	}
	/* a failure that is remembered is answered at once, whatever else would have to be loaded */
	if (refuse_temporary(s))
		return;
	bool again;
	do {
		switch (modules_load(s->modules, &s->wait, s->wants, s->want_count)) {
		case LOAD_WAIT:
			return;
		case LOAD_REFUSED:
			fail(s, ERR_UNAVAILABLE, 2, busy);
			return;
		case LOAD_READY:
			break;
		}
		if (refuse_temporary(s))
			return;
		if (!try_buckets(s, &again)) {
			fail(s, ERR_NO_MEMORY, 1, "out of memory");
			return;
		}
	} while (again || answer(s));
}

static bool wants_debug(const struct exchange *x)
{
	static const char *const off[] = {"", "0", "false", "no"};
	const char *value = exchange_param(x, "HTTP_DEBUG");
	bool on = value != NULL;
	for (unsigned i = 0; on && i < sizeof off / sizeof *off; i++)
		on = strcasecmp(value, off[i]) != 0;
	return on;
}

static void start(struct exchange *x, bool v4)
{
	struct error e;
	const struct config *c = x->config;
	struct request_limits limits = {c->max_jobs, c->max_frames, c->max_modules, c->max_stacks};
	struct session *s = arena_calloc(x->arena, 1, sizeof *s);
	if (!s) {
		error_set(&e, ERR_NO_MEMORY, "out of memory");
		exchange_reply_error(x, &e, 1);
		return;
	}
	s->exchange = x;
	s->modules = services_modules();
	s->v4 = v4;
	s->debug = wants_debug(x);
	s->wait.done = wait_done;
	s->wait.gone = is_gone;
	s->wait.deadline = x->started + c->request_timeout;
	x->user = s;
	buffer_init(&s->body, c->max_body_inflated);
	symbols_init(&s->symbols, c->max_reply, c->cache_size / 4 < PAGES_MAX ? c->cache_size / 4 : PAGES_MAX,
	        s->wait.deadline);
	enum err err = exchange_read_body(x, &s->body, &e);
	if (!err)
		err = request_read(&s->request, (struct str){(const char *)s->body.data, s->body.len},
		        v4 ? REQUEST_V4 : REQUEST_V5, &limits, x->arena, &e);
	if (err) {
		e.code = err;
		release(s);
		exchange_reply_error(x, &e, 1);
	} else if (!collect_wants(s)) {
		fail(s, ERR_NO_MEMORY, 1, "out of memory");
	} else {
		modules_resolve(s->modules, s->wants, s->want_count, s->wait.deadline);
		if (!s->debug) /* debug tells of the whole file */
			collect_asked(s);
		step(x);
	}
}

void symbolicate_v5_handle(struct exchange *x)
{
	start(x, false);
}

void symbolicate_v4_handle(struct exchange *x)
{
	start(x, true);
}
